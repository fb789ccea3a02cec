"""benchmarks/soak.py counts what differs, what raises, and what it took."""

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="samples memory as Linux tells it"
)
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import soak

    yield soak
    for name in ("soak", "memory_epoch"):
        sys.modules.pop(name, None)


def lengths(texts):
    return np.array([[len(text)] for text in texts], np.float32)


GROUPS = [["a"], ["bb", "ccc"], ["dddd"]]


def test_equal_answers_are_not_wrong(soak):
    found = soak.soak(lengths, GROUPS, threads=3, seconds=0.0, calls=50)
    assert found["calls"] >= 50
    assert (found["wrong"], found["failed"], found["largest"]) == (0, 0, 0.0)
    assert found["p50_ms"] <= found["p99_ms"]
    assert found["mib_peak"] >= found["mib_end"] > 0


def test_time_and_calls_are_both_over(soak):
    found = soak.soak(lengths, GROUPS, threads=2, seconds=0.2, calls=1)
    assert found["seconds"] >= 0.2 and found["calls"] > 1


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        (lambda it: it + 2e-5, ("wrong", "failed")),
        (lambda it: it * np.nan, ("wrong", "failed")),
        (lambda it: it[:, :0], ("wrong", "failed")),
        (lambda it: it / it.missing, ("failed", "wrong")),
    ],
)
def test_each_tenth_answer_is_counted(soak, change, counted):
    count = itertools.count()

    def call(texts):
        number = next(count)  # the first three are the single thread's
        answer = lengths(texts)
        return change(answer) if number >= 3 and number % 10 == 0 else answer

    found = soak.soak(call, GROUPS, threads=4, seconds=0.0, calls=100)
    tenth = range(10, 3 + found["calls"], 10)
    assert [found[name] for name in counted] == [len(tenth), 0]


def test_growth_is_judged_without_the_times_of_calls(soak):
    assert soak.grown(100.0, 110.0, calls=2**20) == 3.6
    assert soak.grown(100.0, 110.0, calls=2**20, each=0) == 10.0
    found = {
        "flat": {"seconds": 600.0, "mib_grown": 4.0},
        "leaking": {"seconds": 600.0, "mib_grown": 4.1},
        "short": {"seconds": 6.0, "mib_grown": 40.0},
        "refused": {"refused": "no such tokenizer"},
    }
    assert soak.judged(found) == ["leaking"]


def test_a_leak_is_seen(soak, monkeypatch):
    """An even leak grows by eight tenths of itself between both windows."""
    kept = []

    def leaking(texts):
        kept.append(np.ones(2**15))  # 256 KiB
        time.sleep(0.004)
        return lengths(texts)

    found = soak.soak(leaking, GROUPS, threads=1, seconds=0.6, calls=100)
    assert found["mib_grown"] > 10.0
    monkeypatch.setattr(soak, "JUDGED_S", 0.0)
    assert soak.judged({"leaking": found}) == ["leaking"]


@pytest.mark.parametrize(("size", "code"), [(5.0, 1), (1.0, 0)])
def test_growth_is_part_of_the_exit_code(soak, tmp_path, monkeypatch, size, code):
    told = json.dumps({"seconds": 99.0, "wrong": 0, "failed": 0, "mib_grown": size})
    done = subprocess.CompletedProcess([], 0, stdout=told)
    monkeypatch.setattr(soak.subprocess, "run", lambda *words, **options: done)
    out = tmp_path / "soak.json"
    out.write_text(json.dumps({"grown": ["onnx", "encode"]}))
    words = ["soak.py", "tiny", "--only", "encode", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    assert soak.main() == code
    assert json.loads(out.read_text())["grown"] == ["onnx", *["encode"] * code]


def test_groups_are_of_mixed_lengths(soak):
    groups = soak.groups_of_texts(0, 60)
    assert len(groups) == 60
    assert groups == soak.groups_of_texts(0, 60) != soak.groups_of_texts(1, 60)
    assert {len(group) for group in groups} == {1, 2, 3, 4}
    sizes = [len(text) for group in groups for text in group]
    assert max(sizes) > 8 * min(sizes)
