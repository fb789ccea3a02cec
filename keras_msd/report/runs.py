"""What a run left: its files, and which model and stage each score row is of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_file, existing_folder
from keras_msd.evaluate.sets import score_labels
from keras_msd.files import read_json, read_toml

ScoreRow = dict[str, Any]

HISTORY: dict[str, type] = {"steps": list, "terms": dict}
# What papers call the column of a score, and its name in our rows.
OUR_NAMES = {"tatoeba": "retrieval", "un_avg": "un", "bucc_avg": "bucc"}
SIZES = ("parameters", "bytes", "table_bytes")
BIG = ("teacher", "assistant")
# Columns in which papers print millions of parameters, and the layer that has them.
MILLIONS = {"embedding_millions": "embedding", "encoder_millions": "body"}


@dataclass(frozen=True)
class RunFiles:
    """The contents of a run's folder.

    Attributes:
        recipe: `recipe.toml`.
        scores: `scores.json`: `recipe`, `scale`, `rows`, `published`, and `measured`
            where a published number has no column in `rows`.
        timings: `timings.json`: `parts`, seconds by name; `speed`, sentences a second
            by row name, where it was measured.
        histories: `stages/<name>/history.json` by name, in the recipe's order.
        neighbours: `neighbours.json`, or an empty list if the run has none.
        counts: What became of the rows of each training file, from the `done.json` of
            the step `pairs`; see `TextTable.counts`.
    """

    recipe: dict[str, Any]
    scores: dict[str, Any]
    timings: dict[str, Any]
    histories: dict[str, dict[str, Any]]
    neighbours: list[dict[str, Any]]
    counts: list[dict[str, Any]]


def read_run(folder: str | Path) -> RunFiles:
    """Read the files of a finished run.

    Raises:
        InputError: The folder or one of its files is missing or broken.
    """
    folder = existing_folder(folder, "run folder")
    existing_file(folder / "recipe.toml", "recipe of the run")
    recipe = read_toml(folder / "recipe.toml", "Run the recipe again.")
    stages = list(recipe.get("stages", {}))

    def place(path: Path) -> tuple[int, str]:
        # A further student's stage has that student's name behind the stage's.
        name = path.parent.name
        known = (number for number, it in enumerate(stages) if name.startswith(it))
        return next(known, len(stages)), name

    histories = sorted(folder.glob("stages/*/history.json"), key=place)
    pairs, neighbours = folder / "stages/pairs/done.json", folder / "neighbours.json"
    taken = _read(pairs, {"result": dict})["result"] if pairs.is_file() else {}
    return RunFiles(
        recipe,
        _read(folder / "scores.json", {"recipe": str, "scale": str, "rows": list}),
        _read(folder / "timings.json", {"parts": dict}),
        {path.parent.name: _read(path, HISTORY) for path in histories},
        read_json(neighbours) if neighbours.is_file() else [],
        taken.get("counts", []),
    )


def _read(path: Path, keys: dict[str, type]) -> dict[str, Any]:
    value = read_json(path)
    for key, kind in keys.items():
        content = value.get(key) if isinstance(value, dict) else None
        if not isinstance(content, kind):
            raise InputError(
                f"`{path}` must have the key `{key}`, a {kind.__name__}. "
                f"Received: {content!r:.60}. Run the recipe again."
            )
    return value


def columns(rows: Sequence[ScoreRow]) -> list[str]:
    """Return the keys that hold a number in some row: sizes, scores, then others."""
    numbers = {
        key: value
        for row in rows
        for key, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    known = [key for key in (*SIZES, *score_labels()) if key in numbers]
    return list(dict.fromkeys([*known, *numbers]))


def small_models(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Return the rows that are compared: those of small models, if there are any."""
    return [row for row in rows if row.get("kind") not in BIG] or [*rows]


def best(rows: Sequence[ScoreRow], key: str) -> float | None:
    """Return the highest value of `key` among the small models; None for sizes."""
    scores = [] if key in SIZES else having(small_models(rows), key)
    return max((row[key] for row in scores), default=None)


def primary_score(rows: Sequence[ScoreRow]) -> str | None:
    """Return the score that a verdict is on: the first that a small model has."""
    scores = [key for key in columns(rows) if key not in SIZES]
    return next((key for key in scores if having(small_models(rows), key)), None)


def step_of(row: ScoreRow) -> str:
    """Return the stage that a student's row was scored after, in words."""
    return plain(row.get("stage", "untrained"))


def having(rows: Iterable[ScoreRow], *keys: str) -> list[ScoreRow]:
    """Return the rows that have a value for each key."""
    return [row for row in rows if all(row.get(key) is not None for key in keys)]


def by_student(rows: Sequence[ScoreRow]) -> dict[str, list[ScoreRow]]:
    """Return each student's rows, untrained first, then after each stage."""
    students: dict[str, list[ScoreRow]] = {}
    for row in rows:
        if row.get("kind") in ("untrained", "stage"):
            students.setdefault(row.get("student", "student"), []).append(row)
    return students


def final_rows(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Return the rows without those of a student before its last stage."""
    unfinished = [id(row) for steps in by_student(rows).values() for row in steps[:-1]]
    return [row for row in rows if id(row) not in unfinished]


def measured(scores: dict[str, Any], key: str, model: str = "") -> float | None:
    """Return what the run measured where a paper prints `key`.

    A key is a column of the model's last row by our name or the paper's, or one of its
    tracks: `en_de` is the track `en-de`, `de_de` `de`.

    Args:
        scores: The content of scores.json.
        key: The paper's column.
        model: As for `model_row`.
    """
    kept = scores.get("measured", {})
    row = model_row(scores["rows"], model) or {}
    return kept.get(key, score_of(row, key))


def score_of(row: ScoreRow, key: str) -> float | None:
    """Return a row's score, or size, by the name that a paper's column has."""
    if key in MILLIONS:
        count = row.get("parameters_by_layer", {}).get(MILLIONS[key])
        return None if count is None else count / 1e6
    left, _, right = key.partition("_")
    track = left if left == right else f"{left}-{right}"
    return row.get(our_name(key), row.get("tracks", {}).get(track))


def our_name(key: str) -> str:
    """Return the name of a score in our rows: the paper's `tatoeba` is `retrieval`."""
    return OUR_NAMES.get(key, key)


def model_row(rows: Sequence[ScoreRow], model: str = "") -> ScoreRow | None:
    """Return the last row of a student, or of the rows of a kind.

    Args:
        rows: The rows of scores.json.
        model: Name of a student or of a reduced teacher, or a kind such as "assistant";
            without one the first student, or the assistant where there is none.
    """
    students = by_student(rows)
    name = model or next(iter(students), "assistant")
    of_model = students.get(name) or [
        row for row in rows if name in (row.get("kind"), row.get("student"))
    ]
    return of_model[-1] if of_model else None


def plain(name: str) -> str:
    """Return a name of a file as words: `teach_student` is "teach student"."""
    spoken = name.replace("cross_lingual", "cross-lingual")
    spoken = spoken.replace("_millions", " (M parameters)").replace("_", " ")
    return score_labels().get(name) or spoken


def digits_of(key: str) -> int:
    """Return how many digits behind the point papers print in a column."""
    return 2 if key in MILLIONS else 1


def number(value: float | None, digits: int = 1) -> str:
    """Return a score with that many digits behind the point, nothing for None."""
    return "" if value is None else f"{value:.{digits}f}"


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


def verdict(rows: Sequence[ScoreRow]) -> list[str]:
    r"""Return what each student keeps, in how many bytes, and what was lost where.

    For a run without students it is what training did to the assistant. Scores are of
    the first score that the run has, usually the cross-lingual one.

    Example:
        >>> from keras_msd.report.runs import verdict
        >>> rows = [
        ...     {"name": "closed form", "kind": "closed_form", "cross_lingual": 50.0,
        ...      "bytes": 3_000_000},
        ...     {"name": "assistant", "kind": "assistant", "cross_lingual": 60.0,
        ...      "bytes": 8_000_000},
        ...     {"name": "student, teach_student", "kind": "stage",
        ...      "stage": "teach_student", "cross_lingual": 57.0, "bytes": 4_000_000},
        ... ]
        >>> print(*verdict(rows), sep="\n")
        student keeps 95.0 % of the assistant's cross-lingual score (57.0 of 60.0) ...
        That is 7.0 points above the best closed form of at most its bytes: closed ...
    """
    key = primary_score(rows)
    if key is None:
        return ["This run has no score."]
    scored = having(rows, key)
    assistants = [row for row in scored if row.get("kind") == "assistant"]
    lines = []
    for name, steps in by_student(scored).items():
        lines.append(f"{plain(name)} {_kept(steps[-1], assistants, key)}.")
        lines.append(_closed_form(scored, key, steps[-1]))
        begun = f"{plain(steps[0]['name'])} {number(steps[0][key])}"
        gains = [
            f"{step_of(after)} {after[key] - before[key]:+.1f}"
            for before, after in zip(steps, steps[1:], strict=False)
        ]
        if gains:
            lines.append(f"Step by step: {', '.join([begun, *gains])}.")
    if lines:
        return lines
    first, last = (assistants or scored)[0], (assistants or scored)[-1]
    line = f"{plain(last['name'])} has a {plain(key)} score of {number(last[key])}"
    if first is not last and assistants:
        line += f", {_gap(last[key] - first[key])} {plain(first['name'])}"
    return [f"{line}.", *([_closed_form(scored, key, last)] if assistants else [])]


def _kept(last: ScoreRow, assistants: list[ScoreRow], key: str) -> str:
    """Say what share of the assistant's score and bytes a student has."""
    score, size = plain(key), f" in {last.get('bytes', 0) / 1e6:.1f} MB"
    size = size if last.get("bytes") else ""
    if not assistants or assistants[-1][key] <= 0:
        return f"has a {score} score of {number(last[key])}{size}"
    whole = assistants[-1]
    if size and whole.get("bytes"):
        share = 100 * last["bytes"] / whole["bytes"]
        size += f", {share:.0f} % of its {whole['bytes'] / 1e6:.1f} MB"
    return (
        f"keeps {100 * last[key] / whole[key]:.1f} % of the assistant's {score} score "
        f"({number(last[key])} of {number(whole[key])}){size}"
    )


def _closed_form(rows: Sequence[ScoreRow], key: str, last: ScoreRow) -> str:
    rivals = [
        row
        for row in having(rows, "bytes")
        if row.get("kind") == "closed_form" and row["bytes"] <= last.get("bytes", 0)
    ]
    if not rivals:
        return "No closed form of at most its bytes was scored."
    best = max(rivals, key=lambda row: row[key])
    return (
        f"That is {_gap(last[key] - best[key])} the best closed form of at most its "
        f"bytes: {plain(best['name'])} has {number(best[key])}."
    )


def _gap(points: float) -> str:
    return f"{abs(points):.1f} points {'above' if points >= 0 else 'below'}"
