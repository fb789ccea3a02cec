"""The four stages of multi-stage distillation (Ding et al. 2022)."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
from keras import ops

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.layers.pooling import masked_mean
from keras_msd.losses.distances import EmbeddingMSE
from keras_msd.losses.similarities import MultilingualContrastive
from keras_msd.losses.table import Matryoshka
from keras_msd.stages.stage import LossTerm, Stage, complete

CE_HARD_WEIGHT = 0.01  # the factor in the authors' code


class TeachAssistant(Stage):
    """Both sides imitate the teacher's vector of the source side, usually English.

    The loss is `mse(source, teacher) + mse(target, teacher)`, where `target` is the
    translation. The teacher may read only English, so both terms use its vector of the
    source side.

    Targets: `teacher` `(n, dim)`, vectors of the source side.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 2; Reimers & Gurevych 2020.

    Example:
        >>> stage = msd.stages.TeachAssistant(msd.testing.tiny_encoder())
        >>> stage.targets
        ('teacher',)
    """

    goals = {"source": "teacher", "target": "teacher"}


class AlignEmbedding(Stage):
    """The student's embedding block imitates the assistant's on the same sentence.

    The stage runs, trains and saves only the layer `embedding`, no transformer layer.
    As in the authors' code it compares masked means over the tokens: `mse(mean(source),
    embedding_source) + mse(mean(target), embedding_target)`. With `per_token`, our
    extension, it compares the vectors of all tokens except padding. Student and
    assistant must then share the tokenizer.

    Targets: `embedding_source` and `embedding_target`, from
        `assistant.embedding_guide()`: `(n, hidden_dim)`; with `per_token`, from
        `embedding_guide(per_token=True)`: `(n, max_length * hidden_dim)`.
    Terms: `source_mse`, `target_mse`.

    Args:
        encoder: The student.
        per_token: Whether to compare the vectors of all tokens instead of their mean.
        dims: "mean" or "sum", see `EmbeddingMSE`.
        **options: As for `Stage`.

    Raises:
        InputError: The model has no layer `embedding`.

    Source: Ding et al. 2022, eq. 3.

    Example:
        >>> stage = msd.stages.AlignEmbedding(msd.testing.tiny_encoder())
        >>> stage.network.name, stage.targets
        ('embedding', ('embedding_source', 'embedding_target'))
    """

    goals = {"source": "embedding_source", "target": "embedding_target"}

    def __init__(
        self, encoder: Any, per_token: bool = False, dims: str = "mean", **options: Any
    ) -> None:
        super().__init__(encoder, dims=dims, **options)
        self.per_token = per_token
        self.token_mse = EmbeddingMSE(dims, reduction="mean_with_sample_weight")

    def trained_part(self, model: keras.Model) -> Any:
        """Return the embedding block."""
        names = [layer.name for layer in model.layers]
        if "embedding" not in names:
            raise InputError(
                "`AlignEmbedding` needs a model with a layer named `embedding`. "
                f"Received: {', '.join(names)}."
            )
        return model.get_layer("embedding")

    def embed(self, token_ids: Any, padding_mask: Any, training: bool | None) -> Any:
        """Return `(n, hidden_dim)`; with `per_token` `(n, length, hidden_dim)`."""
        hidden = self.network(token_ids, training=training)
        return hidden if self.per_token else masked_mean(hidden, padding_mask)

    def distance(self, goal: Any, embedding: Any, side: str, x: Any) -> Any:
        """Return the MSE between means, or between token vectors."""
        if not self.per_token:
            return self.mse(goal, embedding)
        width = embedding.shape[-1]
        tokens = ops.reshape(goal, (-1, goal.shape[-1] // width, width))
        tokens = tokens[:, : ops.shape(embedding)[1]]
        return self.token_mse(
            tokens, embedding, sample_weight=x[f"{side}_padding_mask"]
        )

    def target_shape(self, target: Any, embedding: Any) -> tuple[int, ...]:
        """Return the shape that each row of a target must have.

        With `per_token`, a row holds whole token vectors, at least as many as the
        batch is long.
        """
        if not self.per_token:
            return super().target_shape(target, embedding)
        _, length, width = embedding.shape
        return (max(length or 1, target.shape[-1] // width) * width,)


class TeachStudent(Stage):
    """Each side imitates the assistant's vector of the same sentence.

    The loss is `mse(source, assistant(source)) + mse(target, assistant(target))`, where
    `target` is the translation.

    Targets: `assistant_source` and `assistant_target` `(n, dim)`, the assistant's
        vectors of the source side and of the translation.
    Terms: `source_mse`, `target_mse`, means over batch and dims.
    Arguments: as for `Stage`.

    Source: Ding et al. 2022, eq. 4.

    Example:
        >>> stage = msd.stages.TeachStudent(msd.testing.tiny_encoder())
        >>> stage.targets
        ('assistant_source', 'assistant_target')
    """

    goals = {"source": "assistant_source", "target": "assistant_target"}


class ContrastiveLearning(Stage):
    """The student imitates the teacher's vectors and similarities in a batch.

    The loss is `kd_weight * (mse(source, teacher) + mse(target, teacher)) +
    contrastive_weight * contrastive`, where `target` is the translation. If you write
    your own batches, give each the same number of pairs.

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

    def __init__(
        self,
        encoder: Any,
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
