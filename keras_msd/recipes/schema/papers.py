"""The checks of `recipes/published/<citation>.toml`, one file a paper."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from keras_msd.files import read_toml
from keras_msd.recipes.schema.layers import Layer
from keras_msd.recipes.schema.messages import validated
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
            columns = self.columns if block.columns is None else block.columns
            for row, scores in block.rows.items():
                if len(scores) != len(columns):
                    raise ValueError(
                        f"row `{row}` of table `{block.table}` must have a number for "
                        f"each of its {len(columns)} columns; received {len(scores)}"
                    )
        return self


@cache
def read_paper(path: Path) -> Paper:
    """Read a file of published scores.

    Raises:
        InputError: It is no TOML, or has another form than `Paper`.
    """
    values = read_toml(path)
    return validated(Paper, values, [Layer(str(path), values)])
