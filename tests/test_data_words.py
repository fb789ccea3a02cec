"""Sentences of words drawn by their frequency."""

import gzip

import msgpack
import numpy as np
import pytest

from keras_msd import InputError
from keras_msd.data.words import check_listed, drawn_sentences, word_languages


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """A package with word lists: "a" is ten times as frequent as "b"."""
    data = tmp_path / "wordfreq" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise ImportError('not to be imported')")

    def write(name, lists, header=None):
        header = header or {"format": "cB", "version": 1}
        with gzip.open(data / f"{name}.msgpack.gz", "wb") as file:
            msgpack.dump([header, *lists], file)

    tenth, hundredth = [[] for _ in range(100)], [[] for _ in range(99)]
    for name in ("small_en", "small_ko", "small_ja", "small_sh"):
        write(name, [*tenth, ["a"], *hundredth, ["b"]])
    write("small_sv", [["small"]])
    write("large_sv", [["large"]])
    write("small_cs", [["a"]], {"format": "other"})
    monkeypatch.syspath_prepend(tmp_path)


def test_words_occur_by_their_frequency(lists):
    sentences = drawn_sentences("en", 2000)
    words = [word.lower() for line in sentences for word in line[:-1].split(" ")]
    assert len(words) == 12 * 2000
    # Five standard deviations of a binomial draw around 1 in 11.
    share, spread = 1 / 11, np.sqrt(10 / 121 / len(words))
    assert abs(words.count("b") / len(words) - share) < 5 * spread
    assert all(line[0].isupper() and line[-1] in ".?!" for line in sentences)
    assert drawn_sentences("en", 3) == drawn_sentences("en", 3)


@pytest.mark.parametrize(
    "language, words", [("hr", 12), ("en-US", 12), ("kor", 6), ("ja", 1)]
)
def test_words_are_joined_as_the_language_does(lists, language, words):
    for line in drawn_sentences(language, 5):
        assert len(line.split(" ")) == words and len(line.replace(" ", "")) == 13


def test_the_larger_list_is_taken(lists):
    assert drawn_sentences("sv", 1)[0].lower().startswith("large large")


@pytest.mark.parametrize(
    "use", [check_listed, lambda codes: drawn_sentences(*codes, 1)]
)
def test_other_languages_and_other_files_are_refused(lists, use):
    assert {"bs", "en", "hr", "sh"} <= set(word_languages())
    with pytest.raises(
        InputError, match=r"these languages: th\. Give sentences .* en,"
    ):
        use(["th"])
    with pytest.raises(InputError, match="languages: zh_Hant"):
        check_listed(["en", "zh_Hant"])
    with pytest.raises(InputError, match="Received the header: .*pip install"):
        drawn_sentences("cs", 1)


def test_without_the_package_its_installation_is_named(monkeypatch):
    monkeypatch.setattr("keras_msd.data.words.PACKAGE", "wordfreq_not_there")
    with pytest.raises(InputError, match="pip install --no-deps wordfreq==3"):
        check_listed(["sv"])
