"""Shared code of the losses."""

from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError
from keras_msd.layers.pooling import l2_normalize


class Float32Loss(keras.losses.Loss):
    """Base class of losses that compute in float32 under every dtype policy.

    Args:
        reduction: Reduction over the batch, as for every Keras loss.
        name: Name of the loss.
        **settings: Arguments of the subclass. They become attributes and are stored in
            the config.
    """

    def __init__(self, reduction: str | None, name: str, **settings: Any) -> None:
        super().__init__(name=name, reduction=reduction, dtype="float32")
        self._settings = tuple(settings)
        for setting, value in settings.items():
            setattr(self, setting, value)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that recreate this loss."""
        settings = {name: getattr(self, name) for name in self._settings}
        return super().get_config() | settings


def cosine_matrix(rows: Any, columns: Any) -> Any:
    """Return `cos(rows[i], columns[j])` at `[i, j]`; 0 if either is a zero vector.

    Shapes: `rows` `(n, d)`, `columns` `(m, d)`; returns `(n, m)`.
    """
    columns = ops.transpose(l2_normalize(columns))
    return ops.matmul(l2_normalize(rows), columns)


def pair_of(value: Any, name: str, parts: str) -> tuple[Any, Any]:
    """Return the two parts of a loss's argument.

    Args:
        value: The argument.
        name: Name of the argument, for the error message.
        parts: Description of its two parts, for the error message.

    Raises:
        InputError: `value` is not a pair.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(
            f"`{name}` must be a pair: {parts}. Received: {type(value).__name__}."
        )
    return value[0], value[1]
