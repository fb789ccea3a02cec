import json
import subprocess
import sys

import portable_cases
import pytest
from tokenizer_texts import CORPUS

from keras_msd.checks import InputError
from keras_msd.export import loaders_folder
from keras_msd.export.portable import describe, load_portable
from keras_msd.tokenizers.sentencepiece import (
    SentencePieceTokenizer,
    parse,
    train_unigram,
)
from keras_msd.tokenizers.tokenizer_json import BackendTokenizer

ANY_LENGTH = 10**6


@pytest.fixture(scope="module")
def unigram():
    return train_unigram(CORPUS, 500)


@pytest.fixture(scope="module")
def uncased(tmp_path_factory):
    return portable_cases.wordpiece(tmp_path_factory.mktemp("w"))


@pytest.mark.parametrize("index", range(8))
def test_ids_of_unigram_models(index):
    tokenizer = list(portable_cases.unigrams())[index]
    texts = portable_cases.texts(index)
    portable = load_portable(describe(tokenizer, ANY_LENGTH))
    assert portable.encode(texts) == tokenizer.encode(texts)


@pytest.mark.parametrize(
    "fields", [{}, {"do_lower_case": False, "tokenize_chinese_chars": False}]
)
def test_ids_of_wordpiece_vocabularies(tmp_path, fields):
    tokenizer = portable_cases.wordpiece(tmp_path, **fields)
    texts = portable_cases.texts()
    wanted = tokenizer.encode(texts)
    assert sum(tokenizer.unknown_id in row for row in wanted) > 20
    portable = load_portable(describe(tokenizer, ANY_LENGTH))
    assert portable.encode(texts) == wanted


@pytest.mark.parametrize("kind", ["unigram", "uncased"])
def test_rows_are_cut_and_framed(kind, request):
    tokenizer = request.getfixturevalue(kind)
    portable = load_portable(describe(tokenizer, 5))
    assert (portable.max_length, portable.pad_id) == (5, tokenizer.pad_id)
    assert portable.encode(CORPUS) == tokenizer.encode(CORPUS, 5)
    assert portable.encode([]) == []
    for texts in ("one text", ["a\ud800"]):
        with pytest.raises(ValueError, match="one text|surrogates"):
            portable.encode(texts)


@pytest.mark.parametrize("kind", ["unigram", "uncased"])
def test_a_damaged_description_is_refused(kind, request):
    description = describe(request.getfixturevalue(kind), 64)
    cases = list(portable_cases.damages(description))
    assert len(cases) > 15
    for damaged, message in cases:
        with pytest.raises(InputError, match=f"is damaged: .*{message}"):
            load_portable(damaged)


def changed(tokenizer, change):
    proto = parse(tokenizer.definition)
    change(proto)
    return SentencePieceTokenizer(proto.SerializeToString())


def use_bytes(proto):
    proto.trainer_spec.byte_fallback = True
    for byte in range(256):
        kind = proto.SentencePiece.BYTE
        proto.pieces.add(piece=f"<0x{byte:02X}>", score=0, type=kind)


def use_own_piece(proto):
    proto.pieces[9].type = proto.SentencePiece.USER_DEFINED


def use_suffix(proto):
    proto.trainer_spec.treat_whitespace_as_suffix = True


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (use_bytes, "byte fallback"),
        (use_own_piece, "user-defined pieces"),
        (use_suffix, "blanks at the end"),
    ],
)
def test_unigram_models_that_cannot_travel(unigram, change, reason):
    with pytest.raises(InputError, match=f"Received: {reason}"):
        describe(changed(unigram, change), 64)


def test_other_tokenizers_that_cannot_travel(unigram, tmp_path):
    import tokenizers

    own = tokenizers.Tokenizer(tokenizers.models.BPE())
    own.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    roles = ("start_token", "pad_token", "end_token", "unknown_token")
    names = dict(zip(roles, ["<s>", "<pad>", "</s>", "<unk>"], strict=True))
    with pytest.raises(InputError, match="Received: kind tokenizer_json"):
        describe(BackendTokenizer(own.to_str(), **names), 64)
    tokenizer = portable_cases.wordpiece(tmp_path)
    tokenizer.backend.add_tokens(["kras"])
    with pytest.raises(InputError, match="added tokens: kras"):
        describe(tokenizer, 64)
    tokenizer = portable_cases.wordpiece(tmp_path)
    tokenizer.unknown_id = tokenizer.pad_id
    with pytest.raises(InputError, match="two unknown tokens"):
        describe(tokenizer, 64)
    with pytest.raises(InputError, match="`max_length` must be at least 2"):
        describe(unigram, 1)


def test_the_reader_needs_nothing_but_python(unigram, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(describe(unigram, 16))
    code = (
        "import json, sys; sys.path = [sys.argv[1], *sys.path];"
        "from portable_tokenizer import PortableTokenizer as Reader;"
        "texts = json.loads(sys.argv[3]);"
        "print(json.dumps(Reader(open(sys.argv[2], 'rb').read()).encode(texts)))"
    )
    texts = CORPUS[:5]
    # -I -S: no packages and no search path but the standard library's.
    command = [sys.executable, "-I", "-S", "-c", code, str(loaders_folder())]
    shown = subprocess.check_output([*command, str(path), json.dumps(texts)])
    assert json.loads(shown) == unigram.encode(texts, 16)
