"""Rows of papers' tables that a run has measured, beside what the papers print."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from keras_msd.evaluate.rows import Asked, asked_sets
from keras_msd.evaluate.sets import EvaluationSet, evaluation_set
from keras_msd.report.files import RunFiles
from keras_msd.report.score_rows import (
    MILLIONS,
    ScoreRow,
    digits_of,
    measured,
    model_row,
    number,
    our_name,
)

MODELS = "the paper's models"


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

    def measured(self, key: str) -> float | None:
        """Return what the run has where the paper prints `key`."""
        return measured(self.run.scores, key, self.model)

    def other_set(self, key: str) -> str:
        """Return the set that the paper scored, where the run scored another one."""
        if self.measured(key) is None:
            return ""
        row = model_row(self.run.scores["rows"], self.model)
        return other_set(self.run.recipe, key, row)

    def compared(self, key: str) -> tuple[str, str, str]:
        """Return the published and the measured score, and their difference.

        The published one stands in brackets, and there is no difference, where it is
        of other sentences or languages.
        """
        value, digits = self.measured(key), digits_of(key)
        printed = number(self.published[key], digits)
        if self.other_set(key):
            return f"({printed})", number(value, digits), ""
        gap = "" if value is None else f"{value - self.published[key]:+.{digits}f}"
        return printed, number(value, digits), gap


def published_rows(run: RunFiles) -> Iterator[PublishedRow]:
    """Yield the rows that one run has of its paper, each once."""
    about = {"table": "", "row": ""} | run.recipe.get("recipe", {})
    rows = about.get("rows") or {"": about}
    for model, row in rows.items():
        printed = row.get("expected") or (not model and run.scores.get("published"))
        yield PublishedRow(
            paper=about.get("paper", ""),
            table=row["table"],
            name=row["row"] or "this run",
            model=model,
            published=dict(printed or {}),
            run=run,
        )


def elsewhere(others: Iterable[str]) -> Iterator[str]:
    """Yield what brackets mean and which sets papers scored, if there are any."""
    if named := ", ".join(dict.fromkeys(filter(None, others))):
        yield (
            "In brackets: published for other sentences or models, so there is no "
            f"difference: {named}."
        )


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
