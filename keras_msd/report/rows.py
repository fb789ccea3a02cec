"""What the score rows of a run are: which model, after which stage."""

from typing import Any

SCORES = (
    "cross_lingual", "monolingual", "retrieval", "retrieval_others", "un", "bucc",
)  # fmt: skip
SIZES = ("parameters", "bytes", "table_bytes")
BIG = ("teacher", "assistant")
ALIASES = {
    "tatoeba": "retrieval",
    "un_avg": "un",
    "bucc_avg": "bucc",
}  # what papers call a column of ours
LABELS = {
    "retrieval_others": "retrieval, other languages",
    "un": "UN",
    "bucc": "BUCC",
}


def columns(rows: list[dict[str, Any]]) -> list[str]:
    """Return the keys that hold a number in some row: sizes, scores, then others."""
    found = {
        key: None
        for row in rows
        for key, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    first = [key for key in (*SIZES, *SCORES) if key in found]
    return first + [key for key in found if key not in first]


def best(rows: list[dict[str, Any]], key: str) -> float | None:
    """Return the highest value of `key` among the small models; None for sizes."""
    if key in SIZES:
        return None
    small = [row for row in rows if row.get("kind") not in BIG]
    values = [row[key] for row in small or rows if row.get(key) is not None]
    return max(values, default=None)


def by_student(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return each student's rows, untrained first, then after each stage."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("kind") in ("untrained", "stage"):
            found.setdefault(row.get("student", "student"), []).append(row)
    return found


def final_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without those of a student before its last stage."""
    unfinished = [id(row) for own in by_student(rows).values() for row in own[:-1]]
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


def score_of(row: dict[str, Any], key: str) -> float | None:
    """Return a row's score by the name that a paper's column has."""
    tracks = row.get("tracks", {})
    left, _, right = key.partition("_")
    name = left if left == right else f"{left}-{right}"
    return row.get(our_name(key), tracks.get(name))


def our_name(key: str) -> str:
    """Return the name of a score in our rows: the paper's `tatoeba` is `retrieval`."""
    return ALIASES.get(key, key)


def model_row(rows: list[dict[str, Any]], model: str = "") -> dict[str, Any] | None:
    """Return the last row of a student, or of the rows of a kind.

    Args:
        rows: The rows of scores.json.
        model: Name of a student or of a reduced teacher, or a kind such as "assistant";
            without one the first student, or the assistant where there is none.
    """
    students = by_student(rows)
    name = model or next(iter(students), "assistant")
    own = students.get(name) or [
        row for row in rows if name in (row.get("kind"), row.get("student"))
    ]
    return own[-1] if own else None


def plain(name: str) -> str:
    """Return a name of a file as words: `teach_student` is "teach student"."""
    return LABELS.get(name) or name.replace("cross_lingual", "cross-lingual").replace(
        "_", " "
    )
