"""The network for XNNPACK computes what the encoder's Keras model does."""

import numpy as np
import pytest
import tensorflow as tf

from keras_msd.export.tensorflow_network import TensorFlowNetwork
from keras_msd.quantize.schemes import FULL
from keras_msd.testing import tiny_encoder

RANDOM = np.random.default_rng(0)


def lively(tokenizer, **fields):
    """Return an encoder whose weights tell sentences apart."""
    made = tiny_encoder(tokenizer, **fields)
    for weight in made.model.weights:
        gain = weight.path.endswith("gamma")
        weight.assign(gain + RANDOM.normal(0, 0.1 if gain else 0.3, weight.shape))
    return made


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


@pytest.mark.parametrize(
    "fields",
    [
        {"repeats": 3},
        {"bottleneck_dim": 6, "repeats": 2},
        {"normalize_first": True, "activation": "relu", "embedding_layer_norm": False},
        {"activation": "gelu_tanh", "pooling": "cls", "position_offset": 2},
        {"pooling": "max", "num_types": 2, "max_positions": 40, "normalize": False},
        {"projection_dim": 5, "projection_activation": "tanh", "num_heads": 4},
        {"projection_dim": 5, "projection_bias": False, "num_layers": 0},
    ],
)
def test_every_kind_of_encoder(tokenizer, fields):
    encoder = lively(tokenizer, **fields)
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


def test_variables_are_kept_once(tokenizer, tmp_path):
    encoder = tiny_encoder(tokenizer, bottleneck_dim=4)
    network = TensorFlowNetwork(encoder, FULL)
    tf.saved_model.save(network, str(tmp_path))
    stored = tf.train.list_variables(str(tmp_path / "variables" / "variables"))
    sizes = [np.prod(shape) for name, shape in stored if "OBJECT_GRAPH" not in name]
    types = encoder.config.num_types * encoder.config.hidden_dim
    assert sum(sizes) == encoder.num_parameters - types  # they are in the positions
