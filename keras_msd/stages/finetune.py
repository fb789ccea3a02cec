"""Fine-tuning on labelled sentence pairs: graded similarity, inference."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_msd.checks import at_least
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

    def target_shape(self, target: Any, embedding: Any) -> tuple[int, ...]:
        """Return `()`: there is one gold similarity per row."""
        return ()


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

    def target_shape(self, target: Any, embedding: Any) -> tuple[int, ...]:
        """Return `()`: there is one label per row."""
        return ()
