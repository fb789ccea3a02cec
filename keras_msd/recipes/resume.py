"""The folder of a run: whose it is, which steps are done, how long they took."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import atomic_path, read_json, remove, write_json
from keras_msd.recipes.schema import Recipe
from keras_msd.recipes.toml_text import to_toml

RECIPE, STAGES, DONE = "recipe.toml", "stages", "done.json"


class RunFolder:
    """A run's folder. A step is done when its mark is there, which is written last.

    Args:
        path: The folder; it is made if it is not there.
        recipe: What the run does.

    Raises:
        InputError: The folder holds a run of other settings, or other files.
    """

    def __init__(self, path: str | Path, recipe: Recipe) -> None:
        self.path = Path(path)
        self._text = to_toml(recipe.settings())
        own = self.path / RECIPE
        if own.is_file():
            if self._begun():
                _check_same(own, self._text, recipe)
        elif self.path.is_file() or _used(self.path):
            raise InputError(
                f"The run's folder must be new, empty, or hold a run. Received: "
                f"`{self.path}`, which holds something else. Give another `out_dir`."
            )

    def claim(self) -> None:
        """Write the recipe: from now on the folder is that of this run."""
        if not self._begun():
            with atomic_path(self.path / RECIPE) as temporary:
                temporary.write_text(self._text, encoding="utf-8")

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
    before = own.read_text(encoding="utf-8")
    if before == text:
        return
    old, new = _lines(before), _lines(text)
    changed = [*sorted(old - new), *sorted(new - old)]
    shown = "; ".join(changed[:4]) or "order of the settings"
    raise InputError(
        f"`{own.parent}` holds a run of another recipe or other settings than "
        f"`{recipe.recipe.name}` at scale {recipe.scale}. Received: {shown}. "
        "Give another `out_dir`, or remove that folder."
    )


def _used(folder: Path) -> bool:
    # Hidden files are what a run killed in its first moment left.
    return folder.is_dir() and any(p.name[0] != "." for p in folder.iterdir())


def _lines(text: str) -> set[str]:
    """Return the settings of a recipe, each with its table in front."""
    table, lines = "", set()
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]") + "."
        elif line:
            lines.add(table + line)
    return lines
