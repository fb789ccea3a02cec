"""Vectors of length one."""

from typing import Any

import keras
from keras import ops

SMALLEST_SQUARE = 1e-24  # a norm of 1e-12; shorter rows count as zero vectors


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
    """

    def __init__(self, **kwargs: Any) -> None:
        # Half precision would lose long and short vectors before they get here.
        super().__init__(autocast=False, **kwargs)

    def call(self, vectors: Any) -> Any:
        """Return the unit vectors."""
        return l2_normalize(vectors)

    def compute_output_spec(self, vectors: Any) -> Any:
        """Return the shape and dtype of the result: float32 whatever the policy."""
        return keras.KerasTensor(vectors.shape, "float32")
