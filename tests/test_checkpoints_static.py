"""Static models of model2vec and sentence-transformers, as those libraries run them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from keras_msd import load_encoder
from keras_msd.checks import InputError

CURRENT = Path(__file__).parent / "golden" / "current"
TEXTS = json.loads((CURRENT / "texts.json").read_text(encoding="utf-8"))
FOLDERS = [
    path.relative_to(CURRENT).as_posix()
    for kind in ("static", "model2vec")
    for path in sorted((CURRENT / kind).iterdir())
]


@pytest.mark.parametrize("name", FOLDERS)
def test_vectors_are_those_of_the_library(name, tmp_path):
    folder = CURRENT / name
    encoder = load_encoder(folder)
    known = load_file(folder / "expected.safetensors")["vectors"]
    # model2vec computes in the table's own numbers.
    tolerance = 2e-3 if name.endswith("half") else 1e-5
    np.testing.assert_allclose(encoder.encode(TEXTS), known, atol=tolerance, rtol=0)
    if name != "static/dense":  # its tanh is in the config, too
        assert encoder.config.num_layers == 0
    encoder.save(tmp_path / "saved")
    again = load_encoder(tmp_path / "saved")
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(CURRENT / "model2vec" / "quantized", tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t | {"other": t["weights"]}, "`other`"),
        (lambda t: t | {"mapping": t["mapping"] + 5}, "rows of `embeddings`"),
        (lambda t: t | {"mapping": t["mapping"][:-1]}, "row for every token|shape"),
        (lambda t: t | {"weights": t["weights"][:-1]}, "shape"),
        (lambda t: t | {"embeddings": t["embeddings"][0]}, "must be a table"),
        (lambda t: t | {"embeddings": t["embeddings"] * np.nan}, "finite"),
    ],
)
def test_a_damaged_table_is_refused(change, match, folder):
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file)
    with pytest.raises(InputError, match=match):
        load_encoder(folder)


def test_a_pooling_or_a_missing_tokenizer_is_refused(folder):
    with pytest.raises(InputError, match="pooling mean.*'cls'"):
        load_encoder(folder, pooling="cls")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="tokenizer.json"):
        load_encoder(folder)


def cut(name, **fields):
    """Return the library's tokenizer, with truncation and one unknown token early."""
    known = Tokenizer.from_file(str(CURRENT / name / "tokenizer.json"))
    known.enable_truncation(3, **fields)
    return known


def test_a_static_embedding_is_cut_as_its_file_says(tmp_path):
    shutil.copytree(CURRENT / "static" / "plain", tmp_path / "model")
    known = cut("static/plain")
    place = next((tmp_path / "model").rglob("tokenizer.json"))
    known.save(str(place))
    encoder = load_encoder(tmp_path / "model")
    rows = [row.ids for row in known.encode_batch(TEXTS, add_special_tokens=False)]
    assert encoder.tokenizer.encode(TEXTS, encoder.max_length) == rows
    cut("static/plain", direction="left").save(str(place))
    with pytest.raises(InputError, match="`direction`.*'Left'"):
        load_encoder(tmp_path / "model")


def test_model2vec_cuts_first_and_then_leaves_out_unknown_tokens(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_length": 3}))
    encoder, known = load_encoder(folder), cut("model2vec/quantized")
    assert encoder.max_length == 3
    most = 3 * int(np.median([len(token) for token in known.get_vocab()]))
    unknown = known.token_to_id("[UNK]")
    texts = [*TEXTS, "鹌鹑 the cat sleeps", "the" + " " * most + "cat"]
    rows = [known.encode(t[:most], add_special_tokens=False).ids for t in texts]
    assert unknown in rows[-2] and len(rows[-1]) == 1
    rows = [[number for number in row if number != unknown] for row in rows]
    assert encoder.tokenizer.encode(texts, 3) == rows
