"""The table of formats is made from artefacts that were measured."""

import gzip
import json
import runpy
from pathlib import Path

import keras
import pytest

from keras_msd.data import write_examples
from keras_msd.evaluate import score_set
from keras_msd.testing import tiny_encoder

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_table(tokenizer, tmp_path, monkeypatch, capsys):
    keras.utils.set_random_seed(7)
    encoder = tiny_encoder(tokenizer)
    encoder.save(tmp_path / "tiny")
    data = write_examples(tmp_path / "data", ["de"], pairs=30, rows=12)
    script = str(ROOT / "benchmarks" / "formats.py")
    command = [
        script, str(tmp_path / "tiny"), "--data", str(data), "--sts", "examples",
        "--formats", "onnx", "--results", str(tmp_path), "--rounds", "1",
        "--quantize", "float32", "int8", "--work", str(tmp_path / "work"),
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", [*command, "--no-times"])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the processes that are timed
    runpy.run_path(script, run_name="__main__")
    assert "milliseconds" not in (tmp_path / "formats_tiny.json").read_text()
    cards = sorted((tmp_path / "work").glob("*/card.json"))
    times = [path.stat().st_mtime_ns for path in cards]
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", command)
    runpy.run_path(script, run_name="__main__")
    assert [path.stat().st_mtime_ns for path in cards] == times, "made once"

    result = json.loads((tmp_path / "formats_tiny.json").read_text())
    assert result["fingerprint"] == encoder.fingerprint
    assert result["sts"] == "examples dev: 12 rows in en, de"
    with gzip.open(data / "parallel" / "dev" / "examples.en-de.tsv.gz", "rt") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file][:25]
    assert result["sentences"] == len({text for pair in pairs for text in pair})
    rows = {row["quantize"]: row for row in result["rows"]}
    expected = score_set(encoder, "examples", data, ["de"])
    for row in rows.values():
        for name in ("cross_lingual", "monolingual"):
            assert row["before"][name] == pytest.approx(expected[name], abs=0.2)
        assert row["milliseconds"] > 0
    assert rows["int8"]["bytes"] < rows[None]["bytes"]
    assert rows[None]["min_cosine"] > rows["int8"]["min_cosine"] > 0.9
    table = capsys.readouterr().out.splitlines()
    table = [line for line in table if line.startswith("| onnx")]
    assert len(table) == 2
    assert table[1].startswith(f"| onnx | int8 | {rows['int8']['bytes']:,} |")
