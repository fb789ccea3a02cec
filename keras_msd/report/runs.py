"""What a run left: its files, and which model and stage each score row is of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_file, existing_folder
from keras_msd.evaluate.sets import score_labels
from keras_msd.io.files import read_json, read_toml

ScoreRow = dict[str, Any]

HISTORY: dict[str, type] = {"steps": list, "terms": dict}
SIZES = ("parameters", "bytes", "table_bytes")
UNRANKED = (*SIZES, "language_bias")  # a model that knows nothing has no bias, either
BIG = ("teacher", "assistant")


@dataclass(frozen=True)
class RunFiles:
    """The contents of a run's folder.

    Attributes:
        recipe: `recipe.toml`.
        scores: `scores.json`: `recipe`, `scale`, `rows` and `measured`.
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
    """Return the highest value of `key` among the small models; None if unranked."""
    scores = [] if key in UNRANKED else having(small_models(rows), key)
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


def plain(name: str) -> str:
    """Return a name of a file as words: `teach_student` is "teach student"."""
    spoken = name.replace("cross_lingual", "cross-lingual")
    return score_labels().get(name) or spoken.replace("_", " ")


def number(value: float | None) -> str:
    """Return a score with one digit behind the point, nothing for None."""
    return "" if value is None else f"{value:.1f}"


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
    score, size = plain(key), f" in {_megabytes(last.get('bytes', 0))}"
    size = size if last.get("bytes") else ""
    if not assistants or assistants[-1][key] <= 0:
        return f"has a {score} score of {number(last[key])}{size}"
    whole = assistants[-1]
    if size and whole.get("bytes"):
        share = 100 * last["bytes"] / whole["bytes"]
        size += f", {share:.0f} % of its {_megabytes(whole['bytes'])}"
    return (
        f"keeps {100 * last[key] / whole[key]:.1f} % of the assistant's {score} score "
        f"({number(last[key])} of {number(whole[key])}){size}"
    )


def _megabytes(count: int) -> str:
    """Return a size in MB; in kB, if it is less than a tenth of one."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


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
