"""The format `model2vec`: the vectors of the encoder, in three libraries' ways."""

import json
import runpy
from importlib.util import find_spec

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.export import loaders_folder
from keras_msd.testing import tiny_encoder

TEXTS = [
    "The cat sleeps on the chair.",
    "Die Katze schläft auf dem Stuhl.",
    "  two  blanks and a line\nfeed ",
    "unknown 鹌鹑 in it, 𒀀𒀀 twice",
    "𒀀",
    "<s> names </s> of <pad> special <unk> tokens",
    "\ufdd0 code points \ufdd1 that are no characters",
]
GIVEN = {"sts": [(1, "a cat", "a dog"), (0, "a cat", "the sea")], "sentences": TEXTS}
SHAPES = {
    "table": {"projection_dim": None},
    "projection": {"projection_dim": 9, "projection_bias": False},
    "bottleneck": {"bottleneck_dim": 5, "projection_dim": None},
}


def bag_of_words(tokenizer, **fields):
    fields = {"num_layers": 0, "embedding_layer_norm": False, "hidden_dim": 8} | fields
    encoder = tiny_encoder(tokenizer, **fields)
    draw = np.random.default_rng(1)
    values = {
        path: draw.normal(size=value.shape).astype(np.float32)
        for path, value in encoder.weights().items()
    }
    values["embedding/position"][:] = values["embedding/position"][0]
    encoder.set_weights(values)
    return encoder


@pytest.fixture(scope="module", params=SHAPES)
def exported(request, tokenizer, tmp_path_factory):
    encoder = bag_of_words(tokenizer, **SHAPES[request.param])
    path = tmp_path_factory.mktemp("model2vec") / "model"
    return encoder, encoder.export(path, "model2vec", **GIVEN)


def averaged(folder, texts):
    """Return what a static embedding library computes, written out."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    table = load_file(folder / "model.safetensors")["embeddings"]
    unknown = json.loads((folder / "tokenizer.json").read_text())["model"]["unk_id"]
    rows = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        ids = [number for number in ids if number != unknown]
        mean = np.mean([table[number] for number in ids], axis=0)
        rows.append(mean / np.linalg.norm(mean))
    return np.array(rows)


def test_the_mean_of_the_rows_is_the_encoders_vector(exported):
    encoder, folder = exported
    known = encoder.encode(TEXTS)
    np.testing.assert_allclose(averaged(folder, TEXTS), known, atol=1e-5)
    load = runpy.run_path(str(loaders_folder() / "load_model2vec.py"))["load"]
    np.testing.assert_allclose(load(folder)(TEXTS), known, atol=1e-5)


def test_it_is_read_back(exported):
    encoder, folder = exported
    again = load_encoder(folder)
    np.testing.assert_allclose(again.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    assert not again.encode([""]).any()


def test_long_texts_are_cut_where_the_encoder_cuts_them(exported):
    encoder, folder = exported
    long = "The cat sleeps on the chair. " * 20
    np.testing.assert_allclose(
        averaged(folder, [long]), encoder.encode([long]), atol=1e-5
    )


@pytest.mark.skipif(not find_spec("model2vec"), reason="model2vec is not installed")
def test_model2vec_gives_the_encoders_vectors(exported):
    from model2vec import StaticModel

    encoder, folder = exported
    model = StaticModel.from_pretrained(folder)
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)


def test_float16_halves_the_table(tokenizer, tmp_path):
    encoder = bag_of_words(tokenizer)
    folder = encoder.export(tmp_path / "half", "model2vec", "fp16", **GIVEN)
    assert load_file(folder / "model.safetensors")["embeddings"].dtype == np.float16
    again = load_encoder(folder).encode(TEXTS)
    np.testing.assert_allclose(again, encoder.encode(TEXTS), atol=2e-3)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"num_layers": 1}, "a body of 1 layers"),
        ({"embedding_layer_norm": True}, "a layer norm"),
        ({"normalize": False}, "not of length one"),
        ({"pooling": "max"}, "the pooling 'max'"),
        ({"projection_dim": 9, "projection_activation": "tanh"}, "activation 'tanh'"),
        ({"projection_dim": 9}, "a bias of the projection"),
    ],
)
def test_what_is_no_table_is_refused(fields, match, tokenizer, tmp_path):
    encoder = bag_of_words(tokenizer, **fields)
    with pytest.raises(InputError, match=match):
        encoder.export(tmp_path / "model", "model2vec", **GIVEN)
    positions = bag_of_words(tokenizer)
    values = positions.weights()
    values["embedding/position"][1] += 1
    positions.set_weights(values)
    with pytest.raises(InputError, match="position vectors"):
        positions.export(tmp_path / "model", "model2vec", **GIVEN)
