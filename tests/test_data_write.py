"""Rows of public corpora become the files of a data folder."""

import gzip
import hashlib
import random

import pytest

from keras_msd.checks import InputError
from keras_msd.data import Pair, read_pairs, write_corpus
from keras_msd.data import corpora as write


def rows_of(path):
    text = gzip.decompress(path.read_bytes()).decode()
    return [line.split("\t") for line in text.splitlines()]


def sentences():
    draw = random.Random(5)
    words = ["tea", "Haus", "na\u00efve", "river", "of", "Oslo", "blue", "42", "cat"]
    return [" ".join(draw.choices(words, k=6)) + f" {i}." for i in range(3000)]


def test_parallel_text_is_split_and_normalised(tmp_path):
    english = sentences()
    other = [f"{text} auf Deutsch" for text in english]
    english[7], other[8], other[9] = " \t", "", "tab\there\u2028and\x85there  "
    pairs = list(zip(english, other, strict=True))
    rows = write_corpus(pairs, tmp_path, "talks", "de")
    found = {
        part: [p[:2] for p in read_pairs(tmp_path / "parallel" / part)]
        for part in ("train", "dev")
    }
    assert rows == {
        f"parallel/{part}/talks.en-de.tsv.gz": len(each) for part, each in found.items()
    }
    expected = dict(pairs)
    del expected[english[7]], expected[english[8]]
    expected[english[9]] = "tab here and there"
    assert dict(found["train"]) | dict(found["dev"]) == expected
    assert len(found["train"]) + len(found["dev"]) == len(expected)
    assert 4 <= len(found["dev"]) <= 40  # 15 are to be expected


def test_equal_rows_give_equal_bytes_and_languages_share_what_is_held_out(tmp_path):
    english, held = sentences(), []
    for code in ("de", "fr"):
        pairs = [Pair(text, f"{text} {code}", code) for text in english]
        for out in ("one", "two"):
            paths = write_corpus(pairs, tmp_path / out, "talks", code)
        for path in paths:
            data = (tmp_path / "one" / path).read_bytes()
            assert data == (tmp_path / "two" / path).read_bytes()
        dev = tmp_path / "one/parallel/dev" / f"talks.en-{code}.tsv.gz"
        held.append([row[0] for row in rows_of(dev)])
        random.Random(1).shuffle(english)
    assert held[0] == held[1]


def test_dev_split_against_sorting(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "ONE_IN", 4)
    monkeypatch.setattr(write, "LARGEST", 20)
    rows = [(f"Line, {n % 700}!", f"Zeile {n}") for n in range(1000)]

    def number(row):
        key = row[0].lower().replace(" ", "").replace(",", "").replace("!", "")
        return int(hashlib.blake2b(key.encode(), digest_size=8).hexdigest(), 16)

    held = [row for row in rows if number(row) < 2**64 // 4]
    assert 150 < len(held) < 350
    paths = write_corpus(rows, tmp_path, "x", "de")
    train, dev = ([tuple(row) for row in rows_of(tmp_path / path)] for path in paths)
    assert train == [row for row in rows if row not in held]
    first = {number(row): row for row in reversed(held)}  # the first of equals stays
    assert dev == [first[n] for n in sorted(first)][:20]


def test_graded_pairs_and_translations(tmp_path):
    graded = [{"sentence1": "A, b", "sentence2": "c", "similarity_score": 2.5}]
    columns = "similarity_score", "sentence1", "sentence2"
    rows = write_corpus(
        graded, tmp_path, "stsb", "de", layout="sts", split="dev", columns=columns
    )
    assert rows == {"sts/stsb.dev.de.tsv.gz": 1}
    assert rows_of(tmp_path / "sts/stsb.dev.de.tsv.gz") == [["2.5", "A, b", "c"]]
    pairs = [{"sentence1": "Ein Haus.", "sentence2": "A house.", "lang": "deu-eng"}]
    write_corpus(pairs, tmp_path, "tatoeba", "deu", layout="tatoeba")
    path = tmp_path / "tatoeba/tatoeba.deu-eng.tsv.gz"
    assert rows_of(path) == [["A house.", "Ein Haus."]]


@pytest.mark.parametrize(
    ("rows", "given", "match"),
    [
        ([{"en": "a", "de": "b"}], {}, "column `english` is missing.*en, de"),
        ([("a", "b"), ("a",)], {}, "row 2: a row must have two texts"),
        ([("a", 3)], {}, "row 1: a row must have two texts"),
        (["ab"], {}, "row 1: a row must have two texts"),
        ([("a", " ")], {}, "must hold a row with text on both sides"),
        ([(5.5, "a", "b")], {"layout": "sts"}, "row 1: a row must have a score from 0"),
        ([("high", "a", "b")], {"layout": "sts"}, "score from 0 to 5"),
        ([(float("nan"), "a", "b")], {"layout": "sts"}, "score from 0 to 5"),
        ([(1, None, "b")], {"layout": "sts"}, "and two texts"),
        ([("a", "b")], {"layout": "stsb"}, "`layout`.*'parallel', 'sts', 'tatoeba'"),
        ([("a", "b")], {"columns": ["one"]}, "`columns` must be as many"),
        ("none.parquet", {}, "`none.parquet` does not exist"),
    ],
)
def test_what_does_not_fit_is_refused(rows, given, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"(?s){match}"):
        write_corpus(rows, tmp_path, "x", "de", **given)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
