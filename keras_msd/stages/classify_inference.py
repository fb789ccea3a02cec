"""Fine-tuning on natural language inference: the relation of two sentences is told."""

from typing import Any

import keras

from keras_msd.checks import at_least
from keras_msd.losses.distances import SoftmaxClassification
from keras_msd.stages.base import Stage
from keras_msd.stages.regress_similarity import check_one_each


class ClassifyInference(Stage):
    """Embeddings of two sentences tell whether one entails the other.

    Cross-entropy of `softmax([u; v; |u - v|] W)`, where u is the embedding of a row's
    premise (`source`) and v that of its hypothesis (`target`). W, `(3 dim, classes)`,
    is trained beside the encoder; `trained_encoder` knows nothing of it. It needs no
    guide. Batches come from `data.inference_dataset` or `data.InferenceBatches`.

    Targets: `label` `(n,)`, ids of classes from 0, int32.
    Terms: `cross_entropy`, the mean over the batch.

    Args:
        encoder: What is trained.
        classes: How many classes there are, 2 or more.
        **options: As for `Stage`; `dims` means nothing here.

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
        makers = "`inference_dataset` or `InferenceBatches`"
        check_one_each(name, target, embedding, "label", makers)
