"""The multilingual STS benchmark."""

import gzip

import numpy as np
import pytest
from table_encoder import Table, spearman

from keras_msd.checks import InputError
from keras_msd.evaluate import read_sts_folder, score_set, sts_aligned

CODES = ("en", "de", "zh")


def score(folder, languages=None, split="test"):
    return score_set(Table(), "stsb", folder, languages, split)


def made_rows(code, pairs=30):
    gold = np.random.default_rng(4).integers(0, 26, pairs) / 5
    return [
        (float(g), f'{code}, "one" {i}', f"{code} two {i % 23}")
        for i, g in enumerate(gold)
    ]


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


def test_tracks_within_and_across_languages(tmp_path):
    for code in CODES:
        write_ours(tmp_path / "sts" / f"stsb.test.{code}.tsv.gz", made_rows(code))
        write_ours(tmp_path / "sts" / f"stsb.dev.{code}.tsv.gz", made_rows(code, 7))
    check(tmp_path)


def test_languages_and_splits(tmp_path):
    for code in CODES:
        write_ours(tmp_path / f"stsb.dev.{code}.tsv.gz", made_rows(code))
    rows = read_sts_folder(tmp_path, ["zh"])
    assert list(rows) == ["en", "zh"] and rows["zh"] == made_rows("zh")
    assert score(tmp_path, ["zh"], "dev") == sts_aligned(Table(), rows)
    with pytest.raises(InputError, match=r"lacks fr, it of .*part dev.*Found: de, en"):
        score(tmp_path, ["fr", "de", "it"], "dev")
    with pytest.raises(InputError, match="lacks en of .*part test.*Found: none"):
        score(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\n", "line 1: a row must have 3 fields, .* a score. Received: 2"),
        ("1\ta\tb\nhigh\ta\tb\n", "line 2: a score must be a finite .*'high'"),
    ],
)
def test_broken_files(tmp_path, text, message):
    (tmp_path / "stsb.dev.en.tsv.gz").write_text(text)
    with pytest.raises(InputError, match=f"stsb.dev.en.tsv.gz`, .*{message}"):
        score(tmp_path, split="dev")
