"""Damage what a run and its store keep, and compare what comes of it.

    python benchmarks/damage.py --cases 170 --seed 0

A small run is done undisturbed, one is stopped in a stage and one while it is scored.
First come cases of full disks, folders that
are read-only, clocks that jump, and a teacher that raises at its k-th call. In each of
the others a copy has one file damaged (a bit flipped, cut in half, half of it zeros,
taken from a run of another seed), and the same command goes on; files that no step has
checksums of, such as a store's, are read again as the mark of a step that reads them is
gone. It must end with the bytes of the undisturbed run, or with an error that names the
place and the repair, and with those bytes once that is done.

A case counts only if what is damaged was opened as it was, or named in an error, and if
anything was changed.
Outcomes: "same" bytes and not a word, "mended" (the same, and the file was named in a
warning or is whole again or gone), "repaired", and what must not be: "silent" (other
bytes), "traceback", "lost" (no repair is named, or it does not help).
"""

import argparse
import json
import random
import re
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from damage_cases import (
    CACHES,
    DAMAGES,
    DISKS,
    NEW,
    ONCE,
    SCORING,
    TWICE,
    WHOLE,
    Case,
    date,
    disk,
    disks_refused,
    file_cases,
    in_order,
    seen,
    special_cases,
)
from damage_child import FAILED, Conditions, Outcome, Runs, in_a_child
from faults import compare, contents

from keras_msd.io.files import write_json

BAD = {"silent": "silent", "traceback": "tracebacks", "lost": "lost"}
GOOD = ("same", "mended", "repaired")
UNTOUCHED = "untouched"  # no case
CHECKPOINT = r"/unfinished/[^/]+$"
Verdict = tuple[str, str]


def main() -> None:
    """Run all cases, print a line each, and the object with the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=240, help="that count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/damage"))
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--out", type=Path, help="write what came of each case here")
    options = parser.parse_args()
    say = partial(print, flush=True)
    began = time.monotonic()
    runs = Runs()
    runs.prepare()
    trial = Trial(options.folder, runs)
    say(f"undisturbed: {time.monotonic() - began:.0f} s")
    draw = random.Random(options.seed)
    found = judged(trial, trial.cases(draw), options.cases, options.only, say)
    found["minutes"] = round((time.monotonic() - began) / 60, 1)
    outcomes = found.pop("outcomes")
    if options.out:
        write_json(options.out, found | {"seed": options.seed, "outcomes": outcomes})
    print(json.dumps(found))
    sys.exit(failed(found))


def judged(
    trial: "Trial",
    cases: list[Case],
    most: int,
    only: str = "",
    say: Callable[..., Any] = lambda *words: None,
) -> dict[str, Any]:
    """Run cases until so many have counted, and return what came of them."""
    outcomes: dict[str, str] = {}
    bad: dict[str, str] = {}
    by_damage: dict[str, Counter[str]] = defaultdict(Counter)
    counts: Counter[str] = Counter()
    for case in cases:
        if counts.total() - counts[UNTOUCHED] >= most:
            break
        if only not in case.name:
            continue
        outcome, said = trial.run_case(case)
        outcomes[case.name] = outcome
        counts[outcome] += 1
        by_damage[case.what][outcome] += 1
        if outcome in BAD:
            bad[case.name] = f"{outcome}: {said[-1200:]}"
        say(f"{case.name}: {outcome}")
    return {
        "skipped": trial.skipped,
        "by_damage": {name: dict(found) for name, found in by_damage.items()},
        UNTOUCHED: counts[UNTOUCHED],
        **{name: counts[name] for name in GOOD},
        "bad": bad,
        "outcomes": outcomes,
        "cases": counts.total() - counts[UNTOUCHED],
        **{name: counts[outcome] for outcome, name in BAD.items()},
    }


def failed(found: dict[str, Any]) -> bool:
    """Tell whether anything is bad, or nothing was tried."""
    return bool(found["bad"]) or not found["cases"]


class Trial:
    """Undisturbed runs, stopped ones, those of another seed, and the cases of all.

    Args:
        folder: Where everything happens; it is emptied.
        runs: Gives the command, as `Runs` does.
    """

    def __init__(self, folder: Path, runs: Any) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.runs = folder.resolve(), runs
        self.work = self.folder / "case"
        self.skipped: dict[str, str] = {}
        if refused := disks_refused(self.folder / "disk"):
            self.skipped = dict.fromkeys(DISKS, refused)
        whole, self.seen = self._whole(WHOLE, 0)
        self._whole("other", 1)
        self.expected = contents(whole / "run")
        self.bases = [WHOLE]
        # The last step but those that keep copies and scores is a stage.
        scored = [it for it in self.seen.steps if it.startswith("score_")][-1]
        stage = scored.removeprefix("score_")
        for name, step, pattern in (
            (TWICE, stage, (CHECKPOINT, 3)),
            (ONCE, stage, (CHECKPOINT, 2)),
            (SCORING, scored, (f"/{scored}/done.json$", 1)),
        ):
            self._stopped(name, step, pattern)

    def _whole(self, name: str, seed: int) -> tuple[Path, Any]:
        place = self.folder / name
        done = self._child(partial(self.runs.go_on, place, seed), place)
        if done.code != 0:
            raise RuntimeError(done.said)
        return place, seen(done.events, done.calls)

    def _stopped(self, name: str, step: str, stops_at: tuple[str, int]) -> None:
        """Leave two runs that were stopped in a step: one to damage, one to swap."""
        self.bases.append(name)
        for base, suffix, seed in ((WHOLE, "", 0), ("other", "_other", 1)):
            place = self.folder / f"{name}{suffix}"
            shutil.copytree(self.folder / base, place)
            (place / "run/stages" / step / "done.json").unlink()
            work = partial(self.runs.go_on, place, seed, always=True)
            done = self._child(work, place, Conditions(stops_at=stops_at))
            if done.code is not None:
                raise RuntimeError(f"{name} was not stopped. {done.said}")

    def cases(self, draw: random.Random) -> list[Case]:
        """Return all cases, in the order in which they are run."""
        special = special_cases(
            self.folder / WHOLE, self.seen, disks="tmpfs" not in self.skipped
        )
        files = [
            case
            for base in self.bases
            for case in file_cases(base, self.folder / base, self.seen, draw)
        ]
        return in_order(special, files, draw)

    def run_case(self, case: Case) -> Verdict:
        """Return the outcome of a case, and what was said."""
        shutil.rmtree(self.work, ignore_errors=True)
        if case.base == NEW:
            for name in ("run", "store"):
                (self.work / name).mkdir(parents=True)
        else:
            shutil.copytree(self.folder / case.base, self.work)
        if case.back:
            (self.work / "run/stages" / case.back / "done.json").unlink()
        if case.what in DAMAGES and not self._damaged(case):
            return UNTOUCHED, "nothing to damage"
        if case.what == "dated":
            date(self.work, int(case.place))
        with disk(case, self.work) as lift:
            for name in ("run", "store") if case.what == "tmpfs" else ():
                (self.work / name).mkdir()
            wrong = self._bytes(case)
            done = self._child(
                partial(self.runs.go_on, self.work, always=case.base in (TWICE, ONCE)),
                self.work,
                case.conditions,
            )
            if not self._touched(case, done):
                return UNTOUCHED, done.said
            if done.code != 0:
                return self._repaired(done, lift)
            noticed = "Warning: " in done.said or self._bytes(case) != wrong
            good = "mended" if case.what in DAMAGES and noticed else "same"
            return self._compared(good, "silent", done.said)

    def _bytes(self, case: Case) -> bytes | None:
        path = self.work / case.place
        return path.read_bytes() if case.what in DAMAGES and path.is_file() else None

    def _damaged(self, case: Case) -> bool:
        """Damage a file; tell whether it has other bytes now."""
        path, before = self.work / case.place, self._bytes(case)
        other = "other" if case.base == WHOLE else f"{case.base}_other"
        DAMAGES[case.what](path, self.folder / other / case.place)
        return path.read_bytes() != before

    def _touched(self, case: Case, done: Outcome) -> bool:
        """Tell whether a case was one: something met what was disturbed."""
        if case.what in DAMAGES:
            # A size that is wrong is seen without opening the file.
            named = done.code != 0 and Path(case.place).name in done.said
            return named or done.read(case.place)
        if case.what == "readonly":
            met = any(path.startswith(case.place) for _, path in done.events)
            return met or done.code != 0
        if case.what == "clock":
            return done.calls.get("clock", 0) >= case.conditions.clock
        return case.what == "dated" or done.code != 0

    def _repaired(self, done: Outcome, lift: Callable[[], None]) -> Verdict:
        """Do what the message says, and go on."""
        said = done.said
        if done.code is None and FAILED not in said:
            return "traceback", said
        options: dict[str, Any] = {}
        if not self._placed(said):
            return "lost", f"no place: {said}"
        if "--repair" in said:
            options = {"repair": True}
        elif re.search(r"(Delete the|Remove that) folder", said):
            shutil.rmtree(self._named(said))
        elif "Give each guide a folder of its own" in said:
            options = {"store": "another"}
        elif not re.search(r"Free space|same command|[Rr]un again", said):
            return "lost", f"no repair: {said}"
        lift()
        again = self._child(partial(self.runs.go_on, self.work, **options), self.work)
        said = f"{said}\nTHEN {again.said}"
        if again.code != 0:
            return ("traceback" if again.code is None else "lost"), said
        return self._compared("repaired", "lost", said)

    def _placed(self, said: str) -> bool:
        return f"`{self.work}" in said

    def _named(self, said: str) -> Path:
        """Return the first folder in a message, or that of the first file."""
        names = map(Path, re.findall(r"`([^`]+)`", said))
        inside = [
            it for it in names if it != self.work and it.is_relative_to(self.work)
        ]
        return inside[0] if inside[0].is_dir() else inside[0].parent

    def _compared(self, good: str, bad: str, said: str) -> Verdict:
        """Compare a run with the undisturbed one; tables may be there or not."""
        now = contents(self.work / "run")
        names = compare(self.expected, now)
        names = [it for it in names if it in now or not CACHES.search(f"/{it}")]
        return (bad if names else good), f"{said}\nDIFFERENT {names[:5]}"

    def _child(
        self,
        work: Callable[[], int],
        watched: Path,
        conditions: Conditions = Conditions(),  # noqa: B008
    ) -> Outcome:
        watched.mkdir(parents=True, exist_ok=True)
        return in_a_child(work, watched, conditions, self.folder / "heard.json")


if __name__ == "__main__":
    main()
