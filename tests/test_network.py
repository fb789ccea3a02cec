"""Networks: shapes known beforehand, nothing compiled or traced for every length."""

from types import SimpleNamespace

import keras
import pytest

from keras_msd.models.network import build_model, use_xla, weight_shapes
from keras_msd.testing import tiny_encoder


@pytest.fixture
def accelerator(monkeypatch):
    """Let Keras see a GPU, which makes it choose XLA by itself."""
    import tensorflow as tf

    devices = [SimpleNamespace(device_type="GPU", name="/physical_device:GPU:0")]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _=None: devices)
    assert keras.Model().jit_compile


def test_no_length_is_compiled_anew_unless_asked(accelerator, tokenizer):
    encoder = tiny_encoder(tokenizer)
    assert not encoder.model.jit_compile
    assert not encoder.embedding_guide().model.jit_compile


def test_jax_compiles_as_it_has_no_graphs(monkeypatch):
    assert not use_xla()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert use_xla()


@pytest.mark.parametrize("guide", [False, True])
def test_encode_traces_a_network_once(tokenizer, monkeypatch, guide):
    encoder = tiny_encoder(tokenizer)
    if guide:
        encoder = encoder.embedding_guide()
    traced, call = [], type(encoder.model).call

    def counted(model, *args, **kwargs):
        traced.append(model)
        return call(model, *args, **kwargs)

    monkeypatch.setattr(type(encoder.model), "call", counted)
    for texts in (["a cat"], ["a", "b"], ["a dog and a cat"] * 300, [""]):
        assert len(encoder.encode(texts)) == len(texts)
    assert traced == [encoder.model]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"bottleneck_dim": 4, "projection_dim": 6},
        {"num_layers": 0, "embedding_layer_norm": False},
        {"projection_dim": 5, "projection_bias": False, "num_types": 2},
        {"max_positions": 40, "position_offset": 2, "repeats": 3, "num_layers": 2},
        {"normalize_first": True, "zero_residuals": True, "normalize": False},
    ],
)
def test_shapes_are_known_before_the_network_is_built(fields, tokenizer):
    config = tiny_encoder(tokenizer, num_layers=1).with_config(**fields).config
    built = {w.path: tuple(w.shape) for w in build_model(config).weights}
    assert weight_shapes(config) == built
