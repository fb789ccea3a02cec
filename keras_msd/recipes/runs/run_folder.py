"""The folder of a run: whose it is, which steps are done, how long they took."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import atomic_path, read_json, remove, write_json
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.recipes.runs.toml_text import to_toml

RECIPE, STAGES, DONE, BEGAN = "recipe.toml", "stages", "done.json", "began.json"
# Of a recipe's header only these decide results; limits of time decide none.
HEADER, DECIDING = ("recipe.", "budget."), ("recipe.name = ", "recipe.seed = ")


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
        own = self.path / RECIPE
        if own.is_file():
            if self._begun():
                _check_same(own, self._text, self._recipe)
        elif self.path.is_file() or _used(self.path):
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
            own = self.path / BEGAN
            before = read_json(own) if own.is_file() else {}
            _check_facts(self.path, _flat(before), _flat(facts))
        with atomic_path(self.path / RECIPE) as temporary:
            temporary.write_text(self._text, encoding="utf-8")
        if not begun:
            write_json(self.path / BEGAN, facts)

    def _begun(self) -> bool:
        return any((self.path / STAGES).glob(f"*/{DONE}"))

    def stage(self, name: str) -> Path:
        """Return the folder of a step."""
        return self.path / STAGES / name

    def record(self, name: str) -> dict[str, Any] | None:
        """Return what a finished step left behind, or None if it is not done."""
        mark = self.stage(name) / DONE
        return read_json(mark) if mark.is_file() else None

    def result(self, name: str) -> dict[str, Any]:
        """Return the result of a step that is done."""
        record = self.record(name)
        if record is None:
            raise InputError(
                f"The run in `{self.path}` has not done its step `{name}`. "
                "Run its recipe again with the same folder."
            )
        return record["result"]

    def perform(
        self,
        name: str,
        action: Callable[[Path], Mapping[str, Any] | None],
        marks: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Do a step unless it is done, and return its record.

        Args:
            name: The step.
            action: Given the step's folder, empty; returns what later steps and the
                scores need, as JSON.
            marks: Goes into the record beside the action's result and its seconds.
        """
        record = self.record(name)
        if record is not None:
            return record
        folder = self.stage(name)
        remove(folder)  # what a killed run left has no mark, so nothing relies on it
        folder.mkdir(parents=True)
        began = time.monotonic()
        result = dict(action(folder) or {})
        record = {"result": result, "seconds": round(time.monotonic() - began, 3)}
        record |= marks or {}
        write_json(folder / DONE, record)
        return record


def _check_same(own: Path, text: str, recipe: Recipe) -> None:
    old, new = _lines(own.read_text(encoding="utf-8")), _lines(text)
    if old == new:
        return
    changed = [*sorted(old - new), *sorted(new - old)]
    raise InputError(
        f"`{own.parent}` holds a run of another recipe or other settings than "
        f"`{recipe.recipe.name}` at scale {recipe.scale}. Received: "
        f"{'; '.join(changed[:4])}. Give another `out_dir`, or remove that folder."
    )


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
    found: dict[str, Any] = {}
    for key, inner in value.items():
        nested = isinstance(inner, Mapping)
        found |= _flat(inner, f"{prefix}{key}.") if nested else {prefix + key: inner}
    return found


def _used(folder: Path) -> bool:
    # Hidden files are what a run killed in its first moment left.
    return folder.is_dir() and any(p.name[0] != "." for p in folder.iterdir())


def _lines(text: str) -> set[str]:
    """Return what decides a recipe's results, each with its table in front."""
    table, lines = "", set()
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]") + "."
        elif line:
            lines.add(table + line)
    return {
        line
        for line in lines
        if not line.startswith(HEADER) or line.startswith(DECIDING)
    }
