"""A network's forward pass under TensorFlow."""

from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf


def traced_once(model: keras.Model) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Return a function from a batch, int32 `(n, length)` each, to the output.

    Keras' own traces a network anew for a second length and again for the last batch,
    before it takes any shape.
    """
    shapes = {
        name: tf.TensorSpec([None, None], tf.int32)
        for name in ("token_ids", "padding_mask")
    }

    @tf.function(input_signature=[shapes], autograph=False, jit_compile=False)
    def output(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return model(inputs, training=False)

    return lambda batch: output(dict(batch)).numpy()
