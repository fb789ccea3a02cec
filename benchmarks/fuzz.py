"""Random damage to every kind of file that is read: each must be taken or refused.

    python benchmarks/fuzz.py --inputs 20000 --seed 1

Valid files are damaged: bytes and lines are cut, doubled, swapped and overwritten,
values of JSON and of safetensors headers become what no writer writes, words of
commands are moved. A process for each target reads each input in at most 5 seconds and
1 GiB more than before. Whatever is not read is refused with an `InputError` that names
the place and a repair. An input follows from the seed, the target and its number.

The last line is one JSON object: by target, what came of the inputs; `bare` are
refusals without place or repair. Inputs that break a rule stay in --keep. --out keeps
the counts of other seeds that are in the file, and passes over targets that it has.
"""

import argparse
import ctypes
import json
import mmap
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fuzz_damage import damaged
from fuzz_targets import (
    NAMES,
    WITHOUT_PLACE,
    WRITES,
    keep_networks,
    targets,
    write_seeds,
)

SECONDS, MEMORY = 5, 1 << 30  # of the processor, and bytes
WAIT = 60  # seconds by the clock: other programs may be at work
START = 600  # seconds that a process may take to begin
KINDS = "taken", "refused", "bare", "crash", "hang", "over_memory"
BAD = KINDS[2:]
SHOWN = 5  # inputs of one kind and target that are kept
# A sentence behind another: the rule, what came, the repair. Some rules say it.
SENTENCES = re.compile(r"[.!?)`'\"]\s+[A-Z`'\"]")
RULES = re.compile(r"\b(must|should|may) |Did you mean|Known|Unknown key")
ENVIRONMENT = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}


class Counts(ctypes.Structure):
    """What the process that reads and the one that watches it both see."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("number", *KINDS)]


# In the process that reads.


class Reading:
    """One target: damages a copy of its seeds, reads it, and mends it.

    Args:
        read: What reads a folder.
        refusal: The error that it raises where it refuses.
        seeds: A folder of folders with valid files.
        work: Where their copies go.
        writes: Whether reading changes the folder.
        placed: Whether refusals name the file or folder.
    """

    def __init__(
        self,
        read: Callable[[Path], object],
        refusal: type[Exception],
        seeds: Path,
        work: Path,
        writes: bool = False,
        placed: bool = True,
    ) -> None:
        self.read, self.refusal = read, refusal
        self.writes, self.placed = writes, placed
        self.seeds, self.work = sorted(seeds.iterdir()), work
        self.files = {
            seed: {it: it.read_bytes() for it in sorted(seed.rglob("*")) if _file(it)}
            for seed in self.seeds
        }
        for seed in self.seeds:
            self.copy(seed)
            # What loads on first use is no memory of an input's. Some commands are
            # refused as they are: no hub is at hand.
            with suppress(*([] if placed else [refusal])):
                read(work / seed.name)
            self.copy(seed)
        self.before = peak()

    def copy(self, seed: Path) -> None:
        """Copy a seed anew."""
        shutil.rmtree(self.work / seed.name, ignore_errors=True)
        shutil.copytree(seed, self.work / seed.name)

    def once(self, draw: random.Random) -> tuple[str, str, Path]:
        """Damage and read; return one of `KINDS`, what was said, and the folder."""
        seed = draw.choice(self.seeds)
        path = draw.choice(list(self.files[seed]))
        content = damaged(draw, path.name, self.files[seed][path])
        folder = self.work / seed.name
        self.changed = seed, path
        (folder / path.relative_to(seed)).write_bytes(content)
        kind, said = self.judged(folder)
        return kind, f"{path.name}: {said}"[:400], folder

    def mend(self) -> None:
        """Undo what `once` did."""
        seed, path = self.changed
        if self.writes:
            self.copy(seed)
        else:
            copy = self.work / seed.name / path.relative_to(seed)
            copy.write_bytes(self.files[seed][path])

    def judged(self, folder: Path) -> tuple[str, str]:
        """Read a folder; return one of `KINDS`, and what was said."""
        forget()
        kind, said, began = "taken", "", time.thread_time()
        try:
            self.read(folder)
        except self.refusal as error:
            kind, said = "refused", str(error)
            if lacks := incomplete(said, folder if self.placed else None):
                kind, said = "bare", f"lacks {lacks}: {said}"
        except MemoryError:
            kind = "over_memory"
        except BaseException as error:
            trace = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(trace.filename).name}:{trace.lineno}"
            kind, said = "crash", f"{type(error).__name__}: {error!s:.200} at {where}"
        seconds = time.thread_time() - began
        if seconds > SECONDS:
            kind, said = "hang", f"{seconds:.1f} s"
        if peak() - self.before > MEMORY:
            kind, said = "over_memory", f"{peak() - self.before:,} bytes"
            Path("/proc/self/clear_refs").write_text("5")
        return kind, said


def _file(path: Path) -> bool:
    return path.is_file() and path.name != ".lock"


def incomplete(message: str, folder: Path | None) -> str:
    """Return what the message of a refusal lacks: "place", "repair" or nothing.

    Args:
        message: The whole of it.
        folder: What was read: the message names it or a file in it; None for any place.
    """
    if folder is not None:
        names = {path.name for path in folder.rglob("*")} | {folder.name + "`"}
        if str(folder) not in message and not any(name in message for name in names):
            return "place"
    last = message.rpartition("Received")[2]
    return "" if SENTENCES.search(last) or RULES.search(message) else "repair"


def peak() -> int:
    """Return the most bytes that this process held since they were last counted."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget() -> None:
    """Compute every checksum anew; they are kept by a file's time of change.

    Inputs follow each other faster than a file system's clock ticks.
    """
    if module := sys.modules.get("keras_msd.io.files"):
        module.cached_checksum = module.checksum


def reading(target: str, root: Path, work: Path) -> Reading:
    """Make the `Reading` of a target; it may then have so much more memory."""
    from keras_msd.checks import InputError

    keep_networks()
    shutil.rmtree(work, ignore_errors=True)
    placed = target not in WITHOUT_PLACE
    found = Reading(
        targets()[target], InputError, root / target, work, target in WRITES, placed
    )
    size = int(Path("/proc/self/statm").read_text().split()[0])
    most = size * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")
    found.before = peak()
    return found


def work_on(
    found: Reading, target: str, options: Any, counts: Counts, say: Callable[[str], Any]
) -> None:
    """Give inputs to a target, from the number in `counts` to the last."""
    while counts.number < options.inputs:
        draw = random.Random(f"{options.seed} {target} {counts.number}")
        kind, said, folder = found.once(draw)
        setattr(counts, kind, getattr(counts, kind) + 1)
        if kind in BAD:
            name = f"{target}-{options.seed}-{counts.number}"
            say(f"{name} {kind} {said}")
            if getattr(counts, kind) <= SHOWN:
                keep(folder, options.keep / name)
        found.mend()
        counts.number += 1


def keep(folder: Path, place: Path) -> None:
    """Copy an input that broke a rule."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)


# In the process that watches.


def child(work: Callable[[Callable[[str], Any]], None], counts: Counts) -> str:
    """Fork, work there and print what it says; return how it ended, "" if well."""
    ear, mouth = os.pipe()
    process = os.fork()
    if not process:
        code = 70
        try:
            os.close(ear)
            quiet = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(quiet, number)
            work(lambda text: os.write(mouth, ascii(text).encode() + b"\n"))
            code = 0
        except BaseException:
            os.write(mouth, ascii(traceback.format_exc()[-900:]).encode() + b"\n")
        finally:
            os._exit(code)
    os.close(mouth)
    last, since, wait = counts.number, time.monotonic(), START
    while True:
        if select.select([ear], [], [], 1.0)[0]:
            said = os.read(ear, 1 << 16)
            if not said:
                break
            print(said.decode(), end="", flush=True)
        if counts.number != last:
            last, since, wait = counts.number, time.monotonic(), WAIT
        elif time.monotonic() - since > wait:
            os.kill(process, signal.SIGKILL)
            break
    os.close(ear)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return {0: "", -signal.SIGKILL: "hang"}.get(code, f"it ended with {code}")


def fuzz(target: str, root: Path, work: Path, options: Any) -> dict[str, int]:
    """Give a target all its inputs; return how often what came of it."""
    counts = Counts.from_buffer(mmap.mmap(-1, ctypes.sizeof(Counts)))

    def reads(say: Callable[[str], Any]) -> None:
        found = reading(target, root, work)
        work_on(found, target, options, counts, say)

    while ended := child(reads, counts):
        kind = "hang" if ended == "hang" else "crash"
        name = f"{target}-{options.seed}-{counts.number}"
        print(f"'{name} {kind} {ended}'", flush=True)
        setattr(counts, kind, getattr(counts, kind) + 1)
        if getattr(counts, kind) > SHOWN:
            raise SystemExit(f"`{target}` ends again and again.")
        keep(work, options.keep / name)
        counts.number += 1
    return {kind: getattr(counts, kind) for kind in KINDS}


def load_all() -> None:
    """Import what targets need, once for all processes; nothing is computed here."""
    import keras_msd.checkpoints.checkpoint
    import keras_msd.cli
    import keras_msd.models.network
    import keras_msd.recipes.prepare
    import keras_msd.teachers.saved_model
    import keras_msd.testing  # noqa: F401


def main() -> int:
    """Damage and read; print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=200, help="of each target")
    parser.add_argument("--seed", type=int, default=0, help="decides every input")
    parser.add_argument("--targets", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--keep", type=Path, default=Path("fuzz"), help="for findings")
    parser.add_argument("--out", type=Path, help="a file for the counts")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    known: dict[str, Any] = {"seeds": {}}
    if options.out and options.out.is_file():
        known = json.loads(options.out.read_bytes())
    mine = known["seeds"].setdefault(str(options.seed), {})
    load_all()
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        os.environ["KERAS_MSD_CACHE"] = f"{place}/cache"
        root, work = Path(place, "seeds"), Path(place, "work")
        if ended := child(lambda say: write_seeds(root), Counts(number=0)):
            raise SystemExit(f"The files to damage were not written: {ended}")
        for name in (it for it in options.targets if it not in mine):
            mine[name] = fuzz(name, root, work, options)
            print(f"{name:13} {mine[name]}", flush=True)
            if options.out:
                options.out.write_text(json.dumps(known, indent=1) + "\n")
    print(json.dumps(mine))
    return 1 if any(counts[kind] for counts in mine.values() for kind in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
