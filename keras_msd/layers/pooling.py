"""Pooling layers: from token vectors to a sentence vector."""

from typing import Any, get_args

import keras
from keras import ops

from keras_msd import checks
from keras_msd.choices import Pooling as PoolingMode

POOLINGS = get_args(PoolingMode)
SMALLEST_SQUARE = 1e-24  # a norm of 1e-12; shorter rows count as zero vectors


def masked_mean(hidden: Any, mask: Any) -> Any:
    """Average `hidden` over the tokens that `mask` keeps, in float32.

    Shapes: `hidden` `(batch, length, dim)`; `mask` `(batch, length)`, non-zero on real
    tokens; returns `(batch, dim)` float32. A sentence without a token gives zeros.

    Source: Reimers & Gurevych 2019, mean pooling.

    Example:
        >>> hidden = np.float32([[[1, 2], [3, 4], [9, 9]]])
        >>> np.array(msd.layers.masked_mean(hidden, np.array([[1, 1, 0]])))
        array([[2., 3.]], dtype=float32)
    """
    weights = ops.cast(mask, "float32")
    total = ops.einsum("bld,bl->bd", ops.cast(hidden, "float32"), weights)
    count = ops.sum(weights, axis=1, keepdims=True)
    return total / ops.maximum(count, 1e-9)


@keras.saving.register_keras_serializable(package="keras_msd")
class Pooling(keras.layers.Layer):
    """Pool token vectors by their mean, their first, or their largest values.

    Shapes: `hidden` `(batch, length, dim)`; `padding_mask` `(batch, length)`, non-zero
    on real tokens; returns `(batch, dim)` float32.

    Args:
        mode: "mean" over real tokens, "cls" (the first token) or "max".
        **kwargs: As for every Keras layer.

    Example:
        >>> hidden = np.float32([[[1, 4], [3, 2], [9, 9]]])
        >>> np.array(msd.layers.Pooling("max")(hidden, np.array([[1, 1, 0]])))
        array([[3., 4.]], dtype=float32)
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        checks.one_of(POOLINGS, mode=mode)
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

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return super().get_config() | {"mode": self.mode}


def l2_normalize(vectors: Any) -> Any:
    """Scale rows to length one, in float32; a zero row stays zero, without gradient.

    Shapes: `vectors` `(n, dim)` in and out.
    """
    vectors = ops.cast(vectors, "float32")
    square = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    # The inner maximum keeps the branch not taken finite: `where` differentiates both.
    inverse = ops.rsqrt(ops.maximum(square, SMALLEST_SQUARE))
    return vectors * ops.where(square > SMALLEST_SQUARE, inverse, 0.0)


@keras.saving.register_keras_serializable(package="keras_msd")
class L2Normalize(keras.layers.Layer):
    """Scale every vector to Euclidean norm one, in float32.

    Shapes: `(batch, dim)` in and out.

    Args:
        **kwargs: As for every Keras layer.

    Example:
        >>> np.array(msd.layers.L2Normalize()(np.float32([[3, 4], [0, 0]])))
        array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """

    def __init__(self, **kwargs: Any) -> None:
        # Half precision would lose long and short vectors before they get here.
        super().__init__(autocast=False, **kwargs)

    def call(self, vectors: Any) -> Any:
        """Return the unit vectors."""
        return l2_normalize(vectors)
