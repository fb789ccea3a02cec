"""What a run came to, in sentences."""

from collections.abc import Iterator, Sequence

from keras_msd.report.score_rows import (
    ScoreRow,
    by_student,
    having,
    number,
    plain,
    primary_score,
    step_of,
)


def verdict(rows: Sequence[ScoreRow]) -> list[str]:
    r"""Return what each student keeps, in how many bytes, and what was lost where.

    For a run without students it is what training did to the assistant. Scores are of
    the first score that the run has, usually the cross-lingual one.

    Example:
        >>> from keras_msd.report.verdict import verdict
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
    students = by_student(scored).items()
    found = [
        it for name, steps in students for it in _student(scored, key, name, steps)
    ]
    return found or list(_assistants(scored, key))


def _student(
    rows: Sequence[ScoreRow], key: str, name: str, steps: list[ScoreRow]
) -> Iterator[str]:
    last, score = steps[-1], plain(key)
    line = f"{plain(name)} has a {score} score of {number(last[key])}{_size(last)}"
    assistants = [row for row in rows if row.get("kind") == "assistant"]
    if assistants and (whole := assistants[-1])[key] > 0:
        line = (
            f"{plain(name)} keeps {100 * last[key] / whole[key]:.1f} % of the "
            f"assistant's {score} score ({number(last[key])} of {number(whole[key])})"
            f"{_size(last)}"
        )
        if last.get("bytes") and whole.get("bytes"):
            share = 100 * last["bytes"] / whole["bytes"]
            line += f", {share:.0f} % of its {whole['bytes'] / 1e6:.1f} MB"
    yield f"{line}."
    yield _closed_form(rows, key, last)
    for row in rows:
        if row.get("kind") == "branch" and row.get("student") == name:
            yield (
                f"Its word branch alone, without a body, has {number(row[key])}, so "
                f"the body adds {last[key] - row[key]:+.1f} points."
            )
    gains = [
        f"{step_of(after)} {after[key] - before[key]:+.1f}"
        for before, after in zip(steps, steps[1:], strict=False)
    ]
    if gains:
        first = f"{plain(steps[0]['name'])} {number(steps[0][key])}"
        yield f"Step by step: {', '.join([first, *gains])}."


def _size(row: ScoreRow) -> str:
    return f" in {row['bytes'] / 1e6:.1f} MB" if row.get("bytes") else ""


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


def _assistants(rows: Sequence[ScoreRow], key: str) -> Iterator[str]:
    found = [row for row in rows if row.get("kind") == "assistant"] or [rows[-1]]
    first, last = found[0], found[-1]
    line = f"{plain(last['name'])} has a {plain(key)} score of {number(last[key])}"
    if first is not last:
        line += f", {_gap(last[key] - first[key])} {plain(first['name'])}"
    yield f"{line}."
    if last.get("kind") == "assistant":
        yield _closed_form(rows, key, last)
