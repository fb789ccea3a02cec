import numpy as np
import pytest

from keras_msd.quantize import quantize_table

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
