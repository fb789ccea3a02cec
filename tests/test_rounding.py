"""Stages that train with weights rounded as an export stores them."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_msd.checks import InputError
from keras_msd.models.network import matrix
from keras_msd.quantize import quantize_table, to_integers
from keras_msd.stages import TeachAssistant
from keras_msd.testing import tiny_encoder
from keras_msd.training.rounding import Rounding

KERNEL = "body/block_0/feedforward_intermediate_dense/kernel"
QUERY = "body/block_0/self_attention_layer/query/kernel"
TABLE = "embedding/word"


def encoder_of(**fields):
    given = {"num_layers": 1, "hidden_dim": 64, "num_heads": 2, "bottleneck_dim": None}
    return tiny_encoder(**{"dropout": 0.0, **given, **fields})


def batch(encoder, rows=6):
    draw = np.random.default_rng(1)
    ids = draw.integers(4, 80, (rows, 5)).astype("int32")
    x = {f"{side}_token_ids": ids + i for i, side in enumerate(("source", "target"))}
    x |= {f"{side}_padding_mask": np.ones_like(ids) for side in ("source", "target")}
    return x, {"teacher": draw.normal(size=(rows, encoder.dim)).astype("float32")}


def as_exported(path, weight, bits):
    """Return a weight as an export's integers and scales give it back."""
    if path == TABLE:
        return quantize_table(weight, bits).dequantize()
    rows = matrix(path, weight).T
    group = 32 if bits == 4 else rows.shape[1]
    dtype = np.float16 if bits == 4 else np.float32
    numbers, scales = to_integers(rows, bits, group, dtype)
    wide = numbers * np.repeat(scales.astype(np.float32), group, axis=1)
    return wide.T.reshape(weight.shape)


@pytest.mark.parametrize(
    ("quantize", "kernels", "table"),
    [("int8", 8, 8), ("int4_table", 8, 4), ("int4", 4, 4)],
)
def test_weights_are_rounded_as_an_export_rounds_them(quantize, kernels, table):
    encoder = encoder_of()
    before = encoder.weights()
    Rounding(encoder.model, quantize).finish()
    after = encoder.weights()
    for path in (KERNEL, QUERY, TABLE):
        expected = as_exported(path, before[path], table if path == TABLE else kernels)
        assert np.abs(after[path] - before[path]).max() > 0
        np.testing.assert_allclose(after[path], expected, rtol=1e-6, atol=1e-8)
    for path, value in after.items():
        if path.endswith(("bias", "gamma", "beta", "position", "type")):
            np.testing.assert_array_equal(value, before[path])


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_the_gradient_is_that_at_the_rounded_weights(chunk_size):
    """SGD moves the exact weights as it would move rounded ones."""
    exact, rounded = encoder_of(), encoder_of()
    before = exact.weights()
    rounded.set_weights(before)
    Rounding(rounded.model, "int4").finish()
    at = rounded.weights()
    x, y = batch(exact)
    losses = []
    for encoder, quantize in ((exact, "int4"), (rounded, None)):
        stage = TeachAssistant(encoder, quantize=quantize, chunk_size=chunk_size)
        stage.compile(keras.optimizers.SGD(0.5), run_eagerly=True)
        losses.append(stage.train_on_batch(x, y, return_dict=True)["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for path, value in exact.weights().items():
        moved = rounded.weights()[path] - at[path]
        np.testing.assert_allclose(value - before[path], moved, atol=2e-6)
    assert np.abs(exact.weights()[KERNEL] - before[KERNEL]).max() > 1e-4


def test_small_updates_add_up_although_each_is_rounded_away():
    encoder = encoder_of()
    stage = TeachAssistant(encoder, quantize="int4")
    stage.compile(keras.optimizers.Adam(3e-4))
    x, y = batch(encoder)
    first = stage.train_on_batch(x, y, return_dict=True)["loss"]
    for _ in range(60):
        last = stage.train_on_batch(x, y, return_dict=True)["loss"]
    assert last < 0.9 * first
    stage.finish()
    weights = encoder.weights()
    for path in (KERNEL, TABLE):
        expected = as_exported(path, weights[path], 4)
        error = np.linalg.norm(expected - weights[path])
        assert error < 0.02 * np.linalg.norm(weights[path])  # an export keeps them
    stage.quantize = stage.rounding = None
    plain = stage.evaluate(*batch(encoder), verbose=0, return_dict=True)["loss"]
    assert plain == pytest.approx(float(last), rel=0.1)


def test_frozen_weights_are_rounded_at_once():
    encoder = encoder_of()
    before = encoder.weights()
    encoder.model.get_layer("embedding").trainable = False
    TeachAssistant(encoder, quantize="int4")
    after = encoder.weights()
    expected = as_exported(TABLE, before[TABLE], 4)
    np.testing.assert_allclose(after[TABLE], expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(after[KERNEL], before[KERNEL])


def test_dropout_goes_on_drawing():
    encoder = encoder_of(dropout=0.5)
    stage = TeachAssistant(encoder, quantize="int8")
    x, _ = batch(encoder)
    drawn = [ops.convert_to_numpy(stage(x, training=True)["source"]) for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3


def test_what_is_scored_has_rounded_weights_and_training_goes_on_from_exact_ones():
    encoder = encoder_of()
    before = encoder.weights()
    rounding = Rounding(encoder.model, "int4")
    with rounding.stored_weights():
        inside = encoder.weights()
    expected = as_exported(KERNEL, before[KERNEL], 4)
    np.testing.assert_allclose(inside[KERNEL], expected, rtol=1e-6, atol=1e-8)
    for path, value in encoder.weights().items():
        np.testing.assert_array_equal(value, before[path])


def test_an_unknown_scheme_is_refused():
    with pytest.raises(InputError, match="`quantize`.*int4_table.*int2"):
        TeachAssistant(encoder_of(), quantize="int2")
