"""Vectors on disk as `keras-msd embed` writes them, read back as a teacher."""

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.cli.output import write_vectors
from keras_msd.load import load_teacher


def test_sentences_take_the_room_of_their_text(tmp_path):
    texts = ["", "Größe", "猫\0", "a" * 20_000, "\0", *map(str, range(1000))]
    vectors = np.random.default_rng(0).normal(size=(len(texts), 2)).astype(np.float32)
    path = tmp_path / "v.npz"
    write_vectors(path, texts, vectors)
    assert path.stat().st_size < 60_000
    np.testing.assert_array_equal(load_teacher(path).encode(texts[::-1]), vectors[::-1])
    write_vectors(path, [""], vectors[:1])
    np.testing.assert_array_equal(load_teacher(path).encode([""]), vectors[:1])


@pytest.mark.parametrize(
    ("text", "ends", "words"),
    [
        (b"ab", [1, 3], "text uint8"),
        (b"ab", [2, 1], "ends int64"),
        (b"ab", [1.0, 2.0], "ends float64"),
        (b"\xff\xfe", [1, 2], "text uint8"),
        (b"ab", [], r"ends float64 \(0,\)"),
        (b"ab", [2], "for 1 sentences"),
    ],
)
def test_texts_that_do_not_fit_are_refused(text, ends, words, tmp_path):
    path, text = tmp_path / "v.npz", np.frombuffer(text, np.uint8)
    np.savez(path, text=text, ends=np.array(ends), vectors=np.eye(2))
    with pytest.raises(InputError, match=words):
        load_teacher(path)
