"""Stage 4: similarities across languages, with the teacher's vectors beside them."""

from typing import Any

import keras

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.losses.multilingual_contrastive import MultilingualContrastive
from keras_msd.stages.base import Stage

CE_HARD_WEIGHT = 0.01  # the factor in the authors' code


class ContrastiveLearning(Stage):
    """The student imitates the teacher's vectors and its similarities in a batch.

    `kd_weight * (mse(source, teacher) + mse(target, teacher)) + contrastive_weight *
    contrastive`. In-batch terms need batches of a sentence count, not of a token
    budget; on several replicas each sees only its own rows.

    Targets: `teacher` `(n, dim)`, vectors of the English side.
    Terms: `source_mse`, `target_mse` and, unless left out, `contrastive`.

    Args:
        encoder: The student.
        target: What similarities imitate: "soft", "bool", "ce_soft", "ce_hard" or
            "softmax", see `MultilingualContrastive`.
        temperature: Divides the cosines of both cross-entropies.
        contrastive: A loss of your own in place of `MultilingualContrastive`, called
            with `((teacher, group), (source, target))`; None leaves the term out (the
            paper's "w/o CL").
        kd_weight: Factor of both mean squared errors. For unit vectors `dim / 2` makes
            each the batch mean of `1 - cos`, of the size of the contrastive term.
        contrastive_weight: Factor of the contrastive term; by default 1, and 0.01 for
            "ce_hard".
        dims: "mean" or "sum", see `EmbeddingMSE`.
        name: Name of the stage.
        chunk_size: As for `Stage`.

    Raises:
        InputError: An argument is out of its range.

    Source: Ding et al. 2022, eq. 5 to 9.
    """

    targets = ("teacher",)
    terms: tuple[str, ...] = ("source_mse", "target_mse", "contrastive")

    def __init__(
        self,
        encoder: Any,
        target: str = "soft",
        temperature: float = 0.05,
        contrastive: keras.losses.Loss | str | None = "default",
        kd_weight: float = 1.0,
        contrastive_weight: float | None = None,
        dims: str = "mean",
        name: str | None = None,
        chunk_size: int | None = None,
    ) -> None:
        own = MultilingualContrastive(target, temperature)
        if isinstance(contrastive, str):
            checks.one_of(["default"], contrastive=contrastive)
        default = isinstance(contrastive, str)
        if contrastive_weight is None:
            hard = default and target == "ce_hard"
            contrastive_weight = CE_HARD_WEIGHT if hard else 1.0
        checks.at_least(0, kd_weight=kd_weight, contrastive_weight=contrastive_weight)
        weights = {"source_mse": kd_weight, "target_mse": kd_weight}
        if contrastive is None:
            self.terms = ("source_mse", "target_mse")
        else:
            weights["contrastive"] = contrastive_weight
        super().__init__(encoder, dims, name, chunk_size, **weights)
        self.contrastive: Any = own if default else contrastive

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return all terms.

        Raises:
            InputError: The batch has no `group`.
        """
        goal, source, target = y["teacher"], embeddings["source"], embeddings["target"]
        terms = {
            "source_mse": self.mse(goal, source),
            "target_mse": self.mse(goal, target),
        }
        if self.contrastive is None:
            return terms
        if "group" not in x:
            raise InputError(
                "`ContrastiveLearning` needs `group` in the batch: for every row, the "
                f"first with the same English line. Received: {', '.join(sorted(x))}."
            )
        pair = (source, target)
        return terms | {"contrastive": self.contrastive((goal, x["group"]), pair)}
