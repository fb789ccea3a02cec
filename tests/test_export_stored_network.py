"""Weights in few bits: the numbers, the bytes, and where they are expanded."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.export import saved_model
from keras_msd.export.formats import SCHEMES
from keras_msd.export.saved_model import Kernel, store_network
from keras_msd.testing import tiny_encoder

TEXTS = ["Die Katze schläft.", "", "A dog runs in the park. " * 30, "ok"]


def make(tokenizer, **fields):
    """Return an encoder whose every weight is drawn at random."""
    sizes = {"hidden_dim": 64, "intermediate_dim": 256, "bottleneck_dim": 32}
    encoder = tiny_encoder(tokenizer, **sizes | {"vocabulary_size": 3000} | fields)
    random = np.random.default_rng(0)
    for weight in encoder.model.weights:
        gain = weight.path.endswith("gamma")
        value = random.normal(0, 0.1, weight.shape)
        weight.assign(gain + value)
    return encoder


@pytest.fixture(scope="module")
def encoder(tokenizer):
    keras.utils.set_random_seed(3)
    return make(tokenizer, num_layers=2, repeats=3, projection_dim=8, word_branch=True)


@pytest.fixture(scope="module")
def artefacts(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    for quantize in SCHEMES:
        saved_model.write(encoder, folder / str(quantize), quantize)
    return folder


def graph_of(path):
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((path / "1" / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0].graph_def


@pytest.mark.parametrize(("bits", "largest"), [(8, 127), (4, 7)])
@pytest.mark.parametrize(
    ("shape", "last", "inputs"),
    [((6, 10), False, 6), ((6, 2, 5), False, 6), ((2, 3, 10), True, 6), ((7, 3), 0, 7)],
)
def test_kernels_against_the_formula(bits, largest, shape, last, inputs):
    values = np.random.default_rng(1).normal(size=(inputs, np.prod(shape) // inputs))
    values *= np.arange(1, values.shape[1] + 1)  # outputs of different sizes
    # On the grid of the scheme, so that a scale an output loses nothing at all.
    scales = np.abs(values).max(axis=0) / largest
    if bits == 4:
        scales = scales.astype(np.float16).astype(np.float32)
    values = (np.rint(values / scales) * scales).astype(np.float32)
    kernel = Kernel(values.reshape(shape), bits, bool(last), "float32")
    found = kernel.expand().numpy()
    assert found.shape == shape and found.dtype == np.float32
    np.testing.assert_allclose(found.reshape(values.shape), values, rtol=2e-6)
    numbers = np.rint(values / scales).astype(np.int8)
    if bits == 8:
        assert (kernel.variable.numpy() == numbers).all()
    stored = kernel.variable.numpy().nbytes
    assert stored == -(-inputs * bits // 8) * values.shape[1]


def test_four_bits_have_a_scale_for_a_group_of_inputs():
    parts = np.random.default_rng(2).normal(size=(96, 5)).astype(np.float32)
    parts[32:64] *= 1000
    kernel = Kernel(parts, 4, True, "float32")
    error = np.abs(kernel.expand().numpy() - parts).reshape(3, 32, 5).max(axis=(1, 2))
    size = np.abs(parts).reshape(3, 32, 5).max(axis=(1, 2))
    assert (error < 0.35 * size).all() and kernel.scales.shape == (3, 5)


@pytest.mark.parametrize(
    ("quantize", "least"),
    [
        (None, 0.9999999),
        ("fp16", 0.99999),
        ("int8", 0.999),
        ("int4_table", 0.97),
        ("int4", 0.9),
    ],
)
def test_vectors_in_every_scheme(encoder, artefacts, quantize, least):
    ours = encoder.encode(TEXTS, normalize=True)
    run = saved_model.load(artefacts / str(quantize))
    theirs = run(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(theirs, axis=1), 1, atol=1e-5)
    assert (ours * theirs).sum(axis=1).min() > least
    assert run([]).shape == (0, encoder.dim)


def test_bytes_in_every_scheme(encoder, artefacts):
    bits = {"float32": 32, "float16": 16, "int8": 8, "int4": 4}
    for quantize, scheme in SCHEMES.items():
        expected = 0
        for path, value in encoder.weights().items():
            is_table = path == "embedding/word"
            is_kernel = path.endswith(("/kernel", "/projection"))
            kind = scheme.table if is_table else scheme.blocks
            if not (is_table or is_kernel) and "int" in kind:
                kind = "float16"  # biases, norms, positions
            expected += value.size * bits[kind] / 8
            if "int" in kind:  # a scale a row or an output; a group with 4 bits
                inputs = 64 if "self_attention" in path else len(value)
                inputs = 32 if is_table else inputs
                groups = max(inputs // 32, 1) if kind == "int4" else 1
                size = 2 if is_table and kind == "int4" else 4
                expected += size * groups * value.size / inputs
        stored = tf.train.load_checkpoint(
            str(artefacts / str(quantize) / "1/variables/variables")
        )
        dtypes = stored.get_variable_to_dtype_map()
        found = sum(
            np.prod(shape) * dtypes[name].size
            for name, shape in stored.get_variable_to_shape_map().items()
            if dtypes[name] != tf.string
        )
        assert 0.97 * expected < found < 1.05 * expected, quantize


def test_no_weight_is_expanded_in_the_file(artefacts):
    """Nothing folds a stored weight into a constant of the graph."""
    sizes = {}
    for quantize in SCHEMES:
        graph = graph_of(artefacts / str(quantize))
        nodes = list(graph.node)
        for function in graph.library.function:
            nodes += function.node_def
        constants = sorted(
            node.attr["value"].ByteSize() for node in nodes if node.op == "Const"
        )
        assert constants[-2] < 8192  # the last is the tokenizer's model
        sizes[quantize] = graph.ByteSize()
    assert max(sizes.values()) - min(sizes.values()) < 120_000  # a table has 384 kB


def calls(graph, name):
    """Return how many nodes of the library call a function of that name."""
    return sum(
        node.attr["f"].func.name.startswith(f"__inference_{name}_")
        for function in graph.library.function
        for node in function.node_def
    )


def test_a_kernel_is_expanded_once_a_call(encoder, artefacts):
    paths = encoder.weights()
    kernels = [one for one in paths if one.endswith(("/kernel", "/projection"))]
    for quantize, expanded in ((None, 0), ("int8", len(kernels))):
        graph = graph_of(artefacts / str(quantize))
        assert calls(graph, "scale_values") == expanded
        assert calls(graph, "block") == 2 * 3
        assert calls(graph, "run") == 2  # one for each signature


def test_repeats_cost_next_to_nothing(tokenizer, tmp_path):
    sizes = {}
    for repeats in (1, 2, 4):
        path = tmp_path / str(repeats)
        saved_model.write(make(tokenizer, repeats=repeats), path, "int8")
        files = [one for one in path.rglob("*") if one.is_file()]
        sizes[repeats] = sum(one.stat().st_size for one in files)
    assert sizes[1] < sizes[2] < sizes[4] < sizes[1] + 16 * 1024


def test_the_encoder_is_not_changed(encoder):
    before = encoder.fingerprint
    weights, run = store_network(encoder, SCHEMES["int8"])
    ids = tf.constant([[0, 5, 2]])
    assert run(ids, tf.ones_like(ids)).shape == (1, encoder.dim)
    assert encoder.fingerprint == before and len(weights) > len(encoder.weights())
