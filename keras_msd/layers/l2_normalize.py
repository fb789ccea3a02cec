"""Vectors of length one."""

from typing import Any

import keras
from keras import ops


def l2_normalize(vectors: Any) -> Any:
    """Divide each row by its Euclidean norm, in float32; a zero row stays zero."""
    vectors = ops.cast(vectors, "float32")
    square = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(square, 1e-24))


@keras.saving.register_keras_serializable(package="keras_msd")
class L2Normalize(keras.layers.Layer):
    """Scale every vector to Euclidean norm one, in float32.

    Shapes: `(batch, dim)` in and out.
    """

    def call(self, vectors: Any) -> Any:
        """Return the unit vectors."""
        return l2_normalize(vectors)

    def compute_output_spec(self, vectors: Any) -> Any:
        """Return the shape and dtype of the result: float32 whatever the policy."""
        return keras.KerasTensor(vectors.shape, "float32")
