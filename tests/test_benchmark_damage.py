"""benchmarks/damage.py tells what was noticed from what nobody looked at."""

import json
import os
import random
import sys
import zlib
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="cases are forked"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]
PARTS = ("damage", "damage_cases", "damage_child", "faults")


@pytest.fixture
def damage(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import damage

    yield damage
    for name in PARTS:
        sys.modules.pop(name, None)


def put(path, content):
    """Write a file under a name beside, then give it its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    beside.write_bytes(content)
    os.replace(beside, path)


class Runs:
    """A run of two steps over a store, as good or as bad as asked for."""

    def __init__(self, fault=""):
        self.fault = fault

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
            if self.fault == "unread" or not vectors.is_file():
                calls["teacher"] += 1
                if calls["teacher"] == calls.get("fails_at"):
                    raise RuntimeError(f"{FAILED} `{place}` same command")
                if self.fault != "unread":
                    put(vectors, fresh)
            elif vectors.read_bytes() != fresh and self.fault != "silent":
                sys.stderr.write("UserWarning: damaged, anew\n")
                put(vectors, fresh)
            data = fresh if self.fault == "unread" else vectors.read_bytes()
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


def tried(damage, folder, fault="", only="", most=400):
    trial = damage.Trial(folder, Runs(fault), artefacts=False)
    cases = trial.cases(random.Random(0))
    return cases, damage.judged(trial, cases, most, only)


@pytest.mark.slow
def test_what_is_noticed_is_told_from_what_is_not_read(damage, tmp_path):
    cases, found = tried(damage, tmp_path / "runs")
    assert not found["bad"] and not damage.failed(found)
    assert found["cases"] == sum(found[name] for name in damage.GOOD) > 20
    # Timings are written anew, and nothing reads what the stopped runs left.
    assert found["unread"] == [
        "run/stages/*/unfinished/checkpoint_0",
        "run/stages/*/unfinished/checkpoint_1",
        "run/stages/*/unfinished/checkpoint_2",
        "run/timings.json",
    ]
    of = found["outcomes"]
    assert of["flip run/stages/train/weights of a whole run"] == "repaired"
    assert of["swap run/timings.json of a whole run"] == "untouched"
    assert {v for k, v in of.items() if " store/" in k} >= {"mended"}
    assert found["by_damage"]["full"]["repaired"] > 0
    assert found["by_damage"]["teacher"] == {"repaired": 1}
    special = [case.what not in damage.DAMAGES for case in cases]
    assert special == sorted(special, reverse=True) and any(special)


@pytest.mark.parametrize(
    ("fault", "only", "outcome"),
    [
        ("silent", "flip store/id0/vectors.f32 of a whole run", "silent"),
        ("raises", "run/stages/train/weights", "tracebacks"),
        ("mute", "run/stages/train/weights", "lost"),
    ],
)
def test_what_must_not_be_is_counted(damage, tmp_path, fault, only, outcome):
    found = tried(damage, tmp_path / "runs", fault, only)[1]
    assert found[outcome] == found["cases"] > 0
    assert len(found["bad"]) == found["cases"] and damage.failed(found)


@pytest.mark.parametrize(
    ("fault", "only"),
    [("blind", "run/stages/train/weights"), ("", "timings.json"), ("", "no such case")],
)
def test_it_fails_where_nothing_was_read(damage, tmp_path, fault, only):
    found = tried(damage, tmp_path / "runs", fault, only)[1]
    assert found["cases"] == 0 and damage.failed(found)
    assert not found["bad"]


def test_equal_files_and_empty_ones_are_no_cases(damage, tmp_path):
    trial = damage.Trial(tmp_path / "runs", Runs(), artefacts=False)
    mark = "run/stages/train/done.json"
    for place in (trial.folder / "whole", trial.folder / "other"):
        (place / mark).write_text("{}")
    (trial.folder / "whole/run/empty").touch()
    for what, place in (("swap", mark), ("flip", "run/empty"), ("swap", "run/empty")):
        case = damage.Case(what, place)
        assert trial.run_case(case) == ("untouched", "nothing to damage")


def test_files_of_other_names_are_swapped_by_their_kind(damage, tmp_path):
    from damage_cases import Seen, counterparts

    mine = Seen([], {}, ["store/b/x", "store/c/x", "run/stages/one/y"], {})
    others = Seen([], {}, ["store/b/x", "store/d/x", "run/stages/one/y"], {})
    assert counterparts(mine, others) == {"store/c/x": "store/d/x"}


def test_each_kind_of_file_has_its_turn(damage):
    from damage_cases import in_order

    places = ["store/a/x", *(f"run/stages/{step}/{it}" for step in "st" for it in "yz")]
    files = [
        damage.Case(what, place, back="s" if place.startswith("store") else "")
        for place in places
        for what in damage.DAMAGES
    ]
    special = [damage.Case("full", "9")]
    found = list(in_order(special, list(files), random.Random(0)))
    assert found[0] == special[0] and {*found[1:]} == {*files}
    assert {it.what for it in found[1:5] if it.back} == {*damage.DAMAGES}
    turns = [[it.kind for it in found[i : i + 2]] for i in (5, 7, 9, 11)]
    assert all(len({*turn}) == 2 for turn in turns)
    firsts = {(it.what, it.kind) for it in found[5:13]}
    assert len(firsts) == 8  # each damage of both kinds


def test_a_step_reads_what_is_opened_before_its_mark(damage):
    from damage_cases import seen

    events = [
        ("read", "store/a"),
        ("named", "run/stages/one/weights"),
        ("named", "run/stages/one/done.json"),
        ("read", "store/a"),
        ("read", "run/stages/one/weights"),
        ("named", "run/stages/two/done.json"),
    ]
    found = seen(events, {})
    assert found.steps == ["one", "two"]
    assert found.readers == {"store/a": ["one", "two"], events[4][1]: ["two"]}


def test_a_file_that_was_replaced_before_is_not_read(damage):
    from damage_child import Outcome

    events = [("named", "a"), ("read", "a"), ("read", "b/c"), ("named", "b/c")]
    outcome = Outcome(0, "", events, {})
    assert not outcome.read("a") and outcome.read("b/c") and outcome.read("b")
    assert not outcome.read("d")


def test_clocks_jump_in_the_process_alone(damage, tmp_path):
    import time

    from damage_child import Conditions, in_a_child

    def look():
        print(time.time(), time.monotonic(), time.time())
        return 0

    place, heard = tmp_path / "place", tmp_path / "heard"
    now, passed = time.time(), time.monotonic()
    seen = []
    for days in (30.0, -30.0):
        conditions = Conditions(clock=2, days=days)
        outcome = in_a_child(look, place, conditions, heard)
        assert outcome.code == 0
        seen.append([float(word) for word in outcome.said.split()])
    month = 30 * 86400.0
    for (first, steady, last), sign in zip(seen, (1, -1), strict=True):
        assert abs(first - now) < 60 and abs(last - now - sign * month) < 60
        assert abs(steady - passed - (month if sign > 0 else 0)) < 60
    assert abs(time.time() - now) < 60
