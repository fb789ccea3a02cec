"""The cases of damage.py: what is done to which file, disk, clock or teacher."""

import os
import random
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from damage_child import Conditions

WHOLE, NEW, SCORING = "whole", "new", "scoring"
TWICE, ONCE = "stopped", "stopped early"  # with two checkpoints, with one
DISKS = ("readonly", "tmpfs")
LEFT_OUT = (".lock", ".partial")
ROOMY = "size=256m"
PAGE = 4096  # a file system in memory has whole ones
# Tables that stages make beside the files of a step, which has no checksums of them.
CACHES = re.compile(r"/(tokens-|texts-)")
KINDS = (
    (re.compile(r"stages/[^/]+/"), "stages/*/"),
    (re.compile(r"^store/[^/]+/"), "store/*/"),
    (re.compile(r"/unfinished/update_\d+/"), "/unfinished/update_*/"),
    (re.compile(r"/[^/]+(\.i64|\.tsv\.gz)$"), r"/*\1"),
    (re.compile(r"^run/(assistant|student)/"), "run/*/"),
)


class Case(NamedTuple):
    """One case.

    Attributes:
        what: A key of `DAMAGES`, or "full", "tmpfs", "readonly", "dated", "clock",
            "teacher".
        place: The file that is damaged, or the number that counts.
        base: What it is done to: a finished run, a stopped one, a new one.
        back: The step whose mark goes before, so that it is done again.
    """

    what: str
    place: str
    base: str = WHOLE
    back: str = ""

    @property
    def name(self) -> str:
        """What it is called in the result."""
        again = f", {self.back} done again" if self.back else ""
        return f"{self.what} {self.place} of a {self.base} run{again}"

    @property
    def kind(self) -> str:
        """The file's path without what tells files of a kind apart."""
        name = self.place
        for pattern, instead in KINDS:
            name = pattern.sub(instead, name)
        return name

    @property
    def conditions(self) -> Conditions:
        """What the process has to live with."""
        number = int(self.place.split()[0]) if self.place[:1].isdigit() else 0
        if self.what == "full":
            return Conditions(limit=number)
        if self.what == "teacher":
            return Conditions(fails_at=number)
        if self.what == "clock":
            return Conditions(clock=number, days=float(self.place.split()[1]))
        return Conditions()


class Seen(NamedTuple):
    """What an undisturbed run shows.

    Attributes:
        steps: In order.
        readers: Steps that opened a file, by its path.
        files: The order in which files were first opened.
        calls: Of the teacher and of the clock.
    """

    steps: list[str]
    readers: dict[str, list[str]]
    files: list[str]
    calls: Mapping[str, int]


def seen(events: Iterable[tuple[str, str]], calls: Mapping[str, int]) -> Seen:
    """Return which step opened which files: those before its mark took its name."""
    steps: list[str] = []
    readers: dict[str, list[str]] = defaultdict(list)
    opened: dict[str, None] = {}
    for event, path in events:
        if event == "read":
            opened[path] = None
        elif found := re.fullmatch(r"run/stages/([^/]+)/done\.json", path):
            steps.append(found[1])
            for name in opened:
                readers[name].append(found[1])
            opened = {}
    return Seen(steps, dict(readers), list(readers), calls)


def special_cases(whole: Path, found: Seen, disks: bool) -> list[Case]:
    """Return the cases of full disks, read-only folders, clocks and failing teachers.

    Args:
        whole: Parent of an undisturbed run and its store.
        found: What was seen of it.
        disks: Whether disks can be mounted.
    """
    files = [it for it in whole.rglob("*") if it.is_file()]
    there = [it for it in found.files if (whole / it).is_file()]
    sizes = sorted({it.stat().st_size for it in files} - {0})
    used = sum(-(-it.stat().st_size // PAGE) * PAGE for it in files)
    cases = [Case("full", str(size - 1), NEW) for size in _some(sizes, 20)]
    count = found.calls.get("teacher", 0)
    cases += [Case("teacher", str(n), NEW) for n in _some(range(1, count + 1), 12)]
    steps = _some(found.steps, 4)
    for year, step in zip((1970, 1981, 2038, 2099), steps, strict=False):
        cases.append(Case("dated", str(year), WHOLE, step))
    for call, days in ((1, -20000), (1, 9000), (3, -400), (10, 1), (40, 30)):
        cases.append(Case("clock", f"{call} {days}", NEW))
    cases += [Case("clock", f"{call} 30", TWICE) for call in (2, 20)]
    if not disks:
        return cases
    tenth = max(PAGE, used // 10 // PAGE * PAGE)
    cases += [Case("tmpfs", str(tenth * part), NEW) for part in range(1, 10)]
    last, first = found.steps[-1], found.steps[0]
    cases += [Case("readonly", it, NEW) for it in ("run", "store")]
    for step in ("", first, last):
        cases += [Case("readonly", it, WHOLE, step) for it in ("run", "run/stages")]
    cases += [Case("readonly", f"run/stages/{it}", WHOLE, it) for it in steps]
    # One file of each name in a store; a finished store needs no writing.
    names = {Path(it).name: it for it in there if it.startswith("store/")}
    for place in ("store", *names.values()):
        cases.append(Case("readonly", place, WHOLE, _readers(found, place)[-1]))
    return cases


def file_cases(
    base: str, folder: Path, found: Seen, draw: random.Random
) -> Iterator[Case]:
    """Yield each damage of each file; what steps have no checksums of is read again."""
    paths = (it for it in sorted(folder.rglob("*")) if it.is_file())
    for name in (it.relative_to(folder).as_posix() for it in paths):
        if any(part.endswith(LEFT_OUT) for part in Path(name).parts):
            continue
        if base in (TWICE, ONCE, SCORING) and "/unfinished/" not in name:
            continue
        readers = _readers(found, name)
        again = base == WHOLE and (name.startswith("store/") or CACHES.search(name))
        for damage in DAMAGES:
            yield Case(damage, name, base, draw.choice(readers) if again else "")


def in_order(special: list[Case], files: list[Case], draw: random.Random) -> list[Case]:
    """Return special cases, then those of files, of each kind of file in turn."""
    draw.shuffle(files)
    by_kind: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in files:
        by_kind[case.base, case.kind].append(case)
    turns = chain.from_iterable(zip_longest(*by_kind.values()))
    return [*special, *(case for case in turns if case)]


def _readers(found: Seen, place: str) -> list[str]:
    """Return the steps that read a file, or one in a folder."""
    known = {
        step
        for name, steps in found.readers.items()
        if name == place or name.startswith(f"{place}/")
        for step in steps
    }
    return [step for step in found.steps if step in known] or [""]


def _some(values: Iterable[Any], count: int) -> list[Any]:
    """Return at most so many, spread evenly, the first and the last among them."""
    values = list(values)
    if len(values) <= count:
        return values
    places = {round(i * (len(values) - 1) / max(1, count - 1)) for i in range(count)}
    return [values[place] for place in sorted(places)]


def flip(path: Path, other: Path) -> None:
    """Flip a bit in the middle."""
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 16
        path.write_bytes(data)


def cut(path: Path, other: Path) -> None:
    """Leave the first half."""
    os.truncate(path, path.stat().st_size // 2)


def zero(path: Path, other: Path) -> None:
    """Fill the last half with zeros."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def swap(path: Path, other: Path) -> None:
    """Take the file of the run of another seed, if it has one.

    Folders of a store have other names there.
    """
    if not other.exists():
        other = next(other.parents[1].glob(f"*/{other.name}"), other)
    if other.is_file():
        shutil.copyfile(other, path)


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "flip": flip,
    "cut": cut,
    "zero": zero,
    "swap": swap,
}


def date(folder: Path, year: int) -> None:
    """Have all files be last changed in some year."""
    moment = time.mktime((year, 1, 2, 0, 0, 0, 0, 0, 0))
    for path in folder.rglob("*"):
        os.utime(path, (moment, moment))


def disks_refused(folder: Path) -> str:
    """Return why no disks can be mounted in a folder; nothing where they can."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _mount("-t", "tmpfs", "-o", ROOMY, "tmpfs", folder)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or f"{error}"
        return f"no file system can be mounted here: {said.strip()}"
    _unmount(folder)
    return ""


@contextmanager
def disk(case: Case, work: Path) -> Iterator[Callable[[], None]]:
    """Make the disk of a case; yield what makes it roomy and writable again."""
    if case.what not in DISKS:
        yield lambda: None
        return
    path = work if case.what == "tmpfs" else work / case.place
    if case.what == "tmpfs":
        _mount("-t", "tmpfs", "-o", f"size={case.place}", "tmpfs", path)
    else:
        _mount("--bind", path, path)
        _mount("-o", "remount,bind,ro", path)
    try:
        if case.what == "tmpfs":
            yield lambda: _mount("-o", f"remount,{ROOMY}", path)
        else:
            yield lambda: _mount("-o", "remount,bind,rw", path)
    finally:
        _unmount(path)


def _mount(*words: str | Path) -> None:
    _call("mount", *words)


def _unmount(path: Path) -> None:
    _call("umount", "--lazy", path)


def _call(*words: str | Path) -> None:
    command = [*map(str, words)]
    subprocess.run(command, check=True, capture_output=True, text=True)
