"""Kill runs at every kind of moment, let them go on, and compare what they leave.

    python benchmarks/faults.py --kills 50 --seed 0

Each run of the recipe is killed with SIGKILL at moments drawn from the seed: while a
guide's vectors are stored, within a stage, while a checkpoint is written, while scores
are taken, while an artefact is exported. At its end it is compared, byte by byte, with
one that nobody touched. Times differ, of course, and are left out. One further run is
stopped with SIGTERM and one with Ctrl-C.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

MOMENTS = ("store", "stage", "checkpoint write", "evaluation", "export")
SHARES = (2, 3, 2, 2, 1)  # of ten kills
STAGES = ("teach_assistant", "align_embedding", "teach_student", "contrastive_learning")
# Stages of a minute and more on two cores.
LONG = {"data.pairs_per_language": 8000} | {
    f"stages.{stage}.steps": steps
    for stage, steps in zip(STAGES, (220, 1800, 110, 200), strict=True)
}
TIMES = {"report.html", "timings.json"}  # they say how long it took


def main() -> None:
    """Run all, print a line a kill, and the object with the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--runs", type=int, default=5, help="that share the kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", default="demo")
    parser.add_argument("--set", action="append", dest="overrides", metavar="KEY=VALUE")
    parser.add_argument("--every", type=float, default=10, metavar="SECONDS")
    parser.add_argument("--backend", choices=("tensorflow", "jax"))
    parser.add_argument("--folder", type=Path, default=Path("runs/faults"))
    options = parser.parse_args()
    # A shell's jobs in the background ignore Ctrl-C, and what they start does, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    draw, began = random.Random(options.seed), time.monotonic()
    whole = Disturbed(options, "undisturbed")
    whole.finish()
    print(f"undisturbed: {time.monotonic() - began:.0f} s")
    expected = contents(whole.out)
    done: Counter[str] = Counter()
    identical = 0
    # A run under JAX has no export.
    kinds = MOMENTS[:-1] if options.backend == "jax" else MOMENTS
    plans = moments(kinds, options.kills, min(options.runs, options.kills), draw)
    for number, plan in enumerate(plans):
        run = Disturbed(options, f"run_{number}")
        for moment in plan:
            if run.kill_at(moment, draw.uniform(0.0, 1.0)):
                done[moment] += 1
                print(f"run {number}: killed at {moment}")
        run.finish()
        different = compare(expected, contents(run.out))
        identical += not different
        print(f"run {number}: {', '.join(different) or 'identical'}")
    signals = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        run = Disturbed(options, number.name)
        code = run.stop_in_stage(number)
        run.finish()
        different = compare(expected, contents(run.out))
        signals[number.name] = {"exit_code": code, "identical": not different}
        print(f"{number.name}: exit code {code}, {', '.join(different) or 'identical'}")
    result = {
        "kills": sum(done.values()),
        "moments": {moment: done[moment] for moment in MOMENTS},
        "runs": len(plans),
        "identical": identical,
        "signals": signals,
        "backend": options.backend or "tensorflow",
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    print(json.dumps(result))
    good = identical == len(plans) and all(it["identical"] for it in signals.values())
    sys.exit(not good)


def moments(
    kinds: tuple[str, ...], kills: int, runs: int, draw: random.Random
) -> list[list[str]]:
    """Return for each run the moments of its kills, in the order of their coming."""
    chosen = draw.choices(kinds, SHARES[: len(kinds)], k=kills)
    return [sorted(chosen[n::runs], key=MOMENTS.index) for n in range(runs)]


class Disturbed:
    """A run in a process of its own, which can be killed.

    Args:
        options: The benchmark's.
        name: Name of its folder.
    """

    def __init__(self, options: Any, name: str) -> None:
        self.out = options.folder / name / "run"
        overrides = LONG if options.scale == "demo" else {}
        changes = [f"{key}={value}" for key, value in overrides.items()]
        self.command = [
            *(sys.executable, "-m", "keras_msd", "run", "demo"),
            *("--scale", options.scale, "--out", str(self.out)),
            *("--store", str(options.folder / name / "store")),
            *("--checkpoint-minutes", str(options.every / 60)),
            *(
                part
                for it in (*changes, *(options.overrides or ()))
                for part in ("--set", it)
            ),
        ]
        self.environment = dict(os.environ)
        if options.backend:
            self.environment["KERAS_BACKEND"] = options.backend
        self.log = options.folder / name / "log.txt"
        self.log.parent.mkdir(parents=True)
        self.stale: set[str] = set()
        self.every = options.every

    def start(self) -> subprocess.Popen[bytes]:
        """Start the run, or let it go on."""
        partial = self.out.glob("stages/*/unfinished/.*.partial")
        self.stale = {path.name for path in partial}  # of kills before
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                self.command, env=self.environment, stdout=log, stderr=log
            )

    def finish(self) -> None:
        """Let the run go on to its end."""
        if code := self.start().wait():
            raise RuntimeError(f"exit code {code}, see {self.log}")

    def kill_at(self, moment: str, share: float) -> bool:
        """Kill the run at a moment; tell whether it came before the run's end."""
        process = self.start()
        # Somewhere in the moment: a checkpoint is written in a blink, others last.
        lasting = {"checkpoint write": 0.0, "stage": 0.9 * self.every}
        wait = share * lasting.get(moment, 1.0)
        seen = None
        while process.poll() is None:
            if self.moment() == moment:
                seen = seen or time.monotonic()
                if time.monotonic() - seen >= wait:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    return True
            else:
                seen = None
            time.sleep(0.001)
        if process.returncode:
            raise RuntimeError(f"exit code {process.returncode}, see {self.log}")
        return False

    def stop_in_stage(self, number: int) -> int:
        """Send a signal within a stage and return the exit code."""
        process = self.start()
        while self.moment() != "stage":
            if process.poll() is not None:
                raise RuntimeError(f"it ended before a stage, see {self.log}")
            time.sleep(0.01)
        process.send_signal(number)
        return process.wait()

    def step(self) -> Path | None:
        """Return the folder of the step that is at work."""
        folders = (self.out / "stages").glob("*")
        open_ = [path for path in folders if not (path / "done.json").exists()]
        return open_[0] if open_ else None

    def checkpoints(self) -> list[str]:
        """Return the names in the folder of the step's checkpoints."""
        step = self.step()
        folder = step / "unfinished" if step else None
        return os.listdir(folder) if folder and folder.is_dir() else []

    def moment(self) -> str | None:
        """Return what the run is doing, if it is one of `MOMENTS`."""
        step = self.step()
        if step is None:
            return None
        if step.name == "teacher_vectors":
            return "store"
        if step.name.startswith("score_"):
            return "evaluation"
        if step.name.startswith("export_"):
            return "export"
        try:
            names = self.checkpoints()
        except FileNotFoundError:  # it ended between two looks
            return None
        if any(name.endswith(".partial") for name in set(names) - self.stale):
            return "checkpoint write"
        return "stage" if step.name in STAGES and set(names) - self.stale else None


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a run that does not say how long something took."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or path.name in TIMES or path.name == ".lock":
            continue
        content = path.read_bytes()
        if path.name == "done.json":
            record = json.loads(content)
            if name.startswith("stages/speed_"):
                continue
            content = json.dumps(record["result"], sort_keys=True).encode()
        files[name] = content
    return files


def compare(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Return the names of files that differ."""
    names = sorted(one.keys() | other.keys())
    return [name for name in names if one.get(name) != other.get(name)]


if __name__ == "__main__":
    main()
