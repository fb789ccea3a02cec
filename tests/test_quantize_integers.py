import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.export.tensorflow_network import TensorFlowNetwork
from keras_msd.quantize import FULL, quantize_table, to_integers
from keras_msd.testing import tiny_encoder, tiny_tokenizer

RNG = np.random.default_rng(0)


def test_eight_bits_by_hand():
    stored = quantize_table(np.array([[127.0, -63.4, 1.6], [0, 0, 0]], np.float32), 8)
    assert stored.values.tolist() == [[127, -63, 2], [0, 0, 0]]
    assert stored.scales.tolist() == [[1.0], [1.0]]
    assert stored.dequantize().tolist() == [[127, -63, 2], [0, 0, 0]]


def test_four_bits_by_hand():
    stored = quantize_table(np.array([[7.0, -7.0, 3.0]], np.float32), 4)
    # first half [7, -7], second half [3, nothing]
    assert stored.values.tolist() == [[15 + 16 * 11, 1 + 16 * 8]]
    assert stored.scales.tolist() == [[1.0]]
    assert stored.dequantize().tolist() == [[7, -7, 3]]


@pytest.mark.parametrize("width", [5, 30, 37, 64, 88, 120])
def test_four_bits_of_any_width_stay_close(width):
    table = RNG.normal(size=(40, width)).astype(np.float32)
    stored = quantize_table(table, 4)
    assert stored.values.shape == (40, -(-width // 2))
    assert 8 <= width // stored.scales.shape[1] <= 32 or stored.scales.shape[1] == 1
    error = np.abs(stored.dequantize() - table)
    # No number is further off than half a step, but for those that are clipped.
    steps = np.repeat(stored.scales, width // stored.scales.shape[1], axis=1)
    unclipped = np.abs(table) <= 7 * steps
    assert (error[unclipped] <= steps[unclipped] / 2 + 1e-6).all()
    assert unclipped.mean() > 0.85


def test_clipping_lowers_the_error():
    table = RNG.normal(size=(40, 32)).astype(np.float32)
    plain = np.abs(table).max(axis=1, keepdims=True) / 7
    naive = np.clip(np.rint(table / plain), -7, 7) * plain
    ours = quantize_table(table, 4).dequantize()
    assert np.square(ours - table).mean() < np.square(naive - table).mean()


@pytest.mark.parametrize(
    ("size", "dtype"), [(1.0, "float16"), (1e-5, "float32"), (1e6, "float32")]
)
def test_scales_of_four_bits_are_float16_where_it_holds_them(size, dtype):
    table = (size * RNG.normal(size=(40, 32))).astype(np.float32)
    stored = quantize_table(table, 4)
    assert stored.scales.dtype == dtype
    error = np.abs(stored.dequantize() - table)
    assert np.median(error) < 0.15 * size  # half a step is 0.2


@pytest.mark.parametrize("largest", [7, 6, 5, 4, 3])
def test_a_rounded_table_is_stored_without_loss(largest):
    numbers = RNG.integers(-largest, largest + 1, (40, 32)).astype(np.float32)
    numbers[:, 0] = largest
    table = numbers * np.float16(0.0123).astype(np.float32)
    np.testing.assert_array_equal(quantize_table(table, 4).dequantize(), table)


def test_bad_arguments():
    table = np.zeros((2, 6), np.float32)
    with pytest.raises(InputError, match="bits"):
        quantize_table(table, 2)
    with pytest.raises(InputError, match="must divide"):
        to_integers(table, 8, group=4)


@pytest.mark.parametrize(
    "fields",
    [
        {"bottleneck_dim": 8},
        {"bottleneck_dim": None},
    ],
)
@pytest.mark.parametrize("table", ["float16", "int8", "int4"])
def test_the_network_equals_one_with_the_dequantised_table(fields, table):
    encoder = tiny_encoder(tiny_tokenizer(), **fields)
    before = encoder.weights()
    texts = ["The cat sleeps.", "", "Ein Hund läuft im Park und im Haus."]
    batch = next(encoder._batches(texts, 8))[1]
    ours = TensorFlowNetwork(encoder, FULL._replace(table=table))(**batch)

    word = before["embedding/word"]
    if table == "float16":
        expanded = word.astype(np.float16).astype(np.float32)
    else:
        expanded = quantize_table(word, {"int8": 8, "int4": 4}[table]).dequantize()
    assert not np.array_equal(expanded, word)
    encoder.set_weights(before | {"embedding/word": expanded})
    expected = encoder.model.predict_on_batch(batch)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_the_table_is_stored_small():
    encoder = tiny_encoder(tiny_tokenizer(), bottleneck_dim=64)
    rows = encoder.config.vocabulary_size

    def stored(table):
        network = TensorFlowNetwork(encoder, FULL._replace(table=table))
        word = network.stored["embedding/word"]
        return {(v.dtype.name, tuple(v.shape)) for v in word.variables}

    assert stored("float32") == {("float32", (rows, 64))}
    assert stored("float16") == {("float16", (rows, 64))}
    assert stored("int8") == {("int8", (rows, 64)), ("float32", (rows, 1))}
    assert stored("int4") == {("uint8", (rows, 32)), ("float16", (rows, 2))}
