"""benchmarks/fuzz.py counts what is refused badly, and gives each input again."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_msd.checks import InputError

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="counts memory as Linux does"
)
WHOLE = b"1\t2\n" * 9


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import fuzz

    yield fuzz
    for name in ("fuzz", "fuzz_damage", "fuzz_targets"):
        sys.modules.pop(name, None)


@pytest.fixture
def counted(fuzz, tmp_path):
    """Give inputs to a reader; return the counts, what was said, the kept names."""
    (tmp_path / "seeds" / "a").mkdir(parents=True)
    (tmp_path / "seeds/a/x.tsv").write_bytes(WHOLE)

    def count(read, inputs=60):
        found = fuzz.Reading(read, InputError, tmp_path / "seeds", tmp_path / "work")
        keep, said = tmp_path / "keep", []
        options = SimpleNamespace(inputs=inputs, seed=3, keep=keep)
        counts = fuzz.Counts(number=0)
        fuzz.work_on(found, "x", options, counts, said.append)
        kept = {path.name for path in keep.iterdir()} if keep.exists() else set()
        return {kind: getattr(counts, kind) for kind in fuzz.KINDS}, said, kept

    return count


def content(folder):
    return (folder / "x.tsv").read_bytes()


def test_the_same_seed_gives_the_same_inputs_and_files_are_mended(counted, tmp_path):
    calls = []
    for _ in range(2):
        inputs = []
        counts, _, kept = counted(lambda it, to=inputs: to.append(content(it)))
        assert counts["taken"] == 60 and not kept
        calls.append(inputs)
        assert content(tmp_path / "work/a") == WHOLE
    assert calls[0] == calls[1] and len(set(calls[0])) > 30


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
def test_a_refusal_names_place_and_repair(fuzz, counted, message, kind):
    def read(folder):
        if content(folder) != WHOLE:
            raise InputError(message.format(folder / "x.tsv"))

    counts, _, kept = counted(read)
    assert counts[kind] > 40 and counts[kind] + counts["taken"] == 60
    assert len(kept) == (fuzz.SHOWN if kind == "bare" else 0)


def test_what_breaks_a_rule_is_kept_and_said(fuzz, counted, tmp_path):
    def read(folder):
        if len(content(folder)) < 20:
            raise KeyError(content(folder))

    counts, said, kept = counted(read)
    assert 0 < counts["crash"] == len(said) < 60
    assert "KeyError" in said[0] and "at test_benchmark_fuzz.py:" in said[0]
    assert kept == {line.partition(" ")[0] for line in said[: fuzz.SHOWN]}
    for name in kept:
        with pytest.raises(KeyError):
            read(tmp_path / "keep" / name)


def test_time_and_memory_are_counted(fuzz, counted, monkeypatch):
    monkeypatch.setattr(fuzz, "SECONDS", -1)
    assert counted(content, inputs=3)[0]["hang"] == 3
    monkeypatch.setattr(fuzz, "MEMORY", -1 << 40)  # less than was given back
    assert counted(content, inputs=3)[0]["over_memory"] == 3


def test_a_process_that_dies_is_told(fuzz, monkeypatch, capsys):
    counts = fuzz.Counts(number=0)
    assert fuzz.child(lambda say: say("here"), counts) == ""
    assert "here" in capsys.readouterr().out
    assert "9" in fuzz.child(lambda say: os._exit(9), counts)
    assert fuzz.child(lambda say: 1 / 0, counts)
    assert "ZeroDiv" in capsys.readouterr().out
