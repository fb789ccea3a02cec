"""Tokenizers and teachers of your own, each one entry in a dict."""

import json
import zlib

import numpy as np
import pytest

from keras_msd import load_encoder, load_teacher
from keras_msd.checks import InputError
from keras_msd.load import teacher_encoder
from keras_msd.models.trim import trim_vocabulary
from keras_msd.teachers import TEACHERS
from keras_msd.testing import tiny_encoder
from keras_msd.tokenizers import (
    TOKENIZERS,
    GraphTokenizer,
    Tokenizer,
    load_tokenizer,
)

TEXTS = ["The cat sleeps.", "", "A dog and a cat"]


class WordTokenizer(Tokenizer):
    """Whole words, in the order of a list."""

    kind = "words"
    definition_file = "words.json"
    pad_id, start_ids, end_ids, unknown_id = 0, (1,), (2,), 3

    def __init__(self, words):
        self.words = words
        self.vocabulary_size = 4 + len(words)

    def encode_plain(self, texts):
        table = {word: 4 + place for place, word in enumerate(self.words)}
        return [[table.get(word, 3) for word in text.split()] for text in texts]

    def pieces(self):
        return ["<pad>", "<s>", "</s>", "<unk>", *self.words]

    @property
    def definition(self):
        return json.dumps(self.words).encode()

    @property
    def settings(self):
        return {}

    @classmethod
    def from_definition(cls, definition, settings, origin):
        return cls(json.loads(definition))


@pytest.fixture
def words(monkeypatch):
    monkeypatch.setitem(TOKENIZERS, "words", WordTokenizer)


def test_one_entry_makes_a_tokenizer_known(words, tmp_path):
    tokenizer = WordTokenizer("The A cat dog".split())
    assert tokenizer.encode(TEXTS) == [[1, 4, 6, 3, 2], [1, 2], [1, 5, 7, 3, 3, 6, 2]]
    tokenizer.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").fingerprint == tokenizer.fingerprint
    encoder = tiny_encoder(tokenizer)
    encoder.save(tmp_path / "encoder")
    again = load_encoder(tmp_path / "encoder")
    assert isinstance(again.tokenizer, WordTokenizer)
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_what_a_kind_does_not_have_is_an_error_that_says_so(words):
    tokenizer = WordTokenizer(["cat"])
    with pytest.raises(InputError, match="unigram or wordpiece. Received: words"):
        GraphTokenizer(tokenizer, 8)
    with pytest.raises(InputError, match="unigram or wordpiece. Received: words"):
        trim_vocabulary(tiny_encoder(tokenizer), ["cat"])


def test_kinds_are_those_of_their_classes():
    assert all(kind.kind == name for name, kind in TOKENIZERS.items())


class Letters:
    """A teacher that counts letters."""

    normalized = False

    def __init__(self, dim):
        self.dim, self.fingerprint = dim, f"letters {dim}"

    def encode(self, texts):
        places = [[zlib.crc32(c.encode()) % self.dim for c in text] for text in texts]
        return np.array([np.bincount(row, minlength=self.dim) for row in places])


@pytest.fixture
def letters(monkeypatch):
    monkeypatch.setitem(TEACHERS, "letters", Letters)


def test_one_entry_makes_a_teacher_known(letters):
    teacher = load_teacher("letters", dim=5)
    assert (teacher.name, teacher.dim) == ("letters", 5)
    assert teacher.fingerprint == "letters 5"
    assert teacher.encode(TEXTS).sum(axis=1).tolist() == [len(text) for text in TEXTS]
    assert teacher_encoder("letters") is None
    with pytest.raises(InputError, match="`pooling`.*for 'letters'"):
        load_teacher("letters", dim=5, pooling="cls")


def test_hashed_words_need_a_width_and_others_have_theirs(tmp_path):
    teacher = load_teacher("hashed-words", dim=6)
    assert (teacher.name, teacher.dim, teacher.normalized) == ("hashed-words", 6, True)
    assert load_teacher("hashed-words", "mine", dim=7).name == "mine"
    with pytest.raises(InputError, match='"hashed-words" needs a width'):
        load_teacher("hashed-words")
    np.savez(tmp_path / "v.npz", sentences=np.array(["a"]), vectors=np.eye(1, 4))
    assert load_teacher(tmp_path / "v.npz", dim=4).dim == 4
    with pytest.raises(InputError, match="Received: 5, teacher `v.npz` 4"):
        load_teacher(tmp_path / "v.npz", dim=5)
    with pytest.raises(InputError, match="`pooling` is for names and folders"):
        load_teacher(tmp_path / "v.npz", pooling="max")


def test_teachers_that_are_encoders(tmp_path):
    encoder = tiny_encoder()
    assert teacher_encoder(encoder) is encoder
    encoder.save(tmp_path)
    assert teacher_encoder(tmp_path).fingerprint == encoder.fingerprint
    assert teacher_encoder(lambda texts: texts) is None
    with pytest.raises(InputError, match="gone` does not exist"):
        teacher_encoder(str(tmp_path / "gone"))
    with pytest.raises(InputError, match="`pooling`.*Encoder"):
        load_teacher(encoder, pooling="cls")
