"""One vector from the vectors of a sentence's tokens."""

from typing import Any

import keras
from keras import ops

from keras_msd import checks
from keras_msd.layers.masked_mean import masked_mean

MODES = ("mean", "cls", "max")


@keras.saving.register_keras_serializable(package="keras_msd")
class Pooling(keras.layers.Layer):
    """Pool token vectors by their mean, their first, or their largest values.

    Shapes: `hidden` `(batch, length, dim)`; `padding_mask` `(batch, length)`, non-zero
    on real tokens; returns `(batch, dim)` float32.

    Args:
        mode: "mean" over real tokens, "cls" (the first token) or "max".
        **kwargs: As for every Keras layer.
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        checks.one_of(MODES, mode=mode)
        self.mode = mode

    def call(self, hidden: Any, padding_mask: Any) -> Any:
        """Return one vector per sentence."""
        if self.mode == "mean":
            return masked_mean(hidden, padding_mask)
        hidden = ops.cast(hidden, "float32")
        if self.mode == "cls":
            # Not [:, 0]: a batch of no sentence may have no token either.
            return ops.sum(hidden[:, :1], axis=1)
        real = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
        return ops.max(ops.where(real, hidden, -1e9), axis=1)

    def compute_output_spec(self, hidden: Any, padding_mask: Any) -> Any:
        """Return the shape and dtype of the result: float32 whatever the policy."""
        return keras.KerasTensor((hidden.shape[0], hidden.shape[-1]), "float32")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return super().get_config() | {"mode": self.mode}
