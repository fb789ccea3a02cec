"""Losses, one idea a file; `LOSSES` maps a name to a class, imported on use."""

from importlib import import_module
from typing import Any

from keras_msd import checks

LOSSES = {
    "additive_margin_softmax": (
        "keras_msd.losses.additive_margin_softmax.AdditiveMarginSoftmax"
    ),
    "cosine_similarity_mse": (
        "keras_msd.losses.cosine_similarity_mse.CosineSimilarityMSE"
    ),
    "embedding_mse": "keras_msd.losses.embedding_mse.EmbeddingMSE",
    "feature_distillation": "keras_msd.losses.feature_distillation.FeatureDistillation",
    "logit_distillation": "keras_msd.losses.logit_distillation.LogitDistillation",
    "multilingual_contrastive": (
        "keras_msd.losses.multilingual_contrastive.MultilingualContrastive"
    ),
}


def loss_class(name: str) -> Any:
    """Return the class that `LOSSES` lists under `name`.

    Raises:
        InputError: No loss has that name.
    """
    checks.one_of(LOSSES, name=name)
    module, _, attribute = LOSSES[name].rpartition(".")
    return getattr(import_module(module), attribute)


def __getattr__(attribute: str) -> Any:
    for name, path in LOSSES.items():
        if path.rpartition(".")[2] == attribute:
            return loss_class(name)
    raise AttributeError(f"module `{__name__}` has no attribute `{attribute}`")
