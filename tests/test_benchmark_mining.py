"""The benchmarks of mining and large retrieval are made of what they say."""

import gzip
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from keras_msd.data import write_examples
from keras_msd.evaluate import best_f1, mine
from keras_msd.evaluate.nearest import top_k
from keras_msd.testing import tiny_encoder

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_mining(tokenizer, tmp_path, monkeypatch, capsys):
    encoder = tiny_encoder(tokenizer)
    encoder.save(tmp_path / "tiny")
    data = write_examples(tmp_path / "data", ["de"], pairs=200, rows=2)
    script = str(BENCHMARKS / "mining.py")
    out = tmp_path / "mining.json"
    command = [
        script, str(tmp_path / "tiny"), "--data", str(data), "--distractors", "20",
        "--out", str(out), "--json",
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", command)
    names = runpy.run_path(script, run_name="__main__")

    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert result["fingerprint"] == encoder.fingerprint
    first, second = names["halves"](data, "de", 20, 0)
    for half in (first, second):
        count = len(half.gold) + 20
        assert len(half.others) == len(half.english) == count > 110
        assert len(set(half.others + half.english)) == 2 * count
    assert not set(first.english) & set(second.english)
    rows = {text: row for row, text in enumerate(first.english)}
    lines = read_pairs(data / "parallel" / "dev")
    for i, j in first.gold:
        assert (first.english[j], first.others[i]) in lines
    others = set(first.others)
    alone = [
        pair for pair in read_pairs(data / "parallel" / "train") if pair[1] in others
    ]
    assert len(alone) >= 20 and not any(english in rows for english, _ in alone)
    row = result["languages"]["de"]
    for margin in ("ratio", "distance", "absolute"):
        mined = mine(encoder, first.others, first.english, margin)
        tuned = best_f1(mined, first.gold)
        assert row[margin]["tuned"] == pytest.approx(tuned)
        reported = row[margin]["reported"]
        assert reported["threshold"] == row[margin]["tuned"]["threshold"]
        assert reported["f1"] <= row[margin]["best_of_reported"]
        assert result["mean_f1"][margin]["reported"] == reported["f1"]


def read_pairs(folder):
    with gzip.open(folder / "examples.en-de.tsv.gz", "rt", encoding="utf-8") as file:
        return {tuple(line.rstrip("\n").split("\t")) for line in file}


def test_planted_neighbours_of_the_large_search(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    names = runpy.run_path(str(BENCHMARKS / "retrieval_million.py"))
    names["make"].__globals__["BLOCK"] = 300  # so that the table is made of several
    names["make"](tmp_path, queries=20, candidates=1000, width=384, seed=1)
    queries, table = (
        np.load(tmp_path / f"{name}.npy") for name in ("queries", "candidates")
    )
    planted = np.load(tmp_path / "planted.npy")
    assert table.shape == (1000, 384) and len(np.unique(planted)) == 60
    for vectors in (queries, table):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    cosines = queries @ table.T
    np.testing.assert_array_equal(np.argsort(-cosines, axis=1)[:, :3], planted)
    np.testing.assert_allclose(
        np.take_along_axis(cosines, planted, axis=1), [(0.9, 0.8, 0.7)] * 20, atol=1e-6
    )
    assert np.sort(cosines, axis=1)[:, -4].max() < 0.4
    found = names["plain"](queries, table, 7)
    np.testing.assert_array_equal(found, planted[:, :1])
    np.testing.assert_array_equal(top_k(queries, table, 3)[1], planted)
