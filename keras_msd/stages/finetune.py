"""Fine-tuning on labelled sentence pairs: graded similarity, inference."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_msd.checks import InputError, at_least
from keras_msd.losses.distances import CosineSimilarityMSE, SoftmaxClassification
from keras_msd.stages.stage import LossTerm, Stage


class RegressSimilarity(Stage):
    """Fit the cosine of two sentences to their gold similarity.

    The loss is `mean_i (cos(source_i, target_i) - gold_i)^2`, where `source` is the
    first sentence of a row and `target` the second. The stage needs no teacher. Make
    batches with `data.ScoredBatches`.

    Targets: `gold` `(n,)`, similarities in [0, 1].
    Terms: `similarity_mse`, the mean over the batch.
    Arguments: as for `Stage`; `dims` has no effect.

    Source: Reimers and Gurevych 2019, section 3 (regression objective).

    Example:
        >>> stage = msd.stages.RegressSimilarity(msd.testing.tiny_encoder())
        >>> stage.terms, stage.targets
        (('similarity_mse',), ('gold',))
    """

    targets = ("gold",)

    def __init__(
        self, encoder: Any, losses: Iterable[LossTerm] = (), **options: Any
    ) -> None:
        similarity = LossTerm("similarity_mse", CosineSimilarityMSE(), "gold")
        super().__init__(encoder, losses=(similarity, *losses), **options)

    def check_width(self, name: str, target: Any, embedding: Any) -> None:
        """Raise `InputError` unless there is one gold similarity per row."""
        makers = "`ScoredBatches`"
        _check_one_each(name, target, embedding, "similarity", makers)


class ClassifyInference(Stage):
    """Classify two sentences as entailment, neutral or contradiction.

    The loss is the cross-entropy of `softmax([u; v; |u - v|] W)`. u is the embedding of
    the premise (`source`), v the embedding of the hypothesis (`target`). W, `(3 dim,
    classes)`, is trained with the encoder; `trained_encoder` does not contain it. The
    stage needs no teacher. Make batches with `data.InferenceBatches`.

    Targets: `label` `(n,)`, ids of classes from 0, int32.
    Terms: `cross_entropy`, the mean over the batch.

    Args:
        encoder: The encoder to train.
        classes: Number of classes, 2 or more.
        **options: As for `Stage`; `dims` has no effect.

    Raises:
        InputError: `classes` is below 2.

    Source: Reimers and Gurevych 2019, section 3 (classification objective).

    Example:
        >>> stage = msd.stages.ClassifyInference(msd.testing.tiny_encoder())
        >>> stage.terms, stage.targets, tuple(stage.dense.kernel.shape)
        (('cross_entropy',), ('label',), (48, 3))
    """

    terms: tuple[str, ...] = ("cross_entropy",)
    targets: tuple[str, ...] = ("label",)

    def __init__(self, encoder: Any, classes: int = 3, **options: Any) -> None:
        at_least(2, classes=classes)
        super().__init__(encoder, **options)
        self.classification = SoftmaxClassification()
        self.dense = keras.layers.Dense(
            classes, use_bias=False, dtype="float32", name="dense"
        )
        self.dense.build((None, 3 * self.network.output_shape[-1]))

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return the cross-entropy, and the terms of `losses`."""
        given = embeddings["source"], embeddings["target"], self.dense.kernel
        terms = super().loss_terms(x, y, embeddings)
        return terms | {"cross_entropy": self.classification(y["label"], given)}

    def check_width(self, name: str, target: Any, embedding: Any) -> None:
        """Raise `InputError` unless there is one label per row."""
        makers = "`InferenceBatches`"
        _check_one_each(name, target, embedding, "label", makers)


def _check_one_each(
    name: str, target: Any, embedding: Any, what: str, makers: str
) -> None:
    """Raise `InputError` unless a target has one value per row.

    Args:
        name: Name of the target.
        target: A tensor, checked to be `(n,)`.
        embedding: Embeddings of the n rows.
        what: Name of the value, for the error message.
        makers: Functions that make such batches, for the error message.
    """
    shape, rows = tuple(target.shape), embedding.shape[0]
    if len(shape) != 1 or (None not in (*shape, rows) and shape[0] != rows):
        raise InputError(
            f"The target `{name}` must be one {what} per row, (n,). Received: shape "
            f"{shape} for {'n' if rows is None else rows} rows. Make batches with "
            f"{makers}."
        )
