"""Stage 4: the student imitates the teacher's vectors and similarities."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import keras

from keras_msd import checks
from keras_msd.choices import Target
from keras_msd.losses import Matryoshka, MultilingualContrastive
from keras_msd.models.encoder import Encoder
from keras_msd.stages.settings import Counts, NotNegative, PairStageSettings, Positive
from keras_msd.stages.stage import OF_SOURCE, LossTerm, Stage, StageRecord, complete

CE_HARD_WEIGHT = 0.01  # the factor in the authors' code


class ContrastiveSettings(PairStageSettings):
    """`[stages.contrastive_learning]`: arguments of `ContrastiveLearning`.

    `target` "none" leaves the contrastive term out (the paper's "w/o CL"). What is not
    set has the default of `ContrastiveLearning`.
    """

    kd_weight: NotNegative | None = None
    contrastive_weight: NotNegative | None = None
    target: Literal[Target, "none"] = "soft"
    temperature: Positive | None = None
    goal_temperature: Positive | None = None
    matryoshka_dims: Counts | None = None

    def arguments(self) -> dict[str, Any]:
        """Return its fields; without the contrastive term those of the others."""
        given = super().arguments()
        if self.target != "none":
            return given
        kept = "dims", "quantize", "kd_weight", "matryoshka_dims"
        return {key: given[key] for key in kept if key in given} | {"contrastive": None}


class ContrastiveLearning(Stage):
    """The student imitates the teacher's vectors and similarities in a batch.

    The loss is `kd_weight * (mse(source, teacher) + mse(target, teacher)) +
    contrastive_weight * contrastive`, where `target` is the translation. If you write
    your own batches, give each the same number of pairs. The printings of equation 6
    differ as those of equation 2, see `TeachAssistant`.

    Targets: `teacher` `(n, dim)`, vectors of the source side.
    Terms: `source_mse`, `target_mse` and, unless left out, `contrastive`.

    Args:
        encoder: The student.
        target: Target of the similarities: "soft", "bool", "ce_soft", "ce_hard" or
            "softmax", see `MultilingualContrastive`.
        temperature: Divides the student's cosines, except for "soft" and "bool".
        goal_temperature: Divides the teacher's cosines in "softmax"; default
            `temperature`.
        contrastive: Your own loss instead of `MultilingualContrastive`, called with
            `((teacher, group), (source, target))`. None removes the term (the paper's
            "w/o CL").
        kd_weight: Weight of both mean squared errors; default 1. For vectors of length
            1, the errors are then small beside the contrastive term. With `dim / 2`,
            each weighted error is the batch mean of `1 - cos`, and the terms are of
            similar size.
        contrastive_weight: Weight of the contrastive term; default 1, and 0.01 for
            "ce_hard".
        losses: Further `LossTerm`s.
        matryoshka_dims: Numbers of leading dimensions. The contrastive term and
            `losses` are also computed on embeddings shortened to each number, see
            `Matryoshka`. The squared errors always compare whole embeddings.
        **options: As for `Stage`.

    Raises:
        InputError: An argument is out of its range.

    Source: Ding et al. 2022, eq. 5 to 9.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> stage = msd.stages.ContrastiveLearning(encoder, target="ce_hard")
        >>> stage.term_weights
        {'source_mse': 1.0, 'target_mse': 1.0, 'contrastive': 0.01}
    """

    goals = {"source": "teacher", "target": "teacher"}
    targets = ("teacher",)

    def __init__(
        self,
        encoder: Encoder | keras.Model,
        target: str = "soft",
        temperature: float = 0.05,
        contrastive: keras.losses.Loss | str | None = "default",
        kd_weight: float = 1.0,
        contrastive_weight: float | None = None,
        losses: Iterable[LossTerm] = (),
        matryoshka_dims: Sequence[int] = (),
        goal_temperature: float | None = None,
        **options: Any,
    ) -> None:
        similarity = MultilingualContrastive(
            target, temperature, goal_temperature=goal_temperature
        )
        default = isinstance(contrastive, str)
        if default:
            checks.one_of(["default"], contrastive=contrastive)
            contrastive = similarity
        if contrastive_weight is None:
            hard = default and target == "ce_hard"
            contrastive_weight = CE_HARD_WEIGHT if hard else 1.0
        checks.at_least(0, kd_weight=kd_weight, contrastive_weight=contrastive_weight)
        if contrastive is not None:
            term = LossTerm("contrastive", contrastive, "teacher", grouped=True)
            losses = (term._replace(weight=contrastive_weight), *losses)
        if matryoshka_dims:
            losses = [_with_prefixes(term, matryoshka_dims) for term in losses]
        weights = {"source_mse": kd_weight, "target_mse": kd_weight}
        super().__init__(encoder, losses=losses, **weights | options)


def _with_prefixes(term: LossTerm, dims: Sequence[int]) -> LossTerm:
    loss = complete(term).loss
    whole = Matryoshka(loss, dims, reduction=loss.reduction, name=loss.name)
    return term._replace(loss=whole)


RECORD = StageRecord(ContrastiveLearning, ContrastiveSettings, guides=OF_SOURCE)
# Before stage 1, for the assistant.
PRETRAINING = StageRecord(
    ContrastiveLearning,
    ContrastiveSettings,
    guides=OF_SOURCE,
    trains="assistant",
    label="pre-training",
)
