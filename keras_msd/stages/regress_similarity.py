"""Fine-tuning on graded similarity (STS)."""

from collections.abc import Iterable
from typing import Any

import keras
from pydantic import Field

from keras_msd.choices import GoldScale
from keras_msd.losses import CosineSimilarityMSE
from keras_msd.models.encoder import Encoder
from keras_msd.stages.settings import Count, RowSettings, Words
from keras_msd.stages.stage import LossTerm, Stage, StageRecord
from keras_msd.training.chunks import Tensor


class RegressSettings(RowSettings):
    """`[stages.regress_similarity]`: fine-tuning on STS scores, the last stage.

    `sets` maps `sts/<set>.train.<xx>.tsv.gz` to the scale of its scores, see
    `data.scale_gold`. The best weights are kept by Spearman on `dev_set`, the mean of
    `dev_languages` (by default `languages`), before training, every `evaluate_every`
    training steps (by default each epoch) and at the end. The stage ends after
    `patience` scores without a new best.
    """

    needed = 'a set and its scale, as in stsb = "over_5"'

    sets: dict[str, GoldScale] = Field(default_factory=dict)
    dev_set: str = "stsb"
    dev_languages: Words = ()
    evaluate_every: Count | None = None
    patience: Count | None = None


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
        self,
        encoder: Encoder | keras.Model,
        losses: Iterable[LossTerm] = (),
        **options: Any,
    ) -> None:
        similarity = LossTerm("similarity_mse", CosineSimilarityMSE(), "gold")
        super().__init__(encoder, losses=(similarity, *losses), **options)

    def target_shape(self, target: Tensor, embedding: Tensor) -> tuple[int, ...]:
        """Return `()`: there is one gold similarity per row."""
        return ()


RECORD = StageRecord(
    RegressSimilarity,
    RegressSettings,
    trains="last",
    rows="scored",
    needs_assistant=False,
    label="STS",
)
