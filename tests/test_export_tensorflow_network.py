"""The exported network: the encoder's numbers, and weights in few bits."""

import numpy as np
import pytest
import tensorflow as tf
from random_encoder import KINDS, cosines, random_encoder
from tensorflow.core.protobuf import saved_model_pb2
from test_head_dim import THIN

from keras_msd.export import saved_model
from keras_msd.export.litert import _network
from keras_msd.export.tensorflow_network import Stored, TensorFlowNetwork
from keras_msd.models.network import POSITION
from keras_msd.quantize import FULL, SCHEMES
from keras_msd.testing import tiny_encoder

RANDOM = np.random.default_rng(0)


def batch(encoder, rows, length):
    token_ids = RANDOM.integers(0, encoder.config.vocabulary_size, (rows, length))
    lengths = RANDOM.integers(1, length + 1, rows)
    mask = np.arange(length) < lengths[:, None]
    token_ids[~mask] = encoder.config.pad_id
    token_ids[0, 0] = encoder.config.pad_id  # its row is zero even where it counts
    return {
        "token_ids": token_ids.astype(np.int32),
        "padding_mask": mask.astype(np.int32),
    }


@pytest.mark.parametrize("fields", [*KINDS.values(), THIN])
def test_every_kind_of_encoder(tokenizer, fields):
    encoder = random_encoder(tokenizer, **fields)
    network = TensorFlowNetwork(encoder, FULL)
    # An unknown size of the batch takes another way.
    unknown = [tf.TensorSpec([None, None], tf.int32)] * 2
    traced = tf.function(network, input_signature=unknown, autograph=False)
    for rows, length, run in ((1, 9, network), (1, 2, traced), (5, 32, traced)):
        inputs = batch(encoder, rows, length)
        expected = encoder.model(inputs, training=False)
        found = run(inputs["token_ids"], inputs["padding_mask"])
        np.testing.assert_allclose(found, expected, atol=3e-6, rtol=1e-5)


def test_a_zero_vector_stays_zero(tokenizer):
    encoder = tiny_encoder(tokenizer, num_layers=0, embedding_layer_norm=False)
    for weight in encoder.model.weights:
        weight.assign(np.zeros(weight.shape))
    network = TensorFlowNetwork(encoder, FULL)
    ids = tf.constant([[3, 4]])
    assert not network(ids, tf.ones_like(ids)).numpy().any()
    assert np.isfinite(network(ids, tf.zeros_like(ids)).numpy()).all()


STORED = (None, "int8", "int4")
TEXTS = ["Die Katze schläft.", "", "A dog runs in the park. " * 30, "ok"]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    sizes = {"hidden_dim": 64, "intermediate_dim": 256, "bottleneck_dim": 32}
    return random_encoder(tokenizer, vocabulary_size=3000, projection_dim=8, **sizes)


@pytest.fixture(scope="module")
def artefacts(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    for quantize in STORED:
        saved_model.write(encoder, folder / str(quantize), quantize)
    return folder


def graph_of(path):
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((path / "1" / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0].graph_def


@pytest.mark.parametrize(("kind", "largest"), [("int8", 127), ("int4", 7)])
@pytest.mark.parametrize("shape", [(6, 10), (7, 3)])
def test_rows_against_the_formula(kind, largest, shape):
    # On the grid of the scheme, so that a scale a row loses nothing at all.
    numbers = np.random.default_rng(1).integers(-largest, largest + 1, shape)
    numbers[:, 0] = largest
    scales = np.arange(1, shape[0] + 1, dtype=np.float32)[:, None] / 8
    values = numbers * scales
    stored = Stored(values, kind)
    assert stored.whole().dtype == tf.float32
    np.testing.assert_allclose(stored.whole(), values, rtol=2e-6)
    ids = [[3, 0], [3, 5]]
    np.testing.assert_allclose(stored.rows(ids), values[ids], rtol=2e-6)
    if kind == "int8":
        assert (stored.values.numpy() == numbers).all()
    size = -(-shape[1] * (8 if kind == "int8" else 4) // 8)
    assert stored.values.numpy().nbytes == size * shape[0]


@pytest.mark.parametrize(("quantize", "least"), [("int8", 0.99), ("int4", 0.8)])
def test_vectors_in_every_scheme(encoder, artefacts, quantize, least):
    ours = encoder.encode(TEXTS).astype(float)
    run = saved_model.load(artefacts / str(quantize))
    theirs = run(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(theirs, axis=1), 1, atol=1e-5)
    assert cosines(ours, theirs.astype(float)).min() > least
    assert run([]).shape == (0, encoder.dim)


def test_bytes_in_every_scheme(encoder, artefacts):
    """Scales, positions and small weights take less than 0.16 bytes a parameter."""
    for quantize, size in (None, 4), ("int8", 1), ("int4", 0.5):
        variables = artefacts / str(quantize) / "1/variables"
        (data,) = variables.glob("variables.data-*")
        more = data.stat().st_size - size * encoder.num_parameters
        assert 0 < more < 0.16 * encoder.num_parameters, quantize


def test_no_weight_is_expanded_in_the_file(artefacts):
    """Nothing folds a stored weight into a constant of the graph."""
    for quantize in STORED:
        graph = graph_of(artefacts / str(quantize))
        nodes = list(graph.node)
        for function in graph.library.function:
            nodes += function.node_def
        constants = sorted(
            node.attr["value"].ByteSize() for node in nodes if node.op == "Const"
        )
        assert constants[-2] < 12_000  # the last is the tokenizer's model


@pytest.mark.parametrize("name", SCHEMES)
def test_positions_are_stored_as_the_scheme_says(encoder, name):
    for network in (TensorFlowNetwork(encoder, SCHEMES[name]), _network(encoder, name)):
        found = network.stored[POSITION].values.dtype
        assert found == SCHEMES[name].positions
    assert SCHEMES["int4"].positions == "int8"


def test_a_weight_is_read_once_a_call(encoder, artefacts):
    """However often the unit is run; parts of both tables are gathered."""
    for quantize in (None, "int8"):
        functions = graph_of(artefacts / str(quantize)).library.function
        network = max(functions, key=lambda function: len(function.node_def))
        reads = [n for n in network.node_def if n.op == "ReadVariableOp"]
        weights = [n for n in reads if n.attr["dtype"].type != tf.string]
        variables = {n.input[0] for n in weights}
        assert len(weights) == len(variables) > len(encoder.weights()) - 4
