"""Which rows of which papers' tables runs have measured, and those tables."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from keras_msd.evaluate.rows import Asked, asked_sets
from keras_msd.evaluate.sets import EvaluationSet, evaluation_set, score_labels
from keras_msd.recipes.schema.published import tables_named
from keras_msd.report.blocks import Block, Table, Text
from keras_msd.report.files import RunFiles
from keras_msd.report.score_rows import (
    MILLIONS,
    ScoreRow,
    digits_of,
    in_order,
    measured,
    model_row,
    number,
    our_name,
    plain,
)

# Figures that are drawn from a table's numbers.
FIGURES = {("LEALLA", "6"): "figure 1", ("LEALLA", "8"): "figure 3"}
COMPARED = ("measured", "published", "difference")
ELSEWHERE = (
    "In brackets: published for other sentences or models, hence no difference: {}."
)
MODELS = "the paper's models"


@dataclass(frozen=True)
class MeasuredRow:
    """A row of a paper's table that a run has measured.

    Attributes:
        paper: The paper.
        table: The table or figure, such as "3 and 4" or "figure 1"; of `run_rows` all
            that the row stands in, with semicolons.
        name: The row.
        model: The model of the run, empty for the only one.
        published: Published scores by our names.
        measured: Measured ones by the same names; those of the run's row where the
            paper prints none.
        x: Place on a figure's axis.
        run: The run.
        folder: Its folder.
    """

    paper: str
    table: str
    name: str
    model: str
    published: dict[str, float]
    measured: dict[str, Any]
    x: float | None
    run: RunFiles
    folder: str

    @property
    def source(self) -> str:
        """The file that the measured numbers come from."""
        return str(PurePosixPath(self.folder, "scores.json"))

    def other_set(self, key: str) -> str:
        """Return the set that the paper scored, where the run scored another one."""
        if self.measured.get(key) is None:
            return ""
        row = model_row(self.run.scores["rows"], self.model)
        return other_set(self.run.recipe, key, row)

    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """Return (update, score) in the last stage that is scored on its way.

        By the score: `cross_lingual`, and tracks such as `en-de`.
        """
        suffix = self.model.removeprefix("student")
        found: dict[str, list[tuple[int, float]]] = {}
        for stage in self.run.recipe.get("stages", {}):
            scores = dict(
                self.run.histories.get(f"{stage}{suffix}", {}).get("scores", {})
            )
            steps = scores.pop("steps", ())
            found = {
                key: list(zip(steps, values, strict=True))
                for key, values in scores.items()
            } or found
        return found


def paper_rows(runs: dict[str, RunFiles]) -> list[MeasuredRow]:
    """Return all rows, papers in order of their names, tables in that of the paper."""
    rows = [
        replace(row, table=table)
        for folder, run in runs.items()
        for row in run_rows(run, folder)
        for table in _with_figures(row.paper, tables_named(row.table))
    ]
    return sorted(rows, key=lambda row: (row.paper, _table_order(row.table)))


def run_rows(run: RunFiles, folder: str = "") -> Iterator[MeasuredRow]:
    """Yield the rows that one run has of its paper, each once."""
    about = {"table": "", "row": ""} | run.recipe.get("recipe", {})
    for model, row in (about.get("rows") or {"": about}).items():
        printed = row.get("expected", {})
        published = {our_name(key): value for key, value in printed.items()}
        keys = published or _averages()
        scores = {key: measured(run.scores, key, model) for key in keys}
        if not published:
            scores = {k: value for k, value in scores.items() if value is not None}
        yield MeasuredRow(
            paper=about.get("paper", ""),
            table=row["table"],
            name=row["row"],
            model=model,
            published=published,
            measured=scores,
            x=row.get("x"),
            run=run,
            folder=folder,
        )


def averages(rows: Iterable[MeasuredRow]) -> list[str]:
    """Return the averages that some row has, or its scores where there is none."""
    scores = _columns(rows)
    return [key for key in scores if key in _averages()] or scores


def score_tables(rows: list[MeasuredRow]) -> Iterator[Block]:
    """Yield a table of the averages and one of the single columns, if there are any."""
    means = averages(rows)
    heads = [f"{plain(key)}, {what}" for key in means for what in COMPARED]
    body = [
        [row.name, *(cell for key in means for cell in _cells(row, key)), row.source]
        for row in rows
    ]
    yield Table(["row", *heads, "file"], body)
    tracks = [key for key in _columns(rows) if key not in means]
    yield from elsewhere(row.other_set(key) for row in rows for key in row.published)
    if tracks:
        yield Text("By column of the paper, measured / published / difference:")
        body = [[row.name, *(_joined(row, key) for key in tracks)] for row in rows]
        yield Table(["row", *map(plain, tracks)], body)


def compared(
    value: float | None, printed: float | None, other: str, digits: int
) -> tuple[str, str, str]:
    """Return a measured and a published score and how far the one is from the other.

    Args:
        value: The measured one.
        printed: The published one.
        other: What `other_set` gives; if that is a set, brackets and no difference.
        digits: Behind the point.
    """
    found, published, gap = number(value, digits), number(printed, digits), ""
    if other and published:
        published = f"({published})"
    elif value is not None and printed is not None:
        gap = f"{value - printed:+.{digits}f}"
    return found, published, gap


def elsewhere(others: Iterable[str]) -> Iterator[Text]:
    """Yield what brackets mean and which sets papers scored, if there are any."""
    if named := ", ".join(dict.fromkeys(filter(None, others))):
        yield Text(ELSEWHERE.format(named))


def other_set(recipe: dict[str, Any], key: str, row: ScoreRow | None = None) -> str:
    """Return the set of a published score where a run has the score of another one.

    Sentences, the part of the set and, for an average, the number of languages must be
    those of the paper; for a size, the scale.

    Args:
        recipe: The content of recipe.toml; a paper whose sets its `printed_on` does not
            say is taken to have scored the recipe's.
        key: The paper's column.
        row: The score row, which has the languages of a set that is scored in all.

    Returns:
        Name and languages of the paper's set, "" where the run scored that one.
    """
    if key in MILLIONS:
        return "" if recipe.get("scale") == "paper" else MODELS
    printed_on = recipe.get("recipe", {}).get("printed_on", {})
    asked = {it.record.name: it for it in asked_sets(recipe)}
    set_of_paper, set_of_run = _set_with(printed_on, key), _set_with(asked, key)
    if set_of_paper is None or set_of_run is None:
        return ""
    ours, count = asked[set_of_run.name], printed_on[set_of_paper.name]
    same = set_of_paper == set_of_run and ours.split == set_of_run.splits[0]
    is_average = our_name(key) in _scores(set_of_run)
    if same and (not is_average or _languages(ours, row or {}) == count):
        return ""
    return f"{set_of_paper.label or set_of_paper.name}, {count} languages"


def _languages(asked: Asked, row: ScoreRow) -> int:
    """Return how many languages a set is scored in."""
    tracks = row.get(f"{_scores(asked.record)[0]}_tracks", ())
    return len(tracks if asked.every else asked.languages)


def _set_with(names: Iterable[str], key: str) -> EvaluationSet | None:
    """Return the set among some whose score or track a column is."""
    records = [evaluation_set(name) for name in names]
    for record in records:
        scores = _scores(record)
        if our_name(key) in scores or key.startswith(f"{scores[0]}_"):
            return record
    return next((record for record in records if record.similarity), None)


def _scores(record: EvaluationSet) -> list[str]:
    return list(record.scores.values()) or [record.name]


def _averages() -> list[str]:
    """Return the scores of all sets in the papers' order."""
    return in_order(score_labels(), ["monolingual"])


def _columns(rows: Iterable[MeasuredRow]) -> list[str]:
    return in_order((key for row in rows for key in row.measured), _averages())


def _cells(row: MeasuredRow, key: str) -> tuple[str, str, str]:
    value, printed = row.measured.get(key), row.published.get(key)
    return compared(value, printed, row.other_set(key), digits_of(key))


def _joined(row: MeasuredRow, key: str) -> str:
    cells = _cells(row, key)
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def _with_figures(paper: str, tables: list[str]) -> list[str]:
    drawn = (
        figure
        for (title, table), figure in FIGURES.items()
        if title in paper and table in tables
    )
    return list(dict.fromkeys([*tables, *drawn]))


def _table_order(table: str) -> tuple[bool, list[int]]:
    """Return a key that puts tables before figures, each by number."""
    return table.startswith("figure"), [int(n) for n in re.findall(r"\d+", table)]
