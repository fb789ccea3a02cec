"""Which experiment a recipe is, and the files `recipes/published/<citation>.toml`."""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from keras_msd.files import read_toml
from keras_msd.recipes.files import Layer
from keras_msd.recipes.messages import validated
from keras_msd.recipes.settings import Settings, Words

Scale = Literal["smoke", "demo", "lab", "backbone", "paper"]
Scales = Annotated[tuple[Scale, ...], Field(strict=False, min_length=1)]
Numbers = Annotated[tuple[float, ...], Field(strict=False)]


class PublishedRow(Settings):
    """`[recipe.rows.<model>]`: the paper's row that one of a recipe's models is.

    `table` names one or more tables or figures, with semicolons; `x` is the place on a
    figure's axis. `printed_as` is the paper's name of the row where `row` says more,
    "none" for a row that no paper has; `columns` are those to compare with, by default
    all. `expected` holds published scores x100, by default those of the paper's file.
    """

    table: str
    row: str
    x: float | None = None
    printed_as: str | None = None
    columns: Words = ()
    expected: dict[str, float] = Field(default_factory=dict)


class About(Settings):
    """`[recipe]`: which experiment this is.

    `citation` names the file in `recipes/published/` that has the paper's title and
    scores; `paper` is the title of one that has no such file. `expected` holds
    published scores x100 of the first student, or of the assistant where there is none:
    those of `row` in `table`; `rows`, by the names of models, says it of several.
    `printed_on` names the evaluation sets of published scores, each with the number of
    languages that its average is over: a score of another set is compared with none.
    `ours` says why settings, by their dotted keys, are not the paper's at the `paper`
    scale either, or that it prints none; `{value}` in it is the setting's. Both may
    stand in the paper's file.
    `seed` decides every random draw but the choice of pairs, which is `data.seed`'s.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    title: str
    citation: str = ""
    paper: str = ""
    table: str = ""
    row: str = ""
    cost: str = ""
    seed: Annotated[int, Field(ge=0)] = 0
    scales: Scales = ("smoke",)
    default_scale: Scale = "smoke"
    expected: dict[str, float] = Field(default_factory=dict)
    rows: dict[str, PublishedRow] = Field(default_factory=dict)
    printed_on: dict[str, int] = Field(default_factory=dict)
    ours: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _default_is_offered(self) -> "About":
        if self.default_scale not in self.scales:
            raise ValueError("`default_scale` must be one of `scales`")
        return self


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
