import json
import subprocess
import sys

import numpy as np
import pytest
from tokenizer_files import write_byte_pairs, write_wordpiece
from tokenizer_texts import CORPUS, made_texts

from keras_msd.checks import InputError
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, train_unigram

tf = pytest.importorskip("tensorflow")
from keras_msd.tokenizers.graph import GraphTokenizer  # noqa: E402

TEXTS = made_texts(400) + CORPUS
# The two operations come from their files: `import tensorflow_text` imports Keras.
READER = """
import importlib.util, json, pathlib, sys
sys.modules.update(dict.fromkeys(["keras", "keras_msd", "sentencepiece", "tokenizers"]))
import tensorflow as tf
package = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent
for name in ("sentencepiece", "wordpiece"):
    path = package / "python" / "ops" / f"_fast_{name}_tokenizer.so"
    tf.load_op_library(str(path))
texts = tf.constant(json.load(open("texts.json")))
for kind in ("unigram", "wordpiece"):
    ids = tf.saved_model.load(kind).tokenizer(texts)
    rows = tf.ragged.boolean_mask(ids["token_ids"], ids["padding_mask"] == 1)
    json.dump(rows.to_list(), open(f"{kind}.json", "w"))
"""


def wordpiece(folder, **fields):
    """Return a WordPiece tokenizer with every character of the texts, and some words.

    Some characters are left out, so that there are unknown words.
    """
    words = {word for text in TEXTS for word in text.split() if len(word) < 9}
    pieces = words | {c for text in TEXTS for c in text}
    pieces |= {piece.lower() for piece in pieces}
    plain = sorted(p for p in pieces if p.isalnum() and p.strip() and hash_of(p) % 13)
    special = "[PAD] [UNK] [CLS] [SEP] [MASK]".split()
    lines = special + plain + ["##" + piece for piece in plain] + list("[]</>#.,!?…")
    write_wordpiece(folder, lines, **fields)
    return read_checkpoint_tokenizer(folder)


def hash_of(text):
    return sum(text.encode())


def rows(batch):
    """Return the real ids of each row of a batch."""
    ids, mask = (np.asarray(batch[name]) for name in ("token_ids", "padding_mask"))
    assert ids.dtype == mask.dtype == np.int32
    return [row[keep == 1].tolist() for row, keep in zip(ids, mask, strict=True)]


@pytest.fixture(scope="module")
def unigram():
    return train_unigram(CORPUS, 500)


@pytest.fixture(scope="module", params=["unigram", "uncased", "cased"])
def tokenizer(request, unigram, tmp_path_factory):
    fields = {
        "uncased": {},
        "cased": {"do_lower_case": False, "tokenize_chinese_chars": False},
    }
    if request.param == "unigram":
        return unigram
    return wordpiece(tmp_path_factory.mktemp("w"), **fields[request.param])


def test_python_tf_data_and_graph_agree(tokenizer):
    wanted = tokenizer.encode(TEXTS, max_length=24)
    flat = {number for row in wanted for number in row}
    assert tokenizer.unknown_id in flat and len(flat) > 300
    graph = GraphTokenizer(tokenizer, max_length=24)
    assert rows(graph(tf.constant(TEXTS))) == wanted
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(64).map(graph)
    assert [row for batch in dataset for row in rows(batch)] == wanted


def test_saved_graphs_run_with_tensorflow_alone(unigram, tmp_path):
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    tokenizers = (unigram, wordpiece(tmp_path))
    for tokenizer in tokenizers:
        module = tf.Module()
        module.tokenizer = GraphTokenizer(tokenizer, max_length=24)
        tf.saved_model.save(module, str(tmp_path / tokenizer.kind))
    subprocess.run([sys.executable, "-c", READER], check=True, cwd=tmp_path)
    for tokenizer in tokenizers:
        ids = json.loads((tmp_path / f"{tokenizer.kind}.json").read_text())
        assert ids == tokenizer.encode(TEXTS, max_length=24)


def test_shapes(unigram):
    texts = ["ka lo mi", "", "ka " * 50]
    batch = GraphTokenizer(unigram, max_length=10)(tf.constant(texts))
    assert batch["token_ids"].shape == (3, 10)
    assert batch["token_ids"][1].numpy().tolist() == [0, 2] + [1] * 8
    assert batch["padding_mask"].numpy().sum(axis=1).tolist()[1:] == [2, 10]
    assert batch["token_ids"][2, -1] == unigram.end_id
    short = GraphTokenizer(unigram, max_length=10)(tf.constant(texts[:2]))
    assert short["token_ids"].shape == (2, len(unigram.encode(texts[:1])[0]))
    assert rows(short) == unigram.encode(texts[:2])
    none = GraphTokenizer(unigram, max_length=10)(tf.constant([], tf.string))
    assert none["token_ids"].shape[0] == 0


def test_what_is_no_utf8_is_dropped_by_wordpiece(tmp_path):
    tokenizer = wordpiece(tmp_path)
    graph = GraphTokenizer(tokenizer, max_length=8)
    raw = tf.constant([b"a\xff\xfeb", b"\xc3"])
    assert rows(graph(raw)) == tokenizer.encode(["ab", ""])


def test_what_a_graph_cannot_do_is_refused(unigram, tmp_path):
    from sentencepiece import sentencepiece_model_pb2 as schema

    write_byte_pairs(tmp_path)
    pairs = read_checkpoint_tokenizer(tmp_path)
    with pytest.raises(InputError, match="or wordpiece. Received: tokenizer_json"):
        GraphTokenizer(pairs, 8)
    proto = schema.ModelProto.FromString(unigram.definition)
    for byte in range(256):
        kind = schema.ModelProto.SentencePiece.BYTE
        proto.pieces.add(piece=f"<0x{byte:02X}>", score=-20.0, type=kind)
    proto.trainer_spec.byte_fallback = True
    with pytest.raises(InputError, match="Received: byte fallback"):
        GraphTokenizer(SentencePieceTokenizer(proto.SerializeToString()), 8)
    proto = schema.ModelProto.FromString(unigram.definition)
    proto.normalizer_spec.add_dummy_prefix = False
    with pytest.raises(InputError, match="no blank before the first word"):
        GraphTokenizer(SentencePieceTokenizer(proto.SerializeToString()), 8)
    with pytest.raises(InputError, match="`max_length` must be at least 2"):
        GraphTokenizer(unigram, 1)


def test_other_wordpiece_preparations_are_refused(tmp_path):
    tokenizer = wordpiece(tmp_path)
    content = json.loads(tokenizer.definition)
    spaces = content | {"pre_tokenizer": {"type": "Whitespace"}}
    other = type(tokenizer)(json.dumps(spaces), **tokenizer.settings)
    with pytest.raises(InputError, match="Received: BertNormalizer and Whitespace"):
        GraphTokenizer(other, 8)
    tokenizer.backend.add_tokens(["a b"])
    with pytest.raises(InputError, match="no added tokens .* Received: a b"):
        GraphTokenizer(tokenizer, 8)
