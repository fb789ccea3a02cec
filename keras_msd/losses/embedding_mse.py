"""Squared distance between an embedding and its guide."""

from typing import Any

import keras
from keras import ops

from keras_msd import checks


@keras.saving.register_keras_serializable(package="keras_msd")
class EmbeddingMSE(keras.losses.Loss):
    """Mean squared error between embeddings and guide vectors.

    With the default reduction, over a batch of n vectors of d numbers:

    - `dims="mean"`: `sum_ik (y_pred[i, k] - y_true[i, k])^2 / (n d)`, as the authors'
      code trains;
    - `dims="sum"`: `sum_ik (...)^2 / n`, as the paper prints it, d times as large.

    Computed in float32 whatever the dtype policy.

    Shapes: `y_true` and `y_pred` `(n, d)`, or `(n, length, d)` with a `sample_weight`
    of `(n, length)`; `call` returns the shape without d.

    Args:
        dims: "mean" or "sum", over the d numbers of a vector.
        reduction: Over the batch, as for every Keras loss.
        name: Name of the loss.

    Source: Ding et al. 2022, eq. 2, 3, 4 and 6.
    """

    def __init__(
        self,
        dims: str = "mean",
        reduction: str | None = "sum_over_batch_size",
        name: str = "embedding_mse",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype="float32")
        checks.one_of(("mean", "sum"), dims=dims)
        self.dims = dims

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per vector.

        Raises:
            InputError: The vectors differ in width.
        """
        if y_true.shape[-1] != y_pred.shape[-1]:
            raise checks.InputError(
                "Guide vectors and embeddings must have the same width. Received: "
                f"y_true {tuple(y_true.shape)}, y_pred {tuple(y_pred.shape)}."
            )
        square = ops.square(y_pred - y_true)
        return (ops.mean if self.dims == "mean" else ops.sum)(square, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this loss again."""
        return super().get_config() | {"dims": self.dims}
