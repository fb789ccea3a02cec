"""The losses by the names that recipes use."""

from dataclasses import dataclass
from typing import Any

from keras_msd.registry import Record, Registry, loaded


@dataclass(frozen=True, kw_only=True)
class LossRecord(Record):
    """A loss that is known by name.

    Attributes:
        name: What recipes call it.
        make: A subclass of `keras.losses.Loss`, or its dotted path.

    Example:
        >>> msd.losses.LOSSES["embedding_mse"].make
        'keras_msd.losses.distances.EmbeddingMSE'
    """

    make: str | type


_CLASSES = {
    "additive_margin_softmax": "similarities.AdditiveMarginSoftmax",
    "cosine_similarity_mse": "distances.CosineSimilarityMSE",
    "embedding_mse": "distances.EmbeddingMSE",
    "feature_distillation": "distances.FeatureDistillation",
    "logit_distillation": "similarities.LogitDistillation",
    "multilingual_contrastive": "similarities.MultilingualContrastive",
}
LOSSES = Registry(
    "loss",
    *(
        LossRecord(name=name, make=f"keras_msd.losses.{path}")
        for name, path in _CLASSES.items()
    ),
)


def loss_class(name: str) -> Any:
    """Return the class of the loss that `LOSSES` knows under `name`.

    Raises:
        InputError: No loss has that name.

    Example:
        >>> msd.losses.loss_class("embedding_mse")(dims="sum").dims
        'sum'
    """
    return loaded(LOSSES[name].make)
