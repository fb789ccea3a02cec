"""Damage what a run and its store keep, one file a case, and compare what comes of it.

    python benchmarks/damage.py --cases 200 --seed 0 --json

A small run is done undisturbed. In each case a copy of it has one file damaged (a bit
flipped, cut in half, filled with zeros, taken from a run of another seed), and the same
command goes on. It must end with the bytes of the undisturbed run, or with an error
that says what to do, and with those bytes once that is done. Further cases: a disk that
is full at some file size, a teacher that fails at its k-th call, and a clock that was
wrong when all but the last step was done. Each case is a process of its own, forked
from one that has imported all and computed nothing.
"""

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults import compare, contents

from keras_msd.files import write_json

RECIPE, SCALE = "msd_xlmr_b128_ru3", "smoke"
SMALL = {
    "assistant.num_layers": 2,
    "assistant.hidden_dim": 16,
    "assistant.num_heads": 2,
    "assistant.intermediate_dim": 16,
    "teacher.dim": 16,
    "data.pairs_per_language": 60,
    "tokenizer.vocabulary_size": 120,
    "student.start": "svd",
    "evaluate.artefacts": False,
    "stages.teach_assistant.steps": 2,
    "stages.align_embedding.steps": 1,
    "stages.teach_student.steps": 2,
    "stages.contrastive_learning.steps": 2,
}
# Tables that a stage makes again when it is asked for, beside the step's own files.
CACHES = re.compile(r"/(tokens-|texts-)|/rows/")
FAILED = "the teacher failed"
Outcome = tuple[int | None, str]  # the exit code, None for a traceback, and stderr
Verdict = tuple[str, str]


def main() -> None:
    """Run all cases, print a line each, and the object with the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--artefacts", action="store_true", help="export, too")
    parser.add_argument("--folder", type=Path, default=Path("runs/damage"))
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--out", type=Path, help="write what came of each case here")
    parser.add_argument("--json", action="store_true", help="the object alone")
    options = parser.parse_args()
    say = (lambda *words: None) if options.json else print
    began = time.monotonic()
    trial = Trial(options.folder, options.artefacts)
    say(f"undisturbed: {time.monotonic() - began:.0f} s")
    cases = trial.cases(random.Random(options.seed))
    cases = [name for name in cases if options.only in name]
    outcomes: dict[str, str] = {}
    bad: dict[str, str] = {}
    for name in cases[: options.cases]:
        outcome, said = trial.run_case(name)
        outcomes[name] = outcome
        if outcome in ("silent", "traceback", "lost"):
            bad[name] = f"{outcome}: {said[-600:]}"
        say(f"{name}: {outcome}")
    counts = Counter(outcomes.values())
    result = {
        "cases": sum(counts.values()),
        "same": counts["same"],
        "repaired": counts["repaired"],
        "silent": counts["silent"],
        "tracebacks": counts["traceback"],
        "lost": counts["lost"],
        "bad": bad,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    if options.out:
        write_json(options.out, result | {"seed": options.seed, "outcomes": outcomes})
    print(json.dumps(result))
    sys.exit(bool(bad))


class Trial:
    """An undisturbed run, one of another seed, and the cases made of both.

    Args:
        folder: Where everything happens; it is emptied.
        artefacts: Whether an artefact is exported.
    """

    def __init__(self, folder: Path, artefacts: bool) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.settings = folder, SMALL | {"evaluate.artefacts": artefacts}
        self.whole, self.other = folder / "whole", folder / "other"
        for place, seed in ((self.whole, 0), (self.other, 1)):
            code, said = self.go_on(place, {"recipe.seed": seed, "data.seed": seed})
            if code:
                raise RuntimeError(said)
        self.expected = _lasting(self.whole / "run")

    def cases(self, draw: random.Random) -> list[str]:
        """Return the names of all cases, mixed: kind of damage, then the place."""
        files = [it for it in self.whole.rglob("*") if it.is_file()]
        names = sorted(it.relative_to(self.whole).as_posix() for it in files)
        names = [it for it in names if not it.endswith((".lock", ".html", ".md"))]
        damages = [f"{damage} {name}" for name in names for damage in DAMAGES]
        sizes = sorted({it.stat().st_size for it in files} - {0})
        full = [f"full {size - 1}" for size in sizes[:: max(1, len(sizes) // 5)]]
        failing = [f"teacher {call}" for call in range(1, 4)]
        clocks = [f"clock {year}" for year in (1981, 2099)]
        draw.shuffle(damages)
        # Of each kind of file one case of each damage, then the others.
        first = {_kind(it): it for it in reversed(damages)}.values()
        return list(dict.fromkeys((*first, *full, *failing, *clocks, *damages)))

    def run_case(self, name: str) -> Verdict:
        """Return "same", "repaired", "silent", "lost" or "traceback", and stderr."""
        kind, place = name.split(" ", 1)
        work = self.folder / "case"
        shutil.rmtree(work, ignore_errors=True)
        if kind in DAMAGES:
            shutil.copytree(self.whole, work)
            if not DAMAGES[kind](work / place, self.other / place):
                return "same", "nothing to damage"
            code, said = self.go_on(work)
        elif kind == "clock":
            shutil.copytree(self.whole, work)
            done = work.rglob("done.json")
            shutil.rmtree(max(done, key=lambda it: it.stat().st_mtime).parent)
            _date(work, int(place))
            code, said = self.go_on(work)
        elif kind == "full":
            code, said = self.go_on(work, limit=int(place))
        else:
            code, said = self.go_on(work, fails_at=int(place))
        if code == 0:
            return self.compared(work, "same", "silent", said)
        if code is None and FAILED not in said:
            return "traceback", said
        return self.repaired(work, said)

    def repaired(self, work: Path, said: str) -> Verdict:
        """Do what the message says, and go on."""
        if "Delete the folder" in said:
            shutil.rmtree(work / "store")
        code, more = self.go_on(work, repair="--repair" in said)
        if code != 0:
            return ("traceback" if code is None else "lost"), f"{said}\nTHEN {more}"
        return self.compared(work, "repaired", "lost", said)

    def compared(self, work: Path, good: str, bad: str, said: str) -> Verdict:
        """Compare a run with the undisturbed one."""
        different = compare(self.expected, _lasting(work / "run"))
        return (bad if different else good), f"{said}\n{different[:5]}"

    def go_on(
        self,
        place: Path,
        changes: dict[str, Any] | None = None,
        repair: bool = False,
        limit: int | None = None,
        fails_at: int | None = None,
    ) -> Outcome:
        """Run the command in a process of its own."""
        place.mkdir(parents=True, exist_ok=True)
        base = {"recipe.seed": 0, "data.seed": 0}
        settings = self.settings | base | (changes or {})
        words = ["run", RECIPE, "--scale", SCALE, "--out", str(place / "run")]
        words += ["--store", str(place / "store"), *(["--repair"] if repair else [])]
        for key, value in settings.items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        return _in_a_child(lambda: _command(words, limit, fails_at), place / "outcome")


def _lasting(folder: Path) -> dict[str, bytes]:
    found = contents(folder).items()
    return {name: data for name, data in found if not CACHES.search(name)}


def _kind(case: str) -> str:
    """Return damage, folder and name without what tells steps of a kind apart."""
    damage, path = case.split(" ", 1)
    parts = Path(path).parts
    return " ".join((damage, *parts[:2], *parts[3:]) if len(parts) > 3 else (case,))


def flip(path: Path, other: Path) -> bool:
    """Flip a bit in the middle."""
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 16
        path.write_bytes(data)
    return bool(data)


def cut(path: Path, other: Path) -> bool:
    """Leave the first half."""
    size = path.stat().st_size
    os.truncate(path, size // 2)
    return size > 0


def zero(path: Path, other: Path) -> bool:
    """Fill the last half with zeros."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    return bool(data)


def swap(path: Path, other: Path) -> bool:
    """Take the file of the run of another seed."""
    if not other.is_file():  # names of its own, such as a store's
        return False
    shutil.copyfile(other, path)
    return True


def _date(folder: Path, year: int) -> None:
    """Have all files be last changed in some year."""
    moment = time.mktime((year, 1, 1, 0, 0, 0, 0, 0, 0))
    for path in folder.rglob("*"):
        os.utime(path, (moment, moment))


DAMAGES: dict[str, Callable[[Path, Path], bool]] = {
    "flip": flip,
    "cut": cut,
    "zero": zero,
    "swap": swap,
}


def _command(words: list[str], limit: int | None, fails_at: int | None) -> int:
    from keras_msd.checks import InputError
    from keras_msd.cli.commands import app
    from keras_msd.data import store

    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    if fails_at is not None:
        store.CHUNK_SENTENCES, calls = 40, iter(range(1, 1 << 30))
        compute = store.GuideStore._compute

        def failing(self: Any, missing: Any) -> None:
            if next(calls) == fails_at:
                raise RuntimeError(FAILED)
            compute(self, missing)

        store.GuideStore._compute = failing  # type: ignore[method-assign]
    try:
        app(args=words, prog_name="keras-msd", standalone_mode=False)
    except (InputError, OSError) as error:  # as `main` takes them
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def _in_a_child(work: Callable[[], int], path: Path) -> Outcome:
    """Fork, work there, and return the exit code and what went to stderr."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        said = path.read_text() if path.exists() else "no word"
        path.unlink(missing_ok=True)
        code = os.waitstatus_to_exitcode(status)
        return (None if code not in (0, 2) else code), said
    heard, code = io.StringIO(), 70
    try:
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(heard):
            code = work()
    except BaseException:
        heard.write(traceback.format_exc())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        path.write_text(heard.getvalue())
        os._exit(code)


if __name__ == "__main__":
    # Imported before any fork, so that a case takes its own time alone.
    import keras_msd.recipes.runs.checks
    import keras_msd.recipes.steps.plan
    import keras_msd.report  # noqa: F401

    main()
