"""What the score rows of a run are: which model, after which stage."""

from collections.abc import Iterable, Sequence
from typing import Any

from keras_msd.evaluate.sets import score_labels

ScoreRow = dict[str, Any]


# What papers call the column of a score, and its name in our rows.
OUR_NAMES = {"tatoeba": "retrieval", "un_avg": "un", "bucc_avg": "bucc"}
SIZES = ("parameters", "bytes", "table_bytes")
BIG = ("teacher", "assistant")
# Columns in which papers print millions of parameters, and the layer that has them.
MILLIONS = {"embedding_millions": "embedding", "encoder_millions": "body"}


def in_order(names: Iterable[str], first: Iterable[str]) -> list[str]:
    """Return names, each once: those of `first` that occur, then the others."""
    given = dict.fromkeys(names)
    return list(dict.fromkeys([*(name for name in first if name in given), *given]))


def columns(rows: Sequence[ScoreRow]) -> list[str]:
    """Return the keys that hold a number in some row: sizes, scores, then others."""
    numbers = (
        key
        for row in rows
        for key, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    return in_order(numbers, (*SIZES, *score_labels()))


def best(rows: Sequence[ScoreRow], key: str) -> float | None:
    """Return the highest value of `key` among the small models; None for sizes."""
    if key in SIZES:
        return None
    small = [row for row in rows if row.get("kind") not in BIG]
    return max((row[key] for row in having(small or rows, key)), default=None)


def primary_score(rows: Sequence[ScoreRow]) -> str | None:
    """Return the score that a verdict is on: the first that a small model has."""
    scores = [key for key in columns(rows) if key not in SIZES]
    small = [row for row in rows if row.get("kind") not in BIG]
    return next((key for key in scores if having(small or rows, key)), None)


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
