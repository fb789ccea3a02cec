"""benchmarks/damage.py tells what was noticed from what nobody looked at."""

import json
import os
import random
import sys
import time
import zlib
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="cases are forked"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def damage():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
        import damage

        yield damage
    for name in ("damage", "damage_cases", "damage_child", "faults"):
        sys.modules.pop(name, None)


def put(path, content):
    """Write a file under a name beside, then give it its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    beside.write_bytes(content)
    os.replace(beside, path)


class Runs:
    """A run of two steps over a store, as good or as bad as asked for."""

    fault = ""

    def go_on(self, place, seed=0, store="store", repair=False, always=False):
        try:
            return self.run(place, seed, place / store / f"id{seed}", repair)
        except OSError as error:
            sys.stderr.write(f"`{place}` is full ({error}). Free space.")
            return 2

    def run(self, place, seed, store, repair):
        from damage_child import FAILED, calls

        stages = place / "run/stages"
        for step in ("train", "score_train"):
            mark, weights = stages / step / "done.json", stages / step / "weights"
            if mark.is_file():
                try:
                    known = json.loads(mark.read_bytes())["files"]["weights"]
                except (ValueError, KeyError):
                    known = None
                if self.fault == "blind" or zlib.crc32(weights.read_bytes()) == known:
                    continue
                if self.fault == "raises":
                    raise KeyError("weights")
                if not repair:
                    repair_is = "" if self.fault == "mute" else "--repair"
                    sys.stderr.write(f"`{weights}` {repair_is}")
                    return 2
            vectors = store / "vectors.f32"
            fresh = b"%d" % seed * 40
            if not vectors.is_file():
                calls["teacher"] += 1
                if calls["teacher"] == calls.get("fails_at"):
                    raise RuntimeError(f"{FAILED} `{place}` same command")
                put(vectors, fresh)
            elif vectors.read_bytes() != fresh and self.fault != "silent":
                sys.stderr.write("UserWarning: damaged, anew\n")
                put(vectors, fresh)
            data = vectors.read_bytes()
            for number in range(3):
                put(stages / step / f"unfinished/checkpoint_{number}", data)
            put(weights, data)
            files = {"weights": zlib.crc32(data)}
            put(mark, json.dumps({"result": {}, "files": files}).encode())
            for path in (stages / step / "unfinished").iterdir():
                path.unlink()
            (stages / step / "unfinished").rmdir()
        put(place / "run/timings.json", b"{}")
        return 0


@pytest.fixture(scope="module")
def judged(damage, tmp_path_factory):
    """Return what judges cases; the runs that they begin from are made once."""
    trial = damage.Trial(tmp_path_factory.mktemp("damage") / "runs", Runs())

    def judge(fault="", only=""):
        trial.runs.fault = fault
        return damage.judged(trial, trial.cases(random.Random(0)), 400, only)

    return judge


@pytest.mark.slow
def test_what_is_noticed_is_told_from_what_is_not_read(damage, judged):
    found = judged()
    assert not found["bad"] and not damage.failed(found)
    assert found["cases"] == sum(found[name] for name in damage.GOOD) > 20
    of = found["outcomes"]
    assert of["flip run/stages/train/weights of a whole run"] == "repaired"
    assert of["swap run/timings.json of a whole run"] == "untouched"
    swapped = [of[it] for it in of if it.startswith("swap store/id0/vectors.f32 of a")]
    assert swapped == ["mended"]
    assert found["by_damage"]["full"]["repaired"] > 0
    assert found["by_damage"]["teacher"] == {"repaired": 1}


@pytest.mark.parametrize(
    ("fault", "only", "outcome"),
    [
        ("silent", "flip store/id0/vectors.f32 of a whole run", "silent"),
        ("raises", "flip run/stages/train/weights", "tracebacks"),
        ("mute", "cut run/stages/train/weights", "lost"),
    ],
)
def test_what_must_not_be_is_counted(damage, judged, fault, only, outcome):
    found = judged(fault, only)
    assert found[outcome] == found["cases"] == len(found["bad"]) > 0
    assert damage.failed(found)


def test_it_fails_where_nothing_was_read(damage, judged):
    found = judged("blind", "flip run/stages/train/weights")
    assert found["cases"] == 0 and damage.failed(found) and not found["bad"]


def test_clocks_jump_in_the_process_alone(damage, tmp_path):
    from damage_child import Conditions, in_a_child

    def look():
        print(time.time(), time.monotonic(), time.time())
        return 0

    now, passed = time.time(), time.monotonic()
    for days in (30.0, -30.0):
        conditions = Conditions(clock=2, days=days)
        outcome = in_a_child(look, tmp_path / "place", conditions, tmp_path / "heard")
        first, steady, last = map(float, outcome.said.split())
        assert abs(first - now) < 60 and abs(last - now - days * 86400) < 60
        assert abs(steady - passed - max(days, 0.0) * 86400) < 60
    assert abs(time.time() - now) < 60
