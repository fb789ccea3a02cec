"""The multilingual STS benchmark in its published layouts and in ours."""

import csv
import gzip

import numpy as np
import pytest
from table_encoder import Table, spearman

from keras_msd.checks import InputError
from keras_msd.evaluate import (
    read_sts_folder,
    score_set,
    similarity_sets,
    sts_aligned,
)
from keras_msd.evaluate.similarity_sets import STSB_PAIRS, read_delimited

CODES = ("en", "de", "zh")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(similarity_sets, "STSB_PAIRS", dict.fromkeys(STSB_PAIRS, 30))


def score(folder, languages=None, split="test"):
    return score_set(Table(), "stsb", folder, languages, split)


def made_rows(code, pairs=30):
    gold = np.random.default_rng(4).integers(0, 26, pairs) / 5
    return [
        (float(g), f'{code}, "one" {i}', f"{code} two {i % 23}")
        for i, g in enumerate(gold)
    ]


def write_csv(path, rows, header=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(header)
        writer.writerows((a, b, g) for g, a, b in rows)


def write_tsv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "sentence1\tsentence2\tsimilarity_score\n"
    path.write_text(text + "".join(f"{a}\t{b}\t{g}\n" for g, a, b in rows))


def write_ours(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{g}\t{a}\t{b}\n" for g, a, b in rows)
    path.write_bytes(gzip.compress(text.encode()))


def check(folder):
    encoder = Table()
    scores = score_set(encoder, "stsb", folder, None, "test")
    rows = {code: made_rows(code) for code in CODES}
    assert len(encoder.seen) == len(set(encoder.seen))
    expected = {code: spearman(encoder, rows[code]) for code in CODES}
    for code in ("de", "zh"):
        both = zip(rows["en"], rows[code], strict=True)
        mixed = [(g, a, b) for (g, a, _), (_, _, b) in both]
        expected[f"en-{code}"] = spearman(encoder, mixed)
    assert scores["tracks"] == pytest.approx(expected, abs=2e-4)
    assert scores["pairs"] == 30 and scores["primary"] == "cross_lingual"


def test_csv_as_published(tmp_path, short):
    for code in CODES:
        write_csv(tmp_path / "data" / f"stsb-{code}-test.csv", made_rows(code))
        write_csv(tmp_path / "data" / f"stsb-{code}-dev.csv", made_rows(code, 7))
    check(tmp_path)


def test_tsv_with_names_and_compressed(tmp_path, short):
    for code in CODES:
        path = tmp_path / f"stsb-{code}-test.tsv"
        write_tsv(path, made_rows(code))
        if code == "de":
            packed = gzip.compress(path.read_bytes())
            path.with_suffix(".tsv.gz").write_bytes(packed)
            path.unlink()
    check(tmp_path)


def test_published_files_beside_ours(tmp_path, short):
    for code in CODES:
        write_ours(tmp_path / "sts" / f"stsb.test.{code}.tsv.gz", made_rows(code))
        write_csv(tmp_path / "downloads" / f"stsb-{code}-test.csv", made_rows(code))
    check(tmp_path)
    assert score(tmp_path / "sts", ["de", "zh"]) == score(tmp_path, ["de", "zh"])


def test_all_three_layouts_give_the_same_rows(tmp_path):
    rows = made_rows("de")
    write_csv(tmp_path / "a.csv", rows)
    write_csv(tmp_path / "b.csv", rows, ["sentence1", "sentence2", "score"])
    write_tsv(tmp_path / "c.tsv", rows)
    for name in ("a.csv", "b.csv", "c.tsv"):
        assert read_delimited(tmp_path / name) == rows
    (tmp_path / "d.csv").write_text("score,sentence2,sentence1\n1.5,two,one\n")
    assert read_delimited(tmp_path / "d.csv") == [(1.5, "one", "two")]


def test_languages_and_splits(tmp_path, short):
    for code in CODES:
        write_csv(tmp_path / f"stsb-{code}-dev.csv", made_rows(code))
    rows = read_sts_folder(tmp_path, ["zh"])
    assert list(rows) == ["en", "zh"] and rows["zh"] == made_rows("zh")
    assert score(tmp_path, ["zh"], "dev") == sts_aligned(Table(), rows)
    with pytest.raises(InputError, match=r"lacks fr, it of .*part dev.*Found: de, en"):
        score(tmp_path, ["fr", "de", "it"], "dev")
    with pytest.raises(InputError, match="lacks en of .*part test.*Found: none"):
        score(tmp_path)
    with pytest.raises(InputError, match="`split` must be one of 'train', 'dev'"):
        read_sts_folder(tmp_path, split="tst")


def test_published_sizes(tmp_path):
    assert STSB_PAIRS == {"train": 5749, "dev": 1500, "test": 1379}
    write_csv(tmp_path / "stsb-en-test.csv", made_rows("en", 1378))
    with pytest.raises(InputError, match=r"must have 1,379 pairs.*Received: 1,378"):
        score(tmp_path)
    write_csv(tmp_path / "stsb-en-test.csv", made_rows("en", 1379))
    assert score(tmp_path)["pairs"] == 1379


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "line 1: a row must have 3 fields, .* a score. Received: 2"),
        ("a,b,1\na,b,high\n", "line 2: a score must be a finite number.*'high'"),
        ('"a,b,1\n', "the file must be CSV"),
        ("sentence1,sentence2,gold\n", "line 1: a score must be .*'gold'"),
    ],
)
def test_broken_csv(tmp_path, text, message):
    (tmp_path / "stsb-en-dev.csv").write_text(text)
    with pytest.raises(InputError, match=f"stsb-en-dev.csv`, .*{message}"):
        score(tmp_path, split="dev")
