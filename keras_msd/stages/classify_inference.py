"""Fine-tuning on natural language inference."""

from typing import Any

import keras

from keras_msd.checks import at_least
from keras_msd.losses import SoftmaxClassification
from keras_msd.models.encoder import Encoder
from keras_msd.stages.settings import RowSettings, Words
from keras_msd.stages.stage import Stage, StageRecord
from keras_msd.training.chunks import Tensor, Tensors


class InferenceSettings(RowSettings):
    """`[stages.classify_inference]`: fine-tuning on NLI labels.

    `sets` names files `nli/<set>.train.<xx>.tsv.gz` (or .jsonl.gz, .tsv, .jsonl), which
    `data.read_inference` reads.
    """

    needed = 'a set, as in sets = ["snli"]'

    sets: Words = ()


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

    def __init__(
        self, encoder: Encoder | keras.Model, classes: int = 3, **options: Any
    ) -> None:
        at_least(2, classes=classes)
        super().__init__(encoder, **options)
        self.classification = SoftmaxClassification()
        self.dense = keras.layers.Dense(
            classes, use_bias=False, dtype="float32", name="dense"
        )
        self.dense.build((None, 3 * self.network.output_shape[-1]))

    def loss_terms(
        self, x: Tensors, y: Tensors, embeddings: Tensors
    ) -> dict[str, Tensor]:
        """Return the cross-entropy, and the terms of `losses`."""
        given = embeddings["source"], embeddings["target"], self.dense.kernel
        terms = super().loss_terms(x, y, embeddings)
        return terms | {"cross_entropy": self.classification(y["label"], given)}

    def target_shape(self, target: Tensor, embedding: Tensor) -> tuple[int, ...]:
        """Return `()`: there is one label per row."""
        return ()


RECORD = StageRecord(
    ClassifyInference,
    InferenceSettings,
    trains="last",
    rows="inference",
    needs_assistant=False,
    label="NLI",
)
