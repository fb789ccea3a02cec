"""The folder of a run: which steps are done, what each was made from, and their files.

A step is skipped where its `done.json` says that it was made from the same settings,
inputs and versions, and its files have the same checksums.
"""

import json
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tomli_w
from filelock import FileLock, Timeout
from pydantic import BaseModel

from keras_msd import __version__
from keras_msd.checks import InputError
from keras_msd.io.files import (
    add_seal,
    atomic_path,
    cached,
    changed_files,
    checksums,
    digest,
    dotted,
    explain_full_disk,
    file_digest,
    read_checked,
    remove,
    write_json,
)
from keras_msd.recipes.shared_steps import DONE, REUSED, SharedStep

RECIPE, STAGES, LOCK = "recipe.toml", "stages", ".lock"
# In a step's folder: what it has so far, which outlives a stop, and from what.
UNFINISHED, BEGUN = "unfinished", "begun.txt"
# In a step's result: seconds spent before the last stop, and what it wrote outside its
# folder, as paths in the run's.
BEFORE, ELSEWHERE = "seconds_before", "elsewhere"


class StepName(str):
    """The name of a step that stands before another one, given to it as an argument."""


class Step(NamedTuple):
    """One resumable piece of a run: a function that writes a folder.

    Attributes:
        name: Folder under `stages/`.
        part: Part of the time budget.
        make: Called with the run, the empty folder and `arguments`; returns what later
            steps and the scores need, as JSON.
        arguments: Its settings, and the steps that it reads as `StepName`, by name.
        reads: Names of further steps that it reads, as far as the run has them.
        depends: What else its result depends on: sections of the recipe, fingerprints.
        files: Returns the files that it reads.
        seed: Name that decides the seed; the stages of several students share it, so
            that all see the same pairs in the same order. Empty: nothing is drawn.
        row: What the step's result is a score row of, if it is one: `name`, `kind`
            ("teacher", "assistant", "closed_form", "untrained" or "stage"), `student`
            and `stage`.
        shared: Whether other runs may take it: its folder is all that it writes, and
            holds no times.
    """

    name: str
    part: str
    make: Callable[..., Mapping[str, Any] | None]
    arguments: Mapping[str, Any] = {}
    reads: tuple[str, ...] = ()
    depends: Mapping[str, Any] = {}
    files: Callable[[], list[Path]] | None = None
    seed: str = ""
    row: Mapping[str, str] | None = None
    shared: bool = True

    def run(self, run: Any, folder: Path) -> Mapping[str, Any] | None:
        """Call its function, with its own random seed."""
        keras.utils.set_random_seed(run.seed(self.seed or self.name))
        return self.make(run, folder, **self.arguments)


@lru_cache
def versions() -> dict[str, str]:
    """Return the versions that decide what a step leaves."""
    backend = keras.backend.backend()
    return {
        "keras_msd": __version__,
        "keras": keras.__version__,
        "backend": f"{backend} {import_module(backend).__version__}",
    }


def made_from(run: Any, step: Step, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that the result of a step depends on, as JSON.

    `keys` has the key of each step before, which must be done, see `key_of`.
    """
    given = step.arguments.items()
    inputs: dict[str, str] = {n: it for n, it in given if isinstance(it, StepName)}
    settings = {name: _plain(it) for name, it in given if name not in inputs}
    inputs |= {name: name for name in step.reads if name in keys}
    found = {
        "function": step.make.__name__,
        "settings": settings,
        "recipe": {name: _plain(it) for name, it in step.depends.items()},
        "inputs": {name: keys[it] for name, it in inputs.items()},
        "files": _digests(step.files() if step.files else ()),
        "seed": [run.recipe.recipe.seed, step.seed] if step.seed else None,
        "versions": versions(),
    }
    return json.loads(json.dumps(found), parse_constant=str)  # JSON has no infinity


def _digests(paths: Iterable[Path]) -> dict[str, str]:
    """Return hashes of files by folder and name; those of equal names are joined."""
    found: dict[str, str] = {}
    for path in filter(Path.is_file, paths):
        name, value = f"{path.parent.name}/{path.name}", _digest(path)
        found[name] = f"{found[name]} {value}" if name in found else value
    return found


def key_of(made_from: Mapping[str, Any]) -> str:
    """Return the hash by which a step is found: equal keys stand for equal files."""
    return digest(json.dumps(made_from, sort_keys=True))


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


_digest = cached(file_digest)


class RunFolder:
    """A run's folder. A step is done when its `done.json` is there, written last.

    Args:
        path: The folder; it is made if it is not there.
        recipe: The `Recipe` that the run follows.
        repair: Do damaged steps again, instead of raising.
    """

    def __init__(self, path: str | Path, recipe: Any, repair: bool = False) -> None:
        self.path, self._recipe, self._repair = Path(path), recipe, repair

    def check(self) -> None:
        """Check that the folder is new, empty or this recipe's.

        Raises:
            InputError: It holds something else, or the run of another recipe.
        """
        name, begun = self._recipe.recipe.name, (self.path / STAGES).is_dir()
        if not begun and (self.path.is_file() or _used(self.path)):
            raise InputError(
                "The run's folder must be new, empty, or hold a run. Received: "
                f"`{self.path}`, which holds something else. Give another `out_dir`."
            )
        if begun and (old := _recipe_name(self.path / RECIPE)) not in (None, name):
            raise InputError(
                f"`{self.path}` holds a run of the recipe `{old}`. Received: `{name}`. "
                "Give another `out_dir`."
            )

    def claim(self) -> None:
        """Write the recipe: from now on the folder is that of this run."""
        with atomic_path(self.path / RECIPE) as temporary:
            text = tomli_w.dumps(self._recipe.settings())
            temporary.write_text(text, encoding="utf-8")

    def step(self, name: str) -> Path:
        """Return the folder of a step."""
        return self.path / STAGES / name

    def done(self, name: str, made_from: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the record of a finished step, None if there is none.

        Raises:
            InputError: It was made from something else than `made_from`, or the record
                or a file of the step was damaged since.
        """
        mark = self.step(name) / DONE
        if not mark.is_file():
            return None
        record = read_checked(mark, name)  # None if the mark is damaged
        lost = changed_files(self.path, record["files"]) if record else [DONE]
        if record and not lost:
            self._compare(name, record["made_from"], made_from)
            return record
        where = f"the step `{name}` of `{self.path}` ({', '.join(lost[:4])})"
        if not self._repair:
            raise InputError(
                "What a run has done must be as it was written. Received: changes in "
                f"{where}. Delete {STAGES}/{name} there and run again, or run with "
                "`repair=True` (`--repair`): this step alone is done anew."
            )
        warnings.warn(f"Changed since it was done: {where}. Done anew.", stacklevel=4)
        remove(mark)
        return None

    def _compare(
        self, name: str, then: Mapping[str, Any], now: Mapping[str, Any]
    ) -> None:
        old, new = dotted(then), dotted(now)
        changed = [
            f"{key} ({old.get(key)} then, {new.get(key)} now)"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]
        if changed:
            raise InputError(
                f"The step `{name}` of `{self.path}` was made from something else. "
                f"Received: {', '.join(changed[:6])}. Go on with what it was made "
                "from, or give another `out_dir`, where `share_steps=True` "
                "(`--share`) takes the steps that are the same."
            )

    def perform(
        self,
        name: str,
        action: Callable[[Path], Mapping[str, Any] | None],
        made_from: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Do a step unless it is done, and return its record.

        Args:
            name: The step.
            action: Given the step's folder, which holds nothing but what the action
                itself left under `UNFINISHED` when it was stopped; returns what later
                steps and the scores need, as JSON.
            made_from: Everything that its result depends on.

        Raises:
            InputError: The step is done and was made from something else, or was
                damaged since; its folder cannot be written. Other errors of the action
                get a note that names the step.
        """
        folder, made_from = self.step(name), made_from or {}
        unfinished, begun = folder / UNFINISHED, folder / BEGUN
        with explain_full_disk(folder):
            if record := self.done(name, made_from):
                remove(unfinished)
                return record
            folder.mkdir(parents=True, exist_ok=True)
            key = key_of(made_from)
            if not begun.is_file() or begun.read_text("utf-8") != key:
                remove(unfinished)  # it is of other settings
            for path in folder.iterdir():  # has no mark, so nothing relies on it
                if path != unfinished:
                    remove(path)
            begun.write_text(key, "utf-8")
            began = time.monotonic()
            try:
                result = dict(action(folder) or {})
            except InputError:
                raise
            except Exception as error:  # such as a teacher's own
                error.add_note(
                    f"The step `{name}` of `{self.path}` is not done; those before it "
                    "are. Mend what raised this, and give the same command again."
                )
                raise
            remove(begun)
            seconds = time.monotonic() - began + result.pop(BEFORE, 0.0)
            left = [path for path in folder.iterdir() if path != unfinished]
            left += [self.path / path for path in result.pop(ELSEWHERE, ())]
            reused = {REUSED: result.pop(REUSED)} if REUSED in result else {}
            record = {"seconds": round(seconds, 3), "made_from": made_from, **reused}
            record |= {"result": result, "files": checksums(self.path, sorted(left))}
            write_json(folder / DONE, add_seal(record, name))
            remove(unfinished)
        return record


def perform(
    run: Any, step: Step, keys: dict[str, str], shared: Path | None = None
) -> dict[str, Any]:
    """Do a step, unless this run or another one has done it; return its record.

    `keys` has the key of each step before, and gets that of this step. `shared` is the
    folder where runs leave steps for each other.
    """
    folder, parts = run.folder, made_from(run, step, keys)
    key = keys[step.name] = key_of(parts)
    if not (shared and step.shared):
        return folder.perform(step.name, lambda target: step.run(run, target), parts)
    stored = SharedStep(shared / key)
    record = folder.perform(
        step.name, lambda target: stored.take(target) or step.run(run, target), parts
    )
    stored.leave(step.name, folder.step(step.name), record)
    return record


def _used(folder: Path) -> bool:
    # Hidden files are what a run killed in its first moment left.
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return any(name[0] != "." and name != RECIPE for name in names)


def _recipe_name(path: Path) -> str | None:
    """Return the name in a run's recipe.toml; None if it is gone or damaged."""
    try:
        return str(tomllib.loads(path.read_text("utf-8"))["recipe"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if it is not there.

    The system frees the lock when the process that holds it ends, however it ends.

    Raises:
        InputError: Another process holds it, or nothing can be written there.
    """
    with explain_full_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = FileLock(folder / LOCK).acquire(blocking=False)
        except Timeout as error:
            raise InputError(
                "Only one process may work on a run at a time. Received: "
                f"`{folder}`, which another process works on. Wait until that ends, or "
                "give another `out_dir`."
            ) from error
    with lock:
        yield
