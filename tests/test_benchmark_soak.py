"""benchmarks/soak.py counts what differs, what raises, and sees a leak."""

import itertools
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="samples memory as Linux tells it"
)
GROUPS = [["a"], ["bb", "ccc"], ["dddd"]]


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import soak

    yield soak
    for name in ("soak", "workers"):
        sys.modules.pop(name, None)


def lengths(texts):
    return np.array([[len(text)] for text in texts], np.float32)


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
    assert soak.is_bad(found)


def test_a_leak_is_seen(soak, monkeypatch):
    """An even leak grows by eight tenths of itself between both windows."""
    monkeypatch.setattr(soak, "JUDGED_S", 0.0)
    kept = []

    def leaking(texts):
        kept.append(np.ones(2**15))  # 256 KiB
        time.sleep(0.004)
        return lengths(texts)

    found = soak.soak(leaking, GROUPS, threads=1, seconds=0.6, calls=100)
    assert found["seconds"] >= 0.6 and found["mib_grown"] > 10.0
    assert soak.is_bad(found)
    found = soak.soak(lengths, GROUPS, threads=3, seconds=0.0, calls=50)
    assert found["calls"] >= 50 and found["p50_ms"] <= found["p99_ms"]
    assert not soak.is_bad(found | {"mib_grown": 4.0})
