"""benchmarks/fuzz.py counts what is refused badly, and gives each input again."""

import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_msd.checks import InputError

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="counts memory as Linux does"
)
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import fuzz

    yield fuzz
    for name in ("fuzz", "fuzz_damage", "fuzz_targets"):
        sys.modules.pop(name, None)


@pytest.fixture
def seeds(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "seeds" / name).mkdir(parents=True)
        (tmp_path / "seeds" / name / "x.tsv").write_bytes(b"1\t2\n" * 9)
    return tmp_path / "seeds"


def counted(fuzz, seeds, read, inputs=200, say=lambda text: None):
    found = fuzz.Reading(read, InputError, seeds, seeds.parent / "work")
    keep = seeds.parent / "keep"
    options = {"inputs": inputs, "hypothesis": 0, "seed": 3, "keep": keep}
    options |= {"target": "x"}
    counts = fuzz.Counts(number=0)
    fuzz.work_on(found, "x", SimpleNamespace(**options), counts, say)
    kept = {path.name for path in keep.iterdir()} if keep.exists() else set()
    return {kind: getattr(counts, kind) for kind in fuzz.KINDS}, kept


def content(folder):
    return (folder / "x.tsv").read_bytes()


def test_the_same_seed_gives_the_same_inputs_and_files_are_mended(fuzz, seeds):
    calls = []
    for _ in range(2):
        inputs = []
        counts, kept = counted(
            fuzz, seeds, lambda it, to=inputs: to.append(content(it))
        )
        assert counts["taken"] == 200 and not kept
        calls.append(inputs)
        for name in ("a", "b"):
            assert content(seeds.parent / "work" / name) == content(seeds / name)
    assert calls[0] == calls[1] and len(set(calls[0])) > 100


def refuse(message):
    def read(folder):
        if content(folder) != b"1\t2\n" * 9:
            raise InputError(message.format(folder / "x.tsv"))

    return read


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("`{}`, line 1: a rule. Received: 3. Repair it.", "refused"),
        ("There is a rule. Received: 3. Repair it.", "bare"),
        ("`{}` has no rows. Received: none of it", "bare"),
        ("`{}` must be whole. Received: less of it", "refused"),
        ("`{}` is damaged", "bare"),
    ],
)
def test_a_refusal_names_place_and_repair(fuzz, seeds, message, kind):
    counts, kept = counted(fuzz, seeds, refuse(message))
    assert counts[kind] > 150 and counts[kind] + counts["taken"] == 200
    assert len(kept) == (fuzz.SHOWN if kind == "bare" else 0)


def test_what_breaks_a_rule_is_kept_and_said(fuzz, seeds):
    def read(folder):
        if len(content(folder)) < 20:
            raise KeyError(content(folder))

    said = []
    counts, kept = counted(fuzz, seeds, read, say=said.append)
    assert 0 < counts["crash"] == len(said) < 200
    assert "KeyError" in said[0] and "at test_benchmark_fuzz.py:" in said[0]
    assert kept == {line.partition(" ")[0] for line in said[: fuzz.SHOWN]}
    for name in kept:
        with pytest.raises(KeyError):
            read(seeds.parent / "keep" / name)


def test_time_and_memory_are_counted(fuzz, seeds, monkeypatch):
    monkeypatch.setattr(fuzz, "SECONDS", -1)
    assert counted(fuzz, seeds, content, inputs=3)[0]["hang"] == 3
    monkeypatch.setattr(fuzz, "MEMORY", -1 << 40)  # less than was given back
    assert counted(fuzz, seeds, content, inputs=3)[0]["over_memory"] == 3


def test_a_process_that_dies_is_told(fuzz, monkeypatch, capsys):
    counts = fuzz.Counts(number=0)
    assert fuzz.child(lambda say: say("here"), counts) == ""
    assert "here" in capsys.readouterr().out
    assert "9" in fuzz.child(lambda say: os._exit(9), counts)
    assert (
        fuzz.child(lambda say: 1 / 0, counts) and "ZeroDiv" in capsys.readouterr().out
    )
    monkeypatch.setattr(fuzz, "START", 0)
    assert fuzz.child(lambda say: __import__("time").sleep(60), counts) == "hang"


def test_calls_are_added_up(fuzz):
    counts = dict.fromkeys(fuzz.KINDS, 1)
    sums = fuzz.summary(
        {"seeds": {"1": {"a": counts, "b": counts}, "2": {"a": counts}}}
    )
    assert sums["inputs"] == {"a": 12, "b": 6}
    assert (sums["all"], sums["least"], sums["crashes"], sums["bare"]) == (18, 6, 3, 3)


def test_every_target_has_a_reader_and_damage_of_any_name(fuzz):
    import fuzz_damage
    import fuzz_targets

    assert sorted(fuzz_targets.targets()) == sorted(fuzz_targets.NAMES)
    data = {"a.words": b'["run", "x"]', "a.json": b'{"a": [1]}', "a": b"\x00\xff" * 9}
    for name, whole in data.items():
        draws = [random.Random(number) for number in range(300)]
        found = {fuzz_damage.damaged(draw, name, whole) for draw in draws}
        assert len(found) > 30 and max(map(len, found)) < 3 << 20
