import numpy as np
import pytest

from keras_msd.quantize.integers import onnx_kernel, quantize_table
from keras_msd.quantize.schemes import SCHEMES

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from keras_msd.export.onnx_network import FLOAT, INT32, Graph, Weights  # noqa: E402


def run(graph, value, shape, **feeds):
    kinds = {"float32": FLOAT, "int32": INT32}
    inputs = {k: (kinds[str(v.dtype)], list(v.shape)) for k, v in feeds.items()}
    model = graph.model(inputs, {"out": (value, FLOAT, shape)})
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, feeds)[0]


def normal(*shape):
    return np.random.default_rng(1).standard_normal(shape, np.float32)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("width", [64, 40, 7, 37])
def test_rows_are_those_of_the_stored_table(name, width):
    table, ids = normal(50, width), np.array([[0, 49, 3], [3, 3, 1]], np.int32)
    expected = {
        "float32": lambda: table,
        "float16": lambda: table.astype(np.float16).astype(np.float32),
        "int8": lambda: quantize_table(table, 8).dequantize(),
        "int4": lambda: quantize_table(table, 4).dequantize(),
    }[SCHEMES[name].table]()
    graph = Graph()
    rows = Weights(graph, SCHEMES[name]).rows(table, "ids")
    found = run(graph, rows, [2, 3, width], ids=ids)
    np.testing.assert_allclose(found, expected[ids], rtol=1e-6)


def unpacked(values, scales, bits, rows):
    """Return the kernel that MatMulNBits multiplies by, from its description."""
    if bits == 4:
        pairs = np.stack([values % 16, values // 16], axis=-1)
        values = pairs.reshape(*values.shape[:2], -1)
    numbers = values.astype(np.float32) - 2 ** (bits - 1)
    columns = (numbers * scales[:, :, None]).reshape(len(values), -1)
    return columns[:, :rows].T


@pytest.mark.parametrize("name,bits", [("int8", 8), ("int4", 4)])
@pytest.mark.parametrize("rows", [128, 88, 20, 3])
def test_products_are_those_of_the_stored_kernel(name, bits, rows):
    kernel, inputs = normal(rows, 24), normal(5, rows)[::-1].copy()
    values, scales = onnx_kernel(kernel, bits)
    stored = unpacked(values, scales, bits, rows)
    # Half a step of the largest number in a block, or what clipping saves more.
    step = np.abs(kernel).max() / (2 ** (bits - 1) - 1)
    assert np.abs(stored - kernel).max() <= (0.51 if bits == 8 else 2.5) * step
    assert np.sqrt(np.mean((stored - kernel) ** 2)) < 0.3 * step
    graph = Graph()
    product = Weights(graph, SCHEMES[name]).product("x", kernel)
    found = run(graph, product, [5, 24], x=inputs)
    # Inputs are rounded to 1/127 of their block's largest, too.
    error = np.abs(found - inputs @ stored)
    assert error.max() < 0.06 * np.linalg.norm(inputs, axis=1).max()
    correlation = np.corrcoef(found.ravel(), (inputs @ stored).ravel())[0, 1]
    assert correlation > 0.9999


def test_half_precision_kernels_multiply_in_single():
    kernel, inputs = normal(32, 8), normal(3, 32) * 1e4  # past the reach of float16
    graph = Graph()
    weights = Weights(graph, SCHEMES["fp16"])
    product = weights.product("x", kernel)
    assert weights.small(kernel) == weights.small(kernel)  # widened once
    found = run(graph, product, [3, 8], x=inputs)
    half = kernel.astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(found, inputs @ half, rtol=1e-4, atol=1)


def test_equal_constants_are_one():
    graph = Graph()
    assert graph.constant([1.0, 2.0]) == graph.constant(np.array([1.0, 2.0]))
    texts = [["ab", "c"], ["a", "bc"], ["ab", "c", ""], ["a\n1b", "c"]]
    numbers = [0, [0], np.int32(0), np.float32(0), np.zeros((1, 1), np.int64)]
    names = [graph.constant(np.array(one)) for one in texts + numbers]
    assert len(set(names)) == len(names)
