"""Losses by the names that recipes and `LossTerm` use; a loss made of another one."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_msd.checks import InputError, one_of
from keras_msd.losses.distances import (
    CosineSimilarityMSE,
    EmbeddingMSE,
    FeatureDistillation,
    Float32Loss,
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


@keras.saving.register_keras_serializable(package="keras_msd")
class Matryoshka(Float32Loss):
    """A loss summed over whole embeddings and their leading dimensions.

    It trains the vectors that `encode(truncate_dim=m)` returns. Row i is `loss(d)[i] +
    sum_m loss(m)[i]`, where `loss(m)` is the loss of the first m dimensions of all
    embeddings. Target vectors are not shortened, so the loss must not compare them with
    embeddings dimension by dimension, as `EmbeddingMSE` does. Computed in float32 under
    every dtype policy.

    Shapes: `y_true` as for the loss; `y_pred` a pair of source and target embeddings,
    `(n, d)` each; `call` returns `(n,)`.

    Args:
        loss: A loss whose `call` returns a number per row, or its name in `LOSSES`.
        dims: Numbers m of leading dimensions, each once. The full dimension d is always
            included, also if you do not list it.
        **options: `reduction` and `name`, as for every Keras loss.

    Raises:
        InputError: `dims` is empty, or a number is below 1 or given twice.

    Source: Kusupati et al. 2022, eq. 1, with all weights 1.

    Example:
        >>> soft = msd.losses.MultilingualContrastive("soft")
        >>> loss = msd.losses.Matryoshka(soft, dims=[1])
        >>> guide, rows = np.eye(2, dtype="float32"), np.float32([[1, 0], [1, 1]])
        >>> apart = [float(soft(guide, (it, it))) for it in (rows, rows[:, :1])]
        >>> abs(float(loss(guide, (rows, rows))) - sum(apart)) < 1e-6
        True
    """

    def __init__(
        self,
        loss: keras.losses.Loss | str,
        dims: Sequence[int],
        **options: Any,
    ) -> None:
        super().__init__({"dims": tuple(dims)}, **options)
        self.loss = loss_class(loss)() if isinstance(loss, str) else loss
        if not dims or len(set(dims)) < len(dims) or min(dims) < 1:
            raise InputError(
                "`dims` must list numbers of leading dimensions, each once, such as "
                f"(64, 128). Received: {self.dims}."
            )

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: A number in `dims` is larger than the embeddings' dimension.
        """
        whole = min(part.shape[-1] for part in y_pred)
        if max(self.dims) > whole:
            raise InputError(
                f"`dims` must be at most the embeddings' dimension, {whole}. Received: "
                f"{max(self.dims)}. Remove it from `dims`."
            )
        widths = {whole, *self.dims}
        prefixes = ([part[:, :width] for part in y_pred] for width in sorted(widths))
        return sum(self.loss.call(y_true, prefix) for prefix in prefixes)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that recreate this loss."""
        loss = keras.saving.serialize_keras_object(self.loss)
        return super().get_config() | {"loss": loss}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Matryoshka":
        """Make a loss from its config."""
        loss = keras.saving.deserialize_keras_object(config["loss"])
        return cls(**config | {"loss": loss})
