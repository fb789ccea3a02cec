"""Rows of papers' tables that a run has measured, beside what the papers print."""

from collections.abc import Iterator
from typing import NamedTuple

from keras_msd.report.files import RunFiles
from keras_msd.report.score_rows import digits_of, measured, number, plain


class PublishedRow(NamedTuple):
    """A row of a paper's table that a run has measured.

    Attributes:
        paper: The paper.
        table: The tables and figures that the row stands in, with semicolons.
        name: The row.
        model: The model of the run, empty for the only one.
        published: Published scores by the paper's names.
        run: The run.
    """

    paper: str
    table: str
    name: str
    model: str
    published: dict[str, float]
    run: RunFiles

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield a line of a table for each score: published, and as measured here."""
        for key, printed in self.published.items():
            value = measured(self.run.scores, key, self.model)
            numbers = (number(it, digits_of(key)) for it in (printed, value))
            yield self.name, plain(key), *numbers


def published_rows(run: RunFiles) -> Iterator[PublishedRow]:
    """Yield the rows that one run has of its paper and that have numbers, each once."""
    about = {"table": "", "row": ""} | run.recipe.get("recipe", {})
    rows = about.get("rows") or {"": about}
    for model, row in rows.items():
        printed = row.get("expected") or (not model and run.scores.get("published"))
        if printed:
            yield PublishedRow(
                paper=about.get("paper", ""),
                table=row["table"],
                name=row["row"] or "this run",
                model=model,
                published=dict(printed),
                run=run,
            )
