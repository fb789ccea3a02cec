"""What papers print: `recipes/published/<citation>.toml`, one file a paper."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from keras_msd.checks import InputError, nearest
from keras_msd.files import read_toml
from keras_msd.recipes.schema.folders import shared_file
from keras_msd.recipes.schema.messages import Layer, validated
from keras_msd.recipes.schema.recipe import About, PublishedRow
from keras_msd.recipes.schema.settings import Settings, Words

Numbers = Annotated[tuple[float, ...], Field(strict=False)]


class PublishedTable(Settings):
    """`[[tables]]`: rows that stand in the same tables and have the same columns.

    `table` names those tables, with semicolons; `rows` has the numbers of each row, in
    the order of `columns`, by default those of the file.
    """

    table: str
    columns: Words | None = None
    rows: dict[str, Numbers]


class Paper(Settings):
    """A file of published scores: the paper's title, and its tables."""

    paper: str
    columns: Words = ()
    tables: Annotated[tuple[PublishedTable, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _rows_fill_their_columns(self) -> "Paper":
        for block in self.tables:
            for row, scores in block.rows.items():
                if len(scores) != len(self.columns_of(block)):
                    raise ValueError(
                        f"row `{row}` of table `{block.table}` must have a number for "
                        f"each of its {len(self.columns_of(block))} columns; received "
                        f"{len(scores)}"
                    )
        return self

    def columns_of(self, block: PublishedTable) -> tuple[str, ...]:
        """Return the names of a table's columns."""
        return self.columns if block.columns is None else block.columns

    def rows_of(self, table: str) -> dict[str, dict[str, float]]:
        """Return the rows of one table: their scores by column."""
        return {
            row: dict(zip(self.columns_of(block), scores, strict=True))
            for block in self.tables
            if table in tables_named(block.table)
            for row, scores in block.rows.items()
        }


def tables_named(text: str) -> list[str]:
    """Return the tables and figures that a recipe's `table` names: "1; figure 3"."""
    names = [name.strip() for name in text.split(";")]
    return [name for name in names if name not in ("", "none")]


def with_published(about: About, recipe: Path) -> About:
    """Return `[recipe]` with the title of its paper and what that prints for its rows.

    What the recipe says itself stays: a `paper` of its own, for one without a file, and
    scores that are `expected`.

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
    paper = read_paper(path)

    def scores(row: PublishedRow) -> dict[str, float]:
        return row.expected or _scores(paper, row, f"`{path}`, named by `{recipe}`,")

    changes = {
        "paper": paper.paper,
        "rows": {
            model: row.model_copy(update={"expected": scores(row)})
            for model, row in about.rows.items()
        },
    }
    if not about.rows:
        row = PublishedRow(table=about.table, row=about.row, expected=about.expected)
        changes["expected"] = scores(row)
    return about.model_copy(update=changes)


@cache
def read_paper(path: Path) -> Paper:
    """Read a file of published scores.

    Raises:
        InputError: It is no TOML, or has another form than `Paper`.
    """
    values = read_toml(path)
    return validated(Paper, values, [Layer(str(path), values)])


def _scores(paper: Paper, row: PublishedRow, place: str) -> dict[str, float]:
    name = row.printed_as or row.row
    scores: dict[str, float] = {}
    for table in tables_named(row.table) if name != "none" else ():
        printed = paper.rows_of(table)
        if name not in printed:
            raise InputError(
                f"{place} has no row `{name}` of table `{table}`. "
                f"{nearest(name, printed)} Add it there, name the paper's row in "
                '`printed_as`, or write `printed_as = "none"` for a row of your own.'
            )
        scores |= printed[name]
    unknown = [column for column in row.columns if column not in scores]
    if unknown:
        raise InputError(
            f"{place} prints no {', '.join(f'`{key}`' for key in unknown)} for row "
            f"`{name}` of table `{row.table}`. Columns there: {', '.join(scores)}."
        )
    return {key: scores[key] for key in row.columns or scores}
