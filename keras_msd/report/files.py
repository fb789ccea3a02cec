"""What a report reads: the files of a run's folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_file, existing_folder
from keras_msd.files import read_json, read_toml

HISTORY: dict[str, type] = {"steps": list, "terms": dict}


@dataclass(frozen=True)
class RunFiles:
    """The contents of a run's folder.

    Attributes:
        recipe: `recipe.toml`.
        scores: `scores.json`: `recipe`, `scale`, `rows`, `published`, and `measured`
            where a published number has no column in `rows`.
        timings: `timings.json`: `parts`, seconds by name; `speed`, sentences a second
            by row name, where it was measured.
        histories: `stages/<name>/history.json` by name, in the recipe's order.
        neighbours: `neighbours.json`, or an empty list if the run has none.
        counts: What became of the rows of each training file, from the `done.json` of
            the step `pairs`; see `TextTable.counts`.
    """

    recipe: dict[str, Any]
    scores: dict[str, Any]
    timings: dict[str, Any]
    histories: dict[str, dict[str, Any]]
    neighbours: list[dict[str, Any]]
    counts: list[dict[str, Any]]


def read_run(folder: str | Path) -> RunFiles:
    """Read the files of a finished run.

    Raises:
        InputError: The folder or one of its files is missing or broken.
    """
    folder = existing_folder(folder, "run folder")
    existing_file(folder / "recipe.toml", "recipe of the run")
    recipe = read_toml(folder / "recipe.toml", "Run the recipe again.")
    stages = list(recipe.get("stages", {}))

    def place(path: Path) -> tuple[int, str]:
        # A further student's stage has that student's name behind the stage's.
        name = path.parent.name
        known = (number for number, it in enumerate(stages) if name.startswith(it))
        return next(known, len(stages)), name

    histories = sorted(folder.glob("stages/*/history.json"), key=place)
    pairs, neighbours = folder / "stages/pairs/done.json", folder / "neighbours.json"
    taken = _read(pairs, {"result": dict})["result"] if pairs.is_file() else {}
    return RunFiles(
        recipe,
        _read(folder / "scores.json", {"recipe": str, "scale": str, "rows": list}),
        _read(folder / "timings.json", {"parts": dict}),
        {path.parent.name: _read(path, HISTORY) for path in histories},
        read_json(neighbours) if neighbours.is_file() else [],
        taken.get("counts", []),
    )


def _read(path: Path, keys: dict[str, type]) -> dict[str, Any]:
    value = read_json(path)
    for key, kind in keys.items():
        content = value.get(key) if isinstance(value, dict) else None
        if not isinstance(content, kind):
            raise InputError(
                f"`{path}` must have the key `{key}`, a {kind.__name__}. "
                f"Received: {content!r:.60}. Run the recipe again."
            )
    return value
