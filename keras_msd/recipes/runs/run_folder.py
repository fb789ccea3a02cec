"""The folder of a run: whose it is, who works on it, which steps are done."""

import fcntl
import json
import math
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import (
    atomic_path,
    digest,
    read_json,
    remove,
    room_for,
    write_json,
)
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.seals import checksums, damaged, read_sealed, sealed

RECIPE, STAGES, DONE, BEGAN = "recipe.toml", "stages", "done.json", "began.json"
LOCK = ".lock"
UNFINISHED = "unfinished"  # in a step's folder: what it has so far; outlives a stop
EVENTS = "tensorboard"  # folder of what `--tensorboard` asks for
# In an action's result: seconds spent before the last stop, and what it wrote outside
# its folder, as paths in the run's.
BEFORE, ELSEWHERE = "seconds_before", "elsewhere"
SPEED, EXPORT = "speed_", "export_"  # begin the names of steps
# Of a recipe's header only these decide results; limits of time decide none.
HEADER, DECIDING = ("recipe.", "budget."), ("recipe.name", "recipe.seed")
LIMIT = ".bad_batches"  # of a stage; one that was reached has left nothing


class RunFolder:
    """A run's folder. A step is done when its mark is there, which is written last.

    A mark holds the checksums of all that the step left, and says of which recipe and
    facts it is: what was damaged or comes from another run is not taken for a result.

    Args:
        path: The folder; it is made if it is not there.
        recipe: What the run does.
        repair: Do damaged steps again, instead of raising.

    Raises:
        InputError: The folder holds a run of other settings, or other files.
    """

    def __init__(self, path: str | Path, recipe: Recipe, repair: bool = False) -> None:
        self.path, self._recipe, self._repair = Path(path), recipe, repair
        self._text = to_toml(recipe.settings())
        deciding = sorted(_deciding(self._text).items())
        lines = (f"{key} = {value}" for key, value in deciding)
        self._of = {"recipe": digest(*lines), "facts": ""}
        self._check()

    def _check(self) -> None:
        written = self.path / RECIPE
        if not self._begun():
            new = written.is_file() or not (self.path.is_file() or _used(self.path))
        elif not (new := self._fits("recipe")):
            old = _written(written)
            if changed := _changes(old, _deciding(self._text)) if old else []:
                raise InputError(
                    f"`{self.path}` holds a run of another recipe or other settings "
                    f"than `{self._recipe.recipe.name}` at scale {self._recipe.scale}. "
                    f"Received: {', '.join(changed[:6])}. Go on with those of then, "
                    "give another `out_dir`, or remove that folder."
                )
            new = bool(old)
        if not new:
            raise InputError(
                f"The run's folder must be new, empty, or hold a run. Received: "
                f"`{self.path}`, which holds something else, or a run whose "
                f"`{RECIPE}` is damaged. Give another `out_dir`."
            )

    def _fits(self, part: str) -> bool:
        """Tell whether a step was done with the recipe or the facts of now.

        The marks know it better than files that were perhaps damaged since.
        """
        marks = (self.path / STAGES).glob(f"*/{DONE}")
        records = (read_sealed(mark, mark.parent.name) for mark in marks)
        return any(it and it["of"][part] == self._of[part] for it in records)

    def claim(self, facts: Mapping[str, Any]) -> None:
        """Write recipe and facts: from now on the folder is that of this run.

        Args:
            facts: What the run must have again when it goes on, as JSON.

        Raises:
            InputError: The folder holds a run of other settings or other facts, or
                other files.
        """
        self._check()
        self._of["facts"] = digest(json.dumps(facts, sort_keys=True))
        begun = self._begun()
        if begun and not self._fits("facts"):
            _check_facts(self.path, _flat(self.begun()), _flat(facts))
        with atomic_path(self.path / RECIPE) as temporary:
            temporary.write_text(self._text, encoding="utf-8")
        if not begun or self.begun() != json.loads(json.dumps(facts)):
            write_json(self.path / BEGAN, facts)

    def begun(self) -> dict[str, Any]:
        """Return the facts that the run began with; none if it has not, or are lost."""
        try:
            facts = read_json(self.path / BEGAN)
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def _begun(self) -> bool:
        return any((self.path / STAGES).glob(f"*/{DONE}"))

    def step(self, name: str) -> Path:
        """Return the folder of a step."""
        return self.path / STAGES / name

    def record(self, name: str) -> dict[str, Any] | None:
        """Return what a finished step left behind.

        None if it is not done, or its mark is damaged, which `done` says.
        """
        return read_sealed(self.step(name) / DONE, name)

    def done(self, name: str) -> dict[str, Any] | None:
        """Return the record of a finished step whose files are whole, None without one.

        Raises:
            InputError: The record, or a file of the step, was damaged since.
        """
        mark = self.step(name) / DONE
        if not mark.is_file():
            return None
        record = self.record(name)
        whole = record is not None and record["of"] == self._of
        lost = damaged(self.path, record["files"]) if record and whole else [DONE]
        if not lost:
            return record
        where = f"the step `{name}` of `{self.path}` ({', '.join(lost[:4])})"
        if not self._repair:
            raise InputError(
                "What a run has done must be as it was written. Received: changes in "
                f"{where}. Delete {STAGES}/{name} there and run again, or run with "
                "`repair=True` (`--repair`): this step alone is done anew."
            )
        warnings.warn(f"Changed since it was done: {where}. Done anew.", stacklevel=3)
        remove(mark)
        return None

    def perform(
        self,
        name: str,
        action: Callable[[Path], Mapping[str, Any] | None],
        marks: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Do a step unless it is done, and return its record.

        Args:
            name: The step.
            action: Given the step's folder, which holds nothing but what the action
                itself left under `UNFINISHED` when it was stopped; returns what later
                steps and the scores need, as JSON.
            marks: Goes into the record beside the action's result and its seconds.

        Raises:
            InputError: The step is done, and was damaged since; its folder cannot be
                written. Other errors of the action get a note that names the step.
        """
        folder = self.step(name)
        unfinished = folder / UNFINISHED
        with room_for(folder):
            record = self.done(name)
            if record is None:
                folder.mkdir(parents=True, exist_ok=True)
                for path in folder.iterdir():  # has no mark, so nothing relies on it
                    if path != unfinished:
                        remove(path)
                began = time.monotonic()
                with self._noted(name):
                    result = dict(action(folder) or {})
                seconds = time.monotonic() - began + result.pop(BEFORE, 0.0)
                left = [path for path in folder.iterdir() if path != unfinished]
                left += [self.path / path for path in result.pop(ELSEWHERE, ())]
                record = {"result": result, "seconds": round(seconds, 3)}
                record |= {**(marks or {}), "files": checksums(self.path, sorted(left))}
                write_json(folder / DONE, sealed(record | {"of": self._of}, name))
            remove(unfinished)
        return record

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        """Have errors that are not ours, such as a teacher's, say where they came."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            error.add_note(
                f"The step `{name}` of `{self.path}` is not done; those before it are. "
                "Mend what raised this, and give the same command again."
            )
            raise


def _check_facts(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    if changed := _changes(old, new):
        raise InputError(
            "A run goes on with the code, the backend and the files that it began "
            f"with, or its scores would be of two kinds. Received for `{folder}`: "
            f"{', '.join(changed[:6])}. Go on with those of then, or give another "
            "`out_dir`."
        )


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what differs, by key, with both values; None where there was none."""
    return [
        f"{key} ({old.get(key)} then, {new.get(key)} now)"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings, by dotted key."""
    leaves: dict[str, Any] = {}
    for key, inner in value.items():
        nested = isinstance(inner, Mapping)
        leaves |= _flat(inner, f"{prefix}{key}.") if nested else {prefix + key: inner}
    return leaves


def _used(folder: Path) -> bool:
    # Hidden files are what a run killed in its first moment left.
    return folder.is_dir() and any(p.name[0] != "." for p in folder.iterdir())


def _written(path: Path) -> dict[str, str]:
    """Return what decides the results of a recipe on disk; nothing if it is damaged."""
    try:
        return _deciding(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _deciding(text: str) -> dict[str, str]:
    """Return what decides a recipe's results, by dotted key."""
    return {
        key: _leaf(value)
        for key, value in _flat(tomllib.loads(text)).items()
        if not key.startswith(HEADER) and not key.endswith(LIMIT) or key in DECIDING
    }


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if it is not there.

    The lock is the system's, on a file that stays: it ends with the process that holds
    it, whatever ends that.

    Raises:
        InputError: Another process holds it, or nothing can be written there.
    """
    with room_for(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "ab")  # noqa: SIM115
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise InputError(
                "Only one process may work on a run at a time. Received: "
                f"`{folder}`, which another process works on. Wait until that ends, or "
                "give another `out_dir`."
            ) from error
        yield


def to_toml(value: Mapping[str, Any]) -> str:
    """Return TOML text that `tomllib` reads back to an equal value.

    Args:
        value: Nested mappings with string keys; leaves are strings, numbers, booleans
            and lists or tuples of those.
    """
    lines: list[str] = []
    _table(value, (), lines)
    return "\n".join(lines).strip() + "\n"


def _table(value: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    leaves = {k: v for k, v in value.items() if not isinstance(v, Mapping)}
    if path and (leaves or not value):
        lines.append(f"\n[{'.'.join(map(_key, path))}]")
    lines.extend(f"{_key(key)} = {_leaf(leaf)}" for key, leaf in leaves.items())
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            _table(inner, (*path, key), lines)


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isascii() and bare.isalnum() else _text(key)


def _text(value: str) -> str:
    # TOML's basic strings take JSON's escapes; DEL is the one character JSON leaves.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _leaf(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_leaf, value)) + "]"
    return str(value)
