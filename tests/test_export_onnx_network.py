import numpy as np
import pytest

from keras_msd.quantize import SCHEMES, quantize_table

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from keras_msd.export.onnx import FLOAT, INT32, Graph, Weights  # noqa: E402


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


def rounded(rows):
    """Return rows rounded to 8 bits, by the definition."""
    scales = np.abs(rows).max(axis=-1, keepdims=True) / 127
    return np.rint(rows / scales) * scales


@pytest.mark.parametrize("name,bits", [("int8", 8), ("int4", 4)])
@pytest.mark.parametrize("rows", [128, 88, 20, 3])
def test_products_are_those_of_rounded_inputs_and_kernels(name, bits, rows):
    kernel, inputs = normal(rows, 24), normal(2, 5, rows)[..., ::-1].copy()
    inputs[1] *= 1000  # each token has a scale of its own
    stored = quantize_table(kernel.T, bits).dequantize()
    expected = rounded(inputs.astype(np.float64)) @ rounded(stored).T
    graph = Graph()
    product = Weights(graph, SCHEMES[name]).product("x", kernel)
    found = run(graph, product, [2, 5, 24], x=inputs)
    sizes = np.linalg.norm(inputs, axis=-1, keepdims=True)
    error = np.abs((found - expected) / sizes)
    assert np.median(error) < 1e-6
    assert error.max() < np.abs(kernel).max() / 127  # a number at .5 rounded otherwise
    # Against the kernel itself, what rounding costs.
    cosine = np.sum(found * (inputs @ kernel), axis=(1, 2)) / (
        np.linalg.norm(found, axis=(1, 2))
        * np.linalg.norm(inputs @ kernel, axis=(1, 2))
    )
    assert cosine.min() > (0.9999 if bits == 8 else 0.99)


def test_repeated_layers_share_a_kernel():
    graph, kernel = Graph(), normal(32, 8)
    weights = Weights(graph, SCHEMES["int4"])
    value = weights.product("x", kernel)
    again, double = weights.product(value, kernel), weights.product("x", 2 * kernel)
    made = graph.model({}, {k: (k, FLOAT, None) for k in (value, again, double)})
    used = [node.input[1] for node in made.graph.node if node.op_type[-7:] == "Integer"]
    assert used[0] == used[1] != used[2]


def test_products_of_zeros_are_zeros():
    graph = Graph()
    product = Weights(graph, SCHEMES["int8"]).product("x", np.zeros((4, 3)))
    found = run(graph, product, [2, 3], x=np.zeros((2, 4), np.float32))
    np.testing.assert_array_equal(found, 0)


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
