"""Losses by the names that recipes and `LossTerm` use."""

from typing import Any

from keras_msd.checks import one_of
from keras_msd.losses.distances import (
    CosineSimilarityMSE,
    EmbeddingMSE,
    FeatureDistillation,
)
from keras_msd.losses.similarities import (
    AdditiveMarginSoftmax,
    LogitDistillation,
    MultilingualContrastive,
    SimilarityDistribution,
)

# Add your own under its name.
LOSSES: dict[str, type] = {
    "additive_margin_softmax": AdditiveMarginSoftmax,
    "cosine_similarity_mse": CosineSimilarityMSE,
    "embedding_mse": EmbeddingMSE,
    "feature_distillation": FeatureDistillation,
    "logit_distillation": LogitDistillation,
    "multilingual_contrastive": MultilingualContrastive,
    "similarity_distribution": SimilarityDistribution,
}


def loss_class(name: str) -> Any:
    """Return the loss class that `LOSSES` lists under `name`.

    Raises:
        InputError: No loss has that name.

    Example:
        >>> msd.losses.loss_class("embedding_mse")(dims="sum").dims
        'sum'
    """
    one_of(LOSSES, loss=name)
    return LOSSES[name]
