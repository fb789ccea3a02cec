"""The format `gguf`: ids and vectors of llama.cpp, what it cannot run, its bytes."""

import json
import runpy

import numpy as np
import pytest
from random_encoder import TEXTS, random_encoder

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.export import loaders_folder
from keras_msd.export.proof import row_cosines
from keras_msd.quantize import quantize_table
from keras_msd.testing import tiny_encoder

gguf = pytest.importorskip("gguf")
SHAPE = {"hidden_dim": 32, "num_heads": 2, "intermediate_dim": 64, "num_layers": 2}
SHAPE |= {"projection_dim": None}
SHAPES = {
    "recurrent_narrow": {"repeats": 2, "bottleneck_dim": 8},
    "cls_unnormalised": {"pooling": "cls", "normalize": False},
    "of_odd_length": {"max_length": 300, "max_positions": 300},
}
GIVEN = {"sts": [(1, "a cat", "a dog"), (0, "a cat", "the sea")]}
# Random weights lose more than trained ones: the tests below have limits of their own.
GIVEN |= {"min_cosine": 0.5, "min_neighbours": 0.3, "max_sts_loss": 200}


@pytest.fixture(scope="module", params=SHAPES)
def exported(request, tokenizer, tmp_path_factory):
    pytest.importorskip("llama_cpp")
    encoder = random_encoder(tokenizer, **SHAPE | SHAPES[request.param])
    folder = tmp_path_factory.mktemp("gguf")
    paths = {
        kind: encoder.export(folder / str(kind), "gguf", quantize=kind, **GIVEN)
        for kind in (None, "f16", "q8_0")
    }
    return encoder, paths


def test_vectors_of_llama_cpp_are_the_encoders(exported):
    encoder, paths = exported
    texts = [*TEXTS, "the name </s> of a token", "a " * 300]
    expected = encoder.encode(texts)
    for kind, least in (None, 0.9999), ("f16", 0.9999), ("q8_0", 0.998):
        found = load_encoder(paths[kind]).encode(texts)
        assert row_cosines(expected, found).min() > least
        if kind is None:
            np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


def test_four_bits_of_an_encoder_in_four_bits(tokenizer, tmp_path):
    pytest.importorskip("llama_cpp")
    random_encoder(tokenizer, **SHAPE).save(tmp_path / "four", quantize="int4")
    four = load_encoder(tmp_path / "four")
    four.export(tmp_path / "out", "gguf", quantize="q4_0", **GIVEN)
    found = load_encoder(tmp_path / "out").encode(TEXTS)
    # What is lost is that of 8 bits, in which llama.cpp multiplies.
    assert row_cosines(four.encode(TEXTS), found).min() > 0.998


def test_the_script_finds_what_the_encoder_finds(exported):
    encoder, paths = exported
    load = runpy.run_path(str(loaders_folder() / "load_gguf.py"))["load"]
    texts = ["Die Katze schläft.", "", "ok", "القطار", "a dog " * 400]
    found, expected = load(paths[None])(texts), encoder.encode(texts, normalize=True)
    assert row_cosines(expected, found).min() > 0.9999


def test_the_card_says_what_was_compared(exported):
    _, paths = exported
    card = json.loads((paths["q8_0"] / "card.json").read_text())
    assert card["tokenizer_check"]["texts"] > 9000
    assert card["tokenizer_check"]["equally_likely"] == 0
    assert card["tensors"]["Q8_0"] > 12
    scope = {}
    exec(card["how_to_load"].replace("FOLDER", str(paths["q8_0"])), scope)
    found = load_encoder(paths["q8_0"]).encode(["A sentence."], normalize=True)
    np.testing.assert_allclose(scope["vectors"], found, atol=1e-5)


def test_four_bits_are_those_of_our_own_folder(tokenizer):
    from keras_msd.export.gguf import _packed

    kind = gguf.GGMLQuantizationType.Q4_0
    table = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)
    ours = quantize_table(table, 4).dequantize()
    again = gguf.dequantize(_packed(gguf, ours, kind), kind)
    np.testing.assert_allclose(again, ours, atol=1e-6)
    squares = [np.square(given - table).sum() for given in (again, ours)]
    assert squares[0] <= 1.001 * squares[1]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"num_layers": 0}, "no layers"),
        ({"normalize_first": True}, "layers that normalise first"),
        ({"pooling": "max"}, "the pooling max"),
        ({"activation": "relu"}, "the activation relu"),
        ({"projection_dim": 8}, "a projection to 8 after the pooling"),
        ({"hidden_dim": 16}, "rows of 16 and 64 numbers"),
    ],
)
def test_what_llama_cpp_cannot_run_is_refused(tokenizer, fields, reason, tmp_path):
    encoder = tiny_encoder(tokenizer, **SHAPE | fields)
    with pytest.raises(InputError, match=f"Received: .*{reason}.*Use the format"):
        encoder.export(tmp_path / "out", "gguf", quantize="q8_0", **GIVEN)


def test_a_missing_runtime_is_named(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llama_cpp", None)
    encoder = tiny_encoder(tokenizer, **SHAPE)
    with pytest.raises(InputError, match=r"llama_cpp.*\[gguf\]"):
        encoder.export(tmp_path / "out", "gguf", **GIVEN)
    assert not (tmp_path / "out").exists()
