"""ONNX files of token ids, run by onnxruntime, and the graph that they are made of."""

import sys
from collections import Counter

import numpy as np
import pytest
from random_encoder import KINDS, TEXTS, cosines, random_encoder
from test_head_dim import THIN

from keras_msd.arrays import pad_batch
from keras_msd.checks import InputError
from keras_msd.export import FORMATS, export, read_card
from keras_msd.export.onnx_files import load_ids
from keras_msd.export.portable import describe
from keras_msd.models.network import POSITION, plain_weights
from keras_msd.quantize import SCHEMES, quantize_table

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from keras_msd.export import onnx as exporter  # noqa: E402
from keras_msd.export.onnx import (  # noqa: E402
    FLOAT,
    INT32,
    Graph,
    Weights,
    write_ids,
)

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return random_encoder(tokenizer)


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "art"
    rows = [(1, "a", "b"), (0, "a", "c")]
    given = {"sentences": TEXTS, "sts": rows, "max_sts_loss": 200}
    return export(encoder, path, format="onnx", languages=["de", "en"], **given)


@pytest.mark.parametrize("fields", [*KINDS.values(), THIN])
def test_every_kind_of_network(fields, tokenizer, tmp_path):
    encoder = random_encoder(tokenizer, **fields)
    write_ids(encoder, tmp_path / "a")
    found, expected = load_ids(tmp_path / "a")(TEXTS), encoder.encode(TEXTS)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert np.linalg.norm(expected[0] - expected[3]) > 0.01  # they could differ


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")
def test_keras_writes_a_network_by_tf2onnx(tokenizer, tmp_path):
    """For other networks and older runtimes."""
    pytest.importorskip("tf2onnx")
    encoder = random_encoder(tokenizer, repeats=1)
    rows = encoder.tokenizer.encode(TEXTS, encoder.max_length)
    batch = pad_batch(rows, encoder.tokenizer.pad_id, multiple=1)
    expected = np.asarray(encoder.model(batch))
    path = str(tmp_path / "keras.onnx")
    encoder.model.export(path, format="onnx", opset_version=15, verbose=False)
    found = onnxruntime.InferenceSession(path).run(None, batch)[0]
    assert cosines(found, expected).min() > 1 - 1e-6


def test_interface(encoder, artefact):
    session = onnxruntime.InferenceSession(artefact / "model.onnx")
    inputs = {one.name: (one.type, one.shape) for one in session.get_inputs()}
    ids = ("tensor(int32)", ["batch", "length"])
    assert inputs == {"token_ids": ids, "padding_mask": ids}
    (output,) = session.get_outputs()
    assert (output.name, output.type) == ("embedding", "tensor(float)")
    assert output.shape == ["batch", encoder.dim]
    rows = encoder.tokenizer.encode(TEXTS, encoder.max_length)
    expected = encoder.encode(TEXTS)
    for multiple in (1, 32):  # more padding than is needed changes nothing
        batch = pad_batch(rows, encoder.tokenizer.pad_id, multiple=multiple)
        found = session.run(["embedding"], batch)[0]
        np.testing.assert_allclose(found, expected, atol=1e-6)
    model = onnx.load(artefact / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 23)]
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["tokenizer"].encode() == describe(encoder.tokenizer, 32)


def test_a_padding_id_among_real_tokens(encoder, artefact):
    random = np.random.default_rng(1)
    ids = random.integers(0, encoder.config.vocabulary_size, (4, 9), np.int32)
    ids[:, 2] = encoder.tokenizer.pad_id
    batch = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    batch["padding_mask"][1, 5:] = 0
    session = onnxruntime.InferenceSession(artefact / "model.onnx")
    found = session.run(["embedding"], batch)[0]
    expected = encoder.model.predict_on_batch(batch)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_card(artefact):
    card = read_card(artefact)
    assert card["parity"]["min_cosine"] > 0.99999 and card["opset"] == 23
    assert card["min_onnxruntime"] == "1.23"
    assert {"Attention", "Gelu", "LayerNormalization"} <= set(card["operators"])
    assert set(card["libraries"]) == {"onnx", "onnxruntime"}


@pytest.fixture(scope="module")
def repeated(tokenizer):
    """Return an encoder by how often its unit is run."""
    fields = {"num_layers": 2, "hidden_dim": 32, "intermediate_dim": 64}
    return {n: random_encoder(tokenizer, repeats=n, **fields) for n in (1, 4)}


@pytest.mark.parametrize("quantize", [None, "int8", "int4"])
def test_each_weight_is_stored_once(quantize, repeated, tmp_path):
    sizes, tensors = [], []
    for repeats, encoder in repeated.items():
        file = tmp_path / f"{repeats}" / "model.onnx"
        write_ids(encoder, file.parent, quantize)
        model = onnx.load(file)
        sizes.append(file.stat().st_size)
        stored = [(one.raw_data, *one.dims) for one in model.graph.initializer]
        tensors.append(Counter(stored))
        assert set(tensors[-1].values()) == {1}
    assert tensors[0] == tensors[1]
    assert max(sizes) <= 1.03 * min(sizes) + 65536
    if quantize is None:  # the graph has constants, too
        size = sum(len(data) for data, *_ in stored)
        assert abs(size - 4 * encoder.num_parameters) < 400


@pytest.mark.parametrize(
    "quantize,least",
    [("fp16", 0.99999), ("int8", 0.998), ("int4_table", 0.9), ("int4", 0.7)],
)
def test_quantised_vectors(quantize, least, tokenizer, tmp_path):
    encoder = random_encoder(
        tokenizer, hidden_dim=64, num_heads=4, intermediate_dim=128, bottleneck_dim=32
    )
    write_ids(encoder, tmp_path / "a", quantize)
    run, expected = load_ids(tmp_path / "a"), encoder.encode(TEXTS)
    found = run(TEXTS)
    cosine = cosines(found, expected)
    assert least < cosine.min() < 1 - 1e-9
    # A vector does not depend on its batch.
    alone = np.concatenate([run([text]) for text in TEXTS])
    np.testing.assert_allclose(found, alone, atol=1e-5)


def test_files_that_are_no_such_model(tmp_path):
    path = tmp_path / "model.onnx"
    for content, message in (  # the last: a version, no more
        (b"\xff" * 99, "is no whole ONNX model"),
        (b"\x3a\xff", "is no whole ONNX model"),
        (b"\x3a\x05ab", "is no whole ONNX model"),
        (b"\x08\x07", "onnxruntime cannot load"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            load_ids(tmp_path)


def test_another_model_is_refused(artefact, tmp_path):
    model = onnx.load(artefact / "model.onnx")
    del model.metadata_props[:]
    exporter.save(model, tmp_path / "a")
    with pytest.raises(InputError, match="carry its tokenizer as the metadata"):
        load_ids(tmp_path / "a")
    for node in model.graph.node:
        node.input[:] = ["ids" if one == "token_ids" else one for one in node.input]
    [one for one in model.graph.input if one.name == "token_ids"][0].name = "ids"
    exporter.save(model, tmp_path / "b")
    with pytest.raises(InputError, match="must take padding_mask, token_ids"):
        load_ids(tmp_path / "b")


def test_bad_requests(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "LARGEST_FILE", 100)
    with pytest.raises(InputError, match="smaller than 100 bytes. Received: weights"):
        write_ids(encoder, tmp_path / "a")
    for module in ("onnx", "onnxruntime"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            patch.delitem(sys.modules, "keras_msd.export.onnx")  # imported anew
            with pytest.raises(InputError, match=rf'package `{module}`.*"\.\[onnx\]"'):
                FORMATS["onnx"].write(encoder, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def run_graph(graph, value, shape, **feeds):
    kinds = {"float32": FLOAT, "int32": INT32}
    inputs = {k: (kinds[str(v.dtype)], list(v.shape)) for k, v in feeds.items()}
    model = graph.model(inputs, {"out": (value, FLOAT, shape)})
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, feeds)[0]


def normal(*shape):
    return np.random.default_rng(1).standard_normal(shape, np.float32)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("width", [64, 37])
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
    found = run_graph(graph, rows, [2, 3, width], ids=ids)
    np.testing.assert_allclose(found, expected[ids], rtol=1e-6)


@pytest.mark.parametrize("name", SCHEMES)
def test_first_rows_are_those_of_the_stored_positions(name):
    table = normal(50, 37)
    expected = {
        "float32": lambda: table,
        "float16": lambda: table.astype(np.float16).astype(np.float32),
        "int8": lambda: quantize_table(table, 8).dequantize(),
    }[SCHEMES[name].positions]()
    graph = Graph()
    length = graph.node("Shape", "ids", start=1, end=2)
    rows = Weights(graph, SCHEMES[name]).first_rows(table, length)
    ids = np.zeros((2, 3), np.int32)
    found = run_graph(graph, rows, [3, 37], ids=ids)
    np.testing.assert_allclose(found, expected[:3], rtol=1e-6)


def test_a_file_holds_positions_in_8_bits(encoder, tmp_path):
    write_ids(encoder, tmp_path / "a", "int4")
    tensors = onnx.load(tmp_path / "a" / "model.onnx").graph.initializer
    shape = plain_weights(encoder)[POSITION].shape
    (found,) = (it.data_type for it in tensors if tuple(it.dims) == shape)
    assert found == onnx.TensorProto.INT8


def rounded(rows, largest=127):
    """Return rows rounded to numbers up to `largest`, by the definition."""
    scales = np.abs(rows).max(axis=-1, keepdims=True) / largest
    return np.rint(rows / scales) * scales


@pytest.mark.parametrize("name,bits,largest", [("int8", 8, 127), ("int4", 4, 64)])
@pytest.mark.parametrize("rows", [128, 88, 3])
def test_products_are_those_of_rounded_inputs_and_kernels(name, bits, largest, rows):
    kernel, inputs = normal(rows, 24), normal(2, 5, rows)[..., ::-1].copy()
    inputs[1] *= 1000  # each token has a scale of its own
    stored = quantize_table(kernel.T, bits).dequantize()
    expected = rounded(inputs.astype(np.float64)) @ rounded(stored, largest).T
    graph = Graph()
    product = Weights(graph, SCHEMES[name]).product("x", kernel)
    found = run_graph(graph, product, [2, 5, 24], x=inputs)
    sizes = np.linalg.norm(inputs, axis=-1, keepdims=True)
    error = np.abs((found - expected) / sizes)
    assert np.median(error) < 1e-6
    assert error.max() < np.abs(kernel).max() / 127  # a number at .5 rounded otherwise


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_sums_of_the_largest_products_are_whole(name):
    """They would be cut where a processor sums pairs of products in 16 bits."""
    signs = np.where(np.arange(64) % 4 < 2, 1.0, -1.0).astype(np.float32)
    kernel = np.stack([np.ones(64), -np.ones(64), signs], 1).astype(np.float32)
    inputs = np.stack([np.ones(64), -np.ones(64), signs]).astype(np.float32)
    graph = Graph()
    product = Weights(graph, SCHEMES[name]).product("x", kernel)
    found = run_graph(graph, product, [3, 3], x=inputs)
    np.testing.assert_allclose(found, inputs @ kernel, rtol=1e-5)


def test_products_of_zeros_are_zeros():
    graph = Graph()
    product = Weights(graph, SCHEMES["int8"]).product("x", np.zeros((4, 3)))
    found = run_graph(graph, product, [2, 3], x=np.zeros((2, 4), np.float32))
    np.testing.assert_array_equal(found, 0)


def test_half_precision_kernels_multiply_in_single():
    kernel, inputs = normal(32, 8), normal(3, 32) * 1e4  # past the reach of float16
    graph = Graph()
    product = Weights(graph, SCHEMES["fp16"]).product("x", kernel)
    found = run_graph(graph, product, [3, 8], x=inputs)
    half = kernel.astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(found, inputs @ half, rtol=1e-4, atol=1)


def test_equal_constants_are_one():
    graph = Graph()
    assert graph.constant([1.0, 2.0]) == graph.constant(np.array([1.0, 2.0]))
    texts = [["ab", "c"], ["a", "bc"], ["ab", "c", ""], ["a\n1b", "c"]]
    numbers = [0, [0], np.int32(0), np.float32(0), np.zeros((1, 1), np.int64)]
    names = [graph.constant(np.array(one)) for one in texts + numbers]
    assert len(set(names)) == len(names)
