"""The folder of a run: whose it is, who works on it, which steps are done."""

import fcntl
import json
import math
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import atomic_path, read_json, remove, write_json
from keras_msd.recipes.schema.recipe import Recipe

RECIPE, STAGES, DONE, BEGAN = "recipe.toml", "stages", "done.json", "began.json"
LOCK = ".lock"
UNFINISHED = "unfinished"  # in a step's folder: what it has so far; outlives a stop
EVENTS = "tensorboard"  # folder of what `--tensorboard` asks for
BEFORE = "seconds_before"  # in an action's result: seconds spent before the last stop
SPEED, EXPORT = "speed_", "export_"  # begin the names of steps
# Of a recipe's header only these decide results; limits of time decide none.
HEADER, DECIDING = ("recipe.", "budget."), ("recipe.name", "recipe.seed")


class RunFolder:
    """A run's folder. A step is done when its mark is there, which is written last.

    Args:
        path: The folder; it is made if it is not there.
        recipe: What the run does.

    Raises:
        InputError: The folder holds a run of other settings, or other files.
    """

    def __init__(self, path: str | Path, recipe: Recipe) -> None:
        self.path, self._recipe = Path(path), recipe
        self._text = to_toml(recipe.settings())
        self._check()

    def _check(self) -> None:
        written = self.path / RECIPE
        if written.is_file() and self._begun():
            old = _deciding(written.read_text(encoding="utf-8"))
            new = _deciding(self._text)
            if changed := [*sorted(old - new), *sorted(new - old)]:
                raise InputError(
                    f"`{self.path}` holds a run of another recipe or other settings "
                    f"than `{self._recipe.recipe.name}` at scale {self._recipe.scale}. "
                    f"Received: {'; '.join(changed[:4])}. Give another `out_dir`, or "
                    "remove that folder."
                )
        elif not written.is_file() and (self.path.is_file() or _used(self.path)):
            raise InputError(
                f"The run's folder must be new, empty, or hold a run. Received: "
                f"`{self.path}`, which holds something else. Give another `out_dir`."
            )

    def claim(self, facts: Mapping[str, Any]) -> None:
        """Write recipe and facts: from now on the folder is that of this run.

        Args:
            facts: What the run must have again when it goes on, as JSON.

        Raises:
            InputError: The folder holds a run of other settings or other facts, or
                other files.
        """
        self._check()
        if begun := self._begun():
            _check_facts(self.path, _flat(self.begun()), _flat(facts))
        with atomic_path(self.path / RECIPE) as temporary:
            temporary.write_text(self._text, encoding="utf-8")
        if not begun:
            write_json(self.path / BEGAN, facts)

    def begun(self) -> dict[str, Any]:
        """Return the facts that the run began with; none if it has not begun."""
        written = self.path / BEGAN
        return dict(read_json(written)) if written.is_file() else {}

    def _begun(self) -> bool:
        return any((self.path / STAGES).glob(f"*/{DONE}"))

    def step(self, name: str) -> Path:
        """Return the folder of a step."""
        return self.path / STAGES / name

    def record(self, name: str) -> dict[str, Any] | None:
        """Return what a finished step left behind, or None if it is not done."""
        mark = self.step(name) / DONE
        return read_json(mark) if mark.is_file() else None

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
        """
        folder = self.step(name)
        unfinished = folder / UNFINISHED
        record = self.record(name)
        if record is None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():  # has no mark, so nothing relies on it
                if path != unfinished:
                    remove(path)
            began = time.monotonic()
            result = dict(action(folder) or {})
            seconds = time.monotonic() - began + result.pop(BEFORE, 0.0)
            record = {"result": result, "seconds": round(seconds, 3)}
            record |= marks or {}
            write_json(folder / DONE, record)
        remove(unfinished)
        return record


def _check_facts(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    changed = [
        f"{key} ({old.get(key)} then, {new.get(key)} now)"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
    if changed:
        raise InputError(
            "A run goes on with the code, the backend and the files that it began "
            f"with, or its scores would be of two kinds. Received for `{folder}`: "
            f"{', '.join(changed[:6])}. Go on with those of then, or give another "
            "`out_dir`."
        )


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


def _deciding(text: str) -> set[str]:
    """Return what decides a recipe's results, each with its table in front."""
    return {
        f"{key} = {_leaf(value)}"
        for key, value in _flat(tomllib.loads(text)).items()
        if not key.startswith(HEADER) or key in DECIDING
    }


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if it is not there.

    The lock is the system's, on a file that stays: it ends with the process that holds
    it, whatever ends that.

    Raises:
        InputError: Another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "ab") as file:
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
