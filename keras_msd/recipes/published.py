"""What papers print for the rows of recipes: `recipes/published/<citation>.toml`."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from keras_msd.checks import InputError, nearest
from keras_msd.files import read_toml
from keras_msd.recipes.files import Layer, shared_file
from keras_msd.recipes.messages import validated
from keras_msd.recipes.settings import About, PublishedRow, Settings, Words

Numbers = Annotated[tuple[float, ...], Field(strict=False)]


class PublishedTable(Settings):
    """`[[tables]]`: rows that are in the same tables and have the same columns.

    `table` names those tables, separated by semicolons; `rows` has the numbers of each
    row, in the order of `columns`, by default those of the file.
    """

    table: str
    columns: Words | None = None
    rows: dict[str, Numbers]


class Paper(Settings):
    """A file of published scores: the paper's title, and its tables.

    `printed_on` and `ours` are those of `[recipe]`, for all recipes of the paper.
    """

    paper: str
    printed_on: dict[str, int] = Field(default_factory=dict)
    ours: dict[str, str] = Field(default_factory=dict)
    columns: Words = ()
    tables: Annotated[tuple[PublishedTable, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _rows_fill_their_columns(self) -> "Paper":
        for block in self.tables:
            columns = self.columns_of(block)
            for row, scores in block.rows.items():
                if len(scores) != len(columns):
                    raise ValueError(
                        f"row `{row}` of table `{block.table}` must have a number for "
                        f"each of its {len(columns)} columns; received {len(scores)}"
                    )
        return self

    def columns_of(self, block: PublishedTable) -> Words:
        """Return the names of a table's columns: its own, else those of the file."""
        return self.columns if block.columns is None else block.columns

    def rows_of(self, table: str) -> dict[str, dict[str, float]]:
        """Return the rows of one table: their scores by column."""
        return {
            row: dict(zip(self.columns_of(block), scores, strict=True))
            for block in self.tables
            if table in tables_named(block.table)
            for row, scores in block.rows.items()
        }


@cache
def read_paper(path: Path) -> Paper:
    """Read a file of published scores.

    Raises:
        InputError: It is no TOML, or has another form than `Paper`.
    """
    values = read_toml(path)
    return validated(Paper, values, [Layer(str(path), values)])


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
    changes = {"paper": paper.paper, "printed_on": paper.printed_on, "ours": ours}
    return about.model_copy(update=changes | {"rows": rows, "expected": expected})


def _scores(paper: Paper, row: PublishedRow, where: str) -> dict[str, float]:
    name = row.printed_as or row.row
    scores: dict[str, float] = {}
    for table in tables_named(row.table) if name != "none" else ():
        printed = paper.rows_of(table)
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
