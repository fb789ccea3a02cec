"""What papers print for the rows of recipes: `recipes/published/<citation>.toml`."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, explained, nearest
from keras_msd.files import read_toml
from keras_msd.recipes.files import shared_file
from keras_msd.recipes.settings import About, PublishedRow


class Paper(NamedTuple):
    """A file of published scores.

    Attributes:
        title: The paper's title.
        printed_on: As in `[recipe]`, for all recipes of the paper; so is `ours`.
        ours: See there.
        tables: The scores by table, row and column.
    """

    title: str
    printed_on: dict[str, int]
    ours: dict[str, str]
    tables: dict[str, dict[str, dict[str, float]]]


@cache
def read_paper(path: Path) -> Paper:
    """Read a file of published scores.

    Raises:
        InputError: It is no TOML, or has another form.
    """
    values = read_toml(path)
    tables: dict[str, dict[str, dict[str, float]]] = {}

    def broken(error: Exception) -> str:
        return (
            f"`{path}` must have the title `paper` and `[[tables]]` whose rows have a "
            f"number for each of their columns. Received: {error!r:.200}. Correct it."
        )

    with explained(broken, KeyError, TypeError, ValueError, AttributeError):
        for block in values["tables"]:
            columns = block.get("columns", values.get("columns"))
            for row, scores in block["rows"].items():
                numbers: Any = dict(zip(columns, map(float, scores), strict=True))
                for name in tables_named(block["table"]):
                    tables.setdefault(name, {})[row] = numbers
        printed_on, ours = values.get("printed_on", {}), values.get("ours", {})
        return Paper(values["paper"], printed_on, ours, tables)


def tables_named(text: str) -> list[str]:
    """Return the tables and figures that a recipe's `table` names: "1; figure 3"."""
    names = [name.strip() for name in text.split(";")]
    return [name for name in names if name not in ("", "none")]


def with_published(about: About, recipe: Path) -> About:
    """Return `[recipe]` with the title of its paper and what that prints for its rows.

    What the recipe gives itself has precedence: a `paper`, `expected`, reasons in
    `ours`.

    Args:
        about: The section.
        recipe: The recipe's file.

    Raises:
        InputError: The file of published scores is missing or broken, or lacks a table,
            row or column that the recipe names.
    """
    if about.paper or not about.citation:
        return about.model_copy(update={"citation": ""})
    path = shared_file(recipe, f"published/{about.citation}", "citation")
    paper, where = read_paper(path), f"`{path}`, named by `{recipe}`,"

    def filled(row: PublishedRow) -> PublishedRow:
        expected = row.expected or _scores(paper, row, where)
        return row.model_copy(update={"expected": expected})

    rows = {model: filled(row) for model, row in about.rows.items()}
    expected = about.expected
    if not rows:
        own = PublishedRow(table=about.table, row=about.row, expected=expected)
        expected = filled(own).expected
    ours = {**paper.ours, **about.ours}
    changes = {"paper": paper.title, "printed_on": paper.printed_on, "ours": ours}
    return about.model_copy(update=changes | {"rows": rows, "expected": expected})


def _scores(paper: Paper, row: PublishedRow, where: str) -> dict[str, float]:
    name = row.printed_as or row.row
    scores: dict[str, float] = {}
    for table in tables_named(row.table) if name != "none" else ():
        printed = paper.tables.get(table, {})
        if name not in printed:
            raise InputError(
                f"{where} has no row `{name}` of table `{table}`. "
                f"{nearest(name, printed)} Add it there, name the paper's row in "
                '`printed_as`, or write `printed_as = "none"` for a row of your own.'
            )
        scores |= printed[name]
    if unknown := [column for column in row.columns if column not in scores]:
        raise InputError(
            f"{where} prints no {', '.join(f'`{key}`' for key in unknown)} for row "
            f"`{name}` of table `{row.table}`. Columns there: {', '.join(scores)}."
        )
    return {key: scores[key] for key in row.columns or scores}
