"""What papers print for the rows of recipes: `recipes/published/<citation>.toml`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, nearest
from keras_msd.recipes.files import (
    shared_file,
)

Values = Mapping[str, Any]


def tables_named(text: str) -> list[str]:
    """Return the tables and figures that a recipe's `table` names: "1; figure 3"."""
    names = [name.strip() for name in text.split(";")]
    return [name for name in names if name not in ("", "none")]


def columns_of(paper: Values, block: Values) -> list[str]:
    """Return the names of a table's columns: its own, else those of the file."""
    own = block.get("columns")
    return list(paper.get("columns", ()) if own is None else own)


def with_published(
    header: Values, recipe: Path, read: Callable[[Path], Values]
) -> dict[str, Any]:
    """Return `[recipe]` with the title of its paper and what that prints for its rows.

    What the recipe says itself stays: a `paper` of its own, for one without a file,
    scores that are `expected`, reasons in `ours`.

    Args:
        header: The section.
        recipe: The recipe's file.
        read: Returns the values of a file of published scores.

    Raises:
        InputError: The file of published scores is missing or broken, or lacks a table,
            row or column that the recipe names.
    """
    citation = header.get("citation")
    if header.get("paper") or not citation:
        return {**header, "citation": ""}
    path = shared_file(recipe, f"published/{citation}", "citation")
    paper = read(path)

    def scores(row: Values) -> dict[str, float]:
        place = f"`{path}`, named by `{recipe}`,"
        return row.get("expected") or _scores(paper, row, place)

    rows = header.get("rows", {})
    filled = {model: {**row, "expected": scores(row)} for model, row in rows.items()}
    ours = {**paper.get("ours", {}), **header.get("ours", {})}
    on = paper.get("printed_on", {})
    changes = {"paper": paper["paper"], "rows": filled, "ours": ours, "printed_on": on}
    if not rows:
        changes["expected"] = scores(header)
    return {**header, **changes}


def _scores(paper: Values, row: Values, place: str) -> dict[str, float]:
    name = row.get("printed_as") or row.get("row", "")
    tables = row.get("table", "")
    scores: dict[str, float] = {}
    for table in tables_named(tables) if name != "none" else ():
        printed = _rows(paper, table)
        if name not in printed:
            raise InputError(
                f"{place} has no row `{name}` of table `{table}`. "
                f"{nearest(name, printed)} Add it there, name the paper's row in "
                '`printed_as`, or write `printed_as = "none"` for a row of your own.'
            )
        scores |= printed[name]
    columns = row.get("columns", ())
    unknown = [column for column in columns if column not in scores]
    if unknown:
        raise InputError(
            f"{place} prints no {', '.join(f'`{key}`' for key in unknown)} for row "
            f"`{name}` of table `{tables}`. Columns there: {', '.join(scores)}."
        )
    return {key: scores[key] for key in columns or scores}


def _rows(paper: Values, table: str) -> dict[str, dict[str, float]]:
    """Return the rows of one table: their scores by column."""
    return {
        row: dict(zip(columns_of(paper, block), scores, strict=True))
        for block in paper["tables"]
        if table in tables_named(block["table"])
        for row, scores in block["rows"].items()
    }
