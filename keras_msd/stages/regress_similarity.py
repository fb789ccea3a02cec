"""Fine-tuning on similarity scores: the cosine of two sentences becomes the gold."""

from typing import Any

from keras_msd.checks import InputError
from keras_msd.losses.cosine_similarity_mse import CosineSimilarityMSE
from keras_msd.stages.base import Stage


class RegressSimilarity(Stage):
    """The cosine of two sentences imitates their gold similarity.

    `mean_i (cos(source_i, target_i) - gold_i)^2`, where `source` is a row's first
    sentence and `target` its second. It needs no guide. Batches come from
    `data.scored_dataset` or `data.ScoredBatches`, which scale the gold scores.

    Targets: `gold` `(n,)`, similarities in [0, 1].
    Terms: `similarity_mse`, the mean over the batch.
    Arguments: as for `Stage`; `dims` means nothing here.

    Source: Reimers and Gurevych 2019, section 3 (regression objective).
    """

    targets = ("gold",)
    terms = ("similarity_mse",)

    def __init__(self, encoder: Any, **options: Any) -> None:
        super().__init__(encoder, **options)
        self.similarity = CosineSimilarityMSE()

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return the term."""
        pair = (embeddings["source"], embeddings["target"])
        return {"similarity_mse": self.similarity(y["gold"], pair)}

    def check_width(self, name: str, target: Any, embedding: Any) -> None:
        """Raise `InputError` unless there is one gold similarity per row."""
        shape, rows = tuple(target.shape), embedding.shape[0]
        if len(shape) != 1 or (None not in (*shape, rows) and shape[0] != rows):
            raise InputError(
                f"The target `{name}` must be one similarity per row, (n,). Received: "
                f"shape {shape} for {'n' if rows is None else rows} rows. Make batches "
                "with `scored_dataset` or `ScoredBatches`."
            )
