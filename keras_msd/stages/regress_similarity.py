"""Fine-tuning on similarity scores: the cosine of two sentences becomes the gold."""

from collections.abc import Iterable
from typing import Any

from keras_msd.checks import InputError
from keras_msd.losses.distances import CosineSimilarityMSE
from keras_msd.stages.base import LossTerm, Stage


class RegressSimilarity(Stage):
    """The cosine of two sentences imitates their gold similarity.

    `mean_i (cos(source_i, target_i) - gold_i)^2`, where `source` is a row's first
    sentence and `target` its second. It needs no guide. Batches come from
    `data.scored_dataset` or `data.ScoredBatches`, which scale the gold scores.

    Targets: `gold` `(n,)`, similarities in [0, 1].
    Terms: `similarity_mse`, the mean over the batch.
    Arguments: as for `Stage`; `dims` means nothing here.

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
        makers = "`scored_dataset` or `ScoredBatches`"
        check_one_each(name, target, embedding, "similarity", makers)


def check_one_each(
    name: str, target: Any, embedding: Any, what: str, makers: str
) -> None:
    """Raise `InputError` unless a target has one value per row.

    Args:
        name: Name of the target.
        target: What must be `(n,)`.
        embedding: Embeddings of the n rows.
        what: What the value is, in a word.
        makers: What makes such batches.
    """
    shape, rows = tuple(target.shape), embedding.shape[0]
    if len(shape) != 1 or (None not in (*shape, rows) and shape[0] != rows):
        raise InputError(
            f"The target `{name}` must be one {what} per row, (n,). Received: shape "
            f"{shape} for {'n' if rows is None else rows} rows. Make batches with "
            f"{makers}."
        )
