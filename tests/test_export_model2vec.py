"""The format `model2vec`: the vectors of the encoder, in three libraries' ways."""

import json
import re
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

pytestmark = pytest.mark.usefixtures("no_graphs")

TEXTS = [
    "The cat sleeps on the chair.",
    "Die Katze schläft auf dem Stuhl.",
    "  two  blanks and a line\nfeed ",
    "unknown 鹌鹑 in it, 𒀀𒀀 twice",
    "𒀀",
    "<s> names </s> of <pad> special <unk> tokens",
    "\ufdd0 code points \ufdd1 that are no characters",
]
LONG = "The cat sleeps on the chair. " * 20
GIVEN = {
    "sts": [(1, "a cat", "a dog"), (0, "a cat", "the sea")],
    "sentences": [*TEXTS, "", LONG],
}
SHAPES = {
    "table": {"projection_dim": None},
    "projection": {"bottleneck_dim": 5, "projection_dim": 9, "projection_bias": False},
}


def bag_of_words(tokenizer, moved=0, **fields):
    fields = {"num_layers": 0, "embedding_layer_norm": False, "hidden_dim": 8} | fields
    encoder = tiny_encoder(tokenizer, **fields)
    draw = np.random.default_rng(1)
    values = {
        path: draw.normal(size=value.shape).astype(np.float32)
        for path, value in encoder.weights().items()
    }
    values["embedding/position"][:] = values["embedding/position"][0]
    values["embedding/position"][1] += moved
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
    rows = tokenizer.encode_batch(texts, add_special_tokens=False)
    means = np.array([table[row.ids].mean(axis=0) for row in rows])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def test_the_mean_of_the_rows_is_the_encoders_vector(exported):
    encoder, folder = exported
    known = encoder.encode(TEXTS)
    np.testing.assert_allclose(averaged(folder, TEXTS), known, atol=1e-5)
    cut = averaged(folder, [LONG])
    np.testing.assert_allclose(cut, encoder.encode([LONG]), atol=1e-5)
    load = runpy.run_path(str(loaders_folder() / "load_model2vec.py"))["load"]
    np.testing.assert_allclose(load(folder)(TEXTS), known, atol=1e-5)


def test_it_is_read_back(exported):
    encoder, folder = exported
    again = load_encoder(folder)
    np.testing.assert_allclose(again.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    written = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = [row.ids for row in written.encode_batch(TEXTS, add_special_tokens=False)]
    assert again.tokenizer.encode(TEXTS, again.max_length) == rows
    assert 3 not in {number for row in rows for number in row}  # the unknown token


def test_the_card_says_which_texts_differ(exported):
    encoder, folder = exported
    card = json.loads((folder / "card.json").read_text())
    most = int(re.search("cuts texts after ([0-9]+) characters", card["warning"])[1])
    assert card["parity"]["sentences"] == len(TEXTS) and max(map(len, TEXTS)) < most
    again = load_encoder(folder)
    assert not again.encode([""]).any() and encoder.encode([""]).any()
    # Blanks count: nothing of the cat is left.
    far = ["a" + " " * most + "cat", "a"]
    np.testing.assert_allclose(*again.encode(far), atol=1e-6)
    assert np.abs(np.subtract(*encoder.encode(far))).max() > 0.01
    with pytest.raises(InputError, match="empty and long ones alone"):
        encoder.export(folder, "model2vec", **GIVEN | {"sentences": ["", LONG]})


@pytest.mark.skipif(not find_spec("model2vec"), reason="model2vec is not installed")
def test_model2vec_gives_the_encoders_vectors(exported):
    from model2vec import StaticModel

    encoder, folder = exported
    model, again = StaticModel.from_pretrained(folder), load_encoder(folder)
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    texts = ["", "a cat", "the unknown 鹌鹑 " * 40, "a" + " " * 300 + "cat"]
    np.testing.assert_allclose(model.encode(texts), again.encode(texts), atol=1e-5)


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
        ({"moved": 1}, "position vectors"),
    ],
)
def test_what_is_no_table_is_refused(fields, match, tokenizer, tmp_path):
    encoder = bag_of_words(tokenizer, **fields)
    with pytest.raises(InputError, match=match):
        encoder.export(tmp_path / "model", "model2vec", **GIVEN)
