"""benchmarks/seals.py counts every file of a run and of its stores."""

import sys
from pathlib import Path

import pytest
from test_damage import made
from tiny_data import HashGuide

from keras_msd.data import GuideStore
from keras_msd.files import write_json


@pytest.fixture
def seals(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import seals

    yield seals
    sys.modules.pop("seals", None)


def test_all_files_are_counted(seals, tmp_path):
    run, store = tmp_path / "run", tmp_path / "stores"
    made(run)
    write_json(run / "timings.json", {"seconds": 50.0})
    GuideStore(HashGuide(), store / "one").build(["a", "b", "c"])
    found = seals.measured(run, store, repeats=2)
    assert (found["files"], found["run_s"]) == (3, 50.0)
    assert found["bytes"] == 256 * 9 + len('{"loss": 1.5}') + 99
    assert found["store_bytes"] == 3 * (4 * 4 + 16)
    assert all(found[f"{it}_s"] > 0 for it in ("checksums", "seals", "store"))
    assert found["percent"] > 0
    without = seals.measured(run, None, repeats=1)
    assert (without["store_bytes"], without["files"]) == (0, 3)


def test_the_shortest_time_counts(seals):
    calls = []
    assert 0 <= seals.least(lambda: calls.append(1), repeats=4) < 1
    assert len(calls) == 4
