import json

import numpy as np
import pytest
from portable_cases import wordpiece
from tokenizer_files import write_byte_pairs
from tokenizer_texts import CORPUS, made_texts

from keras_msd.checks import InputError
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, train_unigram

tf = pytest.importorskip("tensorflow")
from keras_msd.tokenizers.graph import GraphTokenizer  # noqa: E402

TEXTS = made_texts(400) + CORPUS


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
