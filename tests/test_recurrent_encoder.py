"""A repeated unit is its untied copies, and its gradient the sum over its passes."""

import keras
import numpy as np

from keras_msd.layers import RecurrentEncoder

RNG = np.random.default_rng(1)
HIDDEN = RNG.normal(size=(2, 4, 8)).astype("float32")
GOAL = RNG.normal(size=(2, 4, 8)).astype("float32")


def _unit(repeats, blocks=2):
    layer = RecurrentEncoder(blocks, repeats, 2, 16, dropout=0.0)
    layer.build(HIDDEN.shape)
    return layer


def _gradients(layer):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = keras.ops.sum(layer(HIDDEN) * GOAL)
    return [np.array(g) for g in tape.gradient(loss, layer.trainable_variables)]


def test_gradient_is_the_sum_over_untied_copies():
    shared, untied = _unit(repeats=3), _unit(repeats=1, blocks=6)
    values = [RNG.normal(0, 0.3, weight.shape) for weight in shared.weights]
    shared.set_weights(values)
    assert len(values) == 32
    untied.set_weights(values * 3)
    np.testing.assert_allclose(shared(HIDDEN), untied(HIDDEN), atol=1e-5)
    tied = _gradients(shared)
    passes = _gradients(untied)
    parts = [passes[start : start + 32] for start in (0, 32, 64)]
    for one, *three in zip(tied, *parts, strict=True):
        np.testing.assert_allclose(one, sum(three), atol=1e-4)
    last_only = max(
        np.abs(one - last).max() for one, last in zip(tied, parts[-1], strict=True)
    )
    assert last_only > 1e-3
