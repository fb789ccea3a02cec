"""What every recipe is, in short: enough for a table, and read in a moment."""

from functools import reduce
from pathlib import Path
from typing import Any

from keras_msd.recipes.schema.folders import recipe_files
from keras_msd.recipes.schema.layers import merge, read_layers, read_unchanged
from keras_msd.recipes.schema.published import with_published


def overview() -> list[dict[str, Any]]:
    """Return of every recipe what a table of them shows.

    Values are not checked: pydantic alone takes longer to import than all recipes to be
    read. Where something is amiss the checked reading says what.

    Returns:
        For each `name`, `title`, `paper`, `table`, `row`, `expected` and `rows`, as
        `list_recipes` has them.

    Raises:
        InputError: A recipe file is broken.
    """
    try:
        return [_in_short(path) for path in recipe_files().values()]
    except (AttributeError, KeyError, TypeError, ValueError):
        from keras_msd.recipes.schema.loading import list_recipes

        return list_recipes()


def _in_short(path: Path) -> dict[str, Any]:
    headers = (layer.values.get("recipe", {}) for layer in read_layers(path))
    header = with_published(reduce(merge, headers), path, read_unchanged)
    rows = {model: _row(row) for model, row in header.get("rows", {}).items()}
    paper = header.get("paper", "")
    of_paper = {"table": "", "row": ""} | header
    about = {"name": header["name"], "title": header["title"], "paper": paper}
    return _texts(about) | _row(of_paper) | {"rows": rows}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    expected = row.get("expected", {}).items()
    scores = {key: float(value) for key, value in expected}
    return _texts({key: row[key] for key in ("table", "row")}) | {"expected": scores}


def _texts(values: dict[str, Any]) -> dict[str, Any]:
    if not all(isinstance(value, str) for value in values.values()):
        raise TypeError(values)
    return values
