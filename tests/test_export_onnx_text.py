from types import SimpleNamespace

import numpy as np
import pytest
from random_encoder import TEXTS, random_encoder
from tokenizer_texts import CORPUS, made_texts

from keras_msd.checks import InputError
from keras_msd.export import onnx_files as exporter
from keras_msd.export import proof
from keras_msd.export.onnx_files import LIBRARY, load_extensions, load_ids, load_text
from keras_msd.tokenizers.sentencepiece import train_unigram

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from keras_msd.export import onnx as onnx_check  # noqa: E402
from keras_msd.export.onnx import (  # noqa: E402
    INT32,
    STRING,
    Graph,
    token_ids,
    write_ids,
    write_text,
)

pytestmark = pytest.mark.usefixtures("no_graphs")

SAMPLE = [text.replace("\0", "\uffff") for text in made_texts(600) + CORPUS]


@pytest.fixture(scope="module")
def unigram():
    return train_unigram(CORPUS, 500)


def front(tokenizer, max_length):
    graph = Graph()
    ids, mask = token_ids(graph, tokenizer, max_length, "text")
    outputs = {
        "token_ids": (ids, INT32, ["batch", "length"]),
        "padding_mask": (mask, INT32, ["batch", "length"]),
    }
    model = graph.model({"text": (STRING, ["batch"])}, outputs)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(load_extensions().get_library_path())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda texts: session.run(None, {"text": np.array(texts, object)})


def rows(ids, mask):
    assert ids.dtype == mask.dtype == np.int32
    return [row[kept == 1].tolist() for row, kept in zip(ids, mask, strict=True)]


def test_ids_are_those_of_the_tokenizer(unigram):
    texts = SAMPLE
    wanted = unigram.encode(texts, max_length=24)
    flat = {number for row in wanted for number in row}
    assert unigram.unknown_id in flat and len(flat) > 300
    run = front(unigram, 24)
    for size in (len(texts), 7):
        parts = [texts[one : one + size] for one in range(0, len(texts), size)]
        assert [row for part in parts for row in rows(*run(part))] == wanted
    compared = onnx_check.check_ids(unigram)
    assert compared["texts"] > 9000 and compared["equally_likely"] == 0


def test_shapes(unigram):
    run, pad = front(unigram, 10), unigram.pad_id
    edges = [unigram.start_id, unigram.end_id]
    for texts in ([""], ["", " ", ""]):
        ids, mask = run(texts)
        assert rows(ids, mask) == unigram.encode(texts)
    ids, mask = run(["x " * 90, ""])
    assert ids.shape == mask.shape == (2, 10)
    assert ids[0, [0, -1]].tolist() == edges and mask[0].all()
    assert ids[1].tolist() == edges + [pad] * 8
    assert mask[1].tolist() == [1, 1] + [0] * 8
    ids, mask = run([])
    assert ids.shape[0] == mask.shape[0] == 0


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return random_encoder(tokenizer)


def test_quantised_as_with_token_ids(encoder, tmp_path):
    vectors = []
    for write, load in ((write_ids, load_ids), (write_text, load_text)):
        write(encoder, tmp_path / load.__name__, "int8")
        vectors.append(load(tmp_path / load.__name__)(TEXTS))
    np.testing.assert_allclose(*vectors, atol=1e-6)


def test_other_models(encoder, tmp_path):
    write_ids(encoder, tmp_path / "ids")
    with pytest.raises(InputError, match="must take text and give embedding. Rec"):
        load_text(tmp_path / "ids")
    write_text(encoder, tmp_path / "text")
    with pytest.raises(InputError, match="onnxruntime cannot load"):
        load_ids(tmp_path / "text")
    with pytest.raises(InputError, match="a list of sentences"):
        load_text(tmp_path / "text")("one text")


def test_ids_that_differ_are_refused(unigram, monkeypatch):
    real = unigram.encode
    other = SimpleNamespace(pieces=unigram.pieces, unknown_id=unigram.unknown_id)
    other.encode = lambda texts, *limit: real(
        [text.replace("ß", "ss") for text in texts], *limit
    )
    session = onnx_check._session(unigram)
    monkeypatch.setattr(onnx_check, "_session", lambda _: session)
    with pytest.raises(InputError, match="other ids for .*ß.* Use the format `onnx`"):
        onnx_check.check_ids(other)


def test_equally_likely_splits(unigram):
    number = {piece: index for index, piece in enumerate(unigram.pieces())}
    one, two, three = (number[piece] for piece in ("▁", "a", "e"))
    tie = [0, one, two, three, 2], [0, one, three, two, 2]
    assert proof._equally_likely(unigram, *tie)
    assert not proof._equally_likely(unigram, tie[0], [0, one, two, 2])
    unknown = [0, 3, one, 2], [0, one, 3, 2]
    assert proof._equally_likely(unigram, *unknown)
    assert not proof._equally_likely(unigram, unknown[0], [0, 3, two, 2])


def test_the_library_is_never_loaded_where_it_would_crash(monkeypatch):
    names = ["tensorflow", "onnxruntime_extensions", LIBRARY]
    fake = SimpleNamespace(modules=names)
    monkeypatch.setattr(exporter, "sys", fake)
    with pytest.raises(InputError, match="was imported after tensorflow"):
        load_extensions.__wrapped__()
