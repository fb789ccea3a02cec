import json
import subprocess
import sys

import portable_cases
import pytest
from tokenizer_files import write_byte_pairs
from tokenizer_texts import CORPUS

from keras_msd.checks import InputError
from keras_msd.export import loaders_folder
from keras_msd.export.portable import describe, load_portable
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import (
    SentencePieceTokenizer,
    parse,
    train_unigram,
)

ANY_LENGTH = 10**6


@pytest.fixture(scope="module")
def unigram():
    return train_unigram(CORPUS, 500)


@pytest.fixture(scope="module", params=["unigram", "wordpiece"])
def either(request, unigram, tmp_path_factory):
    if request.param == "unigram":
        return unigram
    return portable_cases.wordpiece(tmp_path_factory.mktemp("w"))


def test_ids_are_those_of_the_tokenizer(tmp_path):
    cased = {"do_lower_case": False, "tokenize_chinese_chars": False}
    words = [portable_cases.wordpiece(tmp_path, **fields) for fields in ({}, cased)]
    for index, tokenizer in enumerate([*portable_cases.unigrams(), *words]):
        texts = portable_cases.texts(index)
        wanted = tokenizer.encode(texts)
        assert sum(tokenizer.unknown_id in row for row in wanted) > 20
        portable = load_portable(describe(tokenizer, ANY_LENGTH))
        assert portable.encode(texts) == wanted, index


def test_rows_are_cut_and_framed(either):
    portable = load_portable(describe(either, 5))
    assert (portable.max_length, portable.pad_id) == (5, either.pad_id)
    assert portable.encode(CORPUS) == either.encode(CORPUS, 5)
    assert portable.encode([]) == []
    for texts in ("one text", ["a\ud800"]):
        with pytest.raises(ValueError, match="one text|surrogates"):
            portable.encode(texts)


def test_a_damaged_description_is_refused(either):
    cases = list(portable_cases.damages(describe(either, 64)))
    assert len(cases) > 15
    for damaged, message in cases:
        with pytest.raises(InputError, match=f"is damaged: .*{message}"):
            load_portable(damaged)


def test_tokenizers_that_cannot_travel(unigram, tmp_path):
    """Other features of tokenizers that are in the way: test_tokenizers_graph.py."""
    proto = parse(unigram.definition)
    proto.trainer_spec.treat_whitespace_as_suffix = True
    with pytest.raises(InputError, match="Received: blanks at the end"):
        describe(SentencePieceTokenizer(proto.SerializeToString()), 64)
    write_byte_pairs(tmp_path)
    with pytest.raises(InputError, match="Received: kind tokenizer_json"):
        describe(read_checkpoint_tokenizer(tmp_path), 64)
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
