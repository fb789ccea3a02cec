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

SAME = 0.05  # points under which two scores are called equal


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
        A closed form of at most its bytes does worse: closed form has 50.0, 7.0 ...
    """
    key = primary_score(rows)
    if key is None:
        return ["This run has no score."]
    students = {
        name: found
        for name, steps in by_student(rows).items()
        if (found := having(steps, key))
    }
    if not students:
        return list(_assistants(rows, key))
    return [line for name in students for line in _student(rows, key, name, students)]


def _student(
    rows: Sequence[ScoreRow], key: str, name: str, students: dict[str, list[ScoreRow]]
) -> Iterator[str]:
    steps, last = students[name], students[name][-1]
    whole = _last(rows, "assistant", key)
    size = f"{last['bytes'] / 1e6:.1f} MB" if last.get("bytes") else ""
    if whole and whole[key] > 0:
        line = (
            f"{plain(name)} keeps {100 * last[key] / whole[key]:.1f} % of the "
            f"assistant's {plain(key)} score ({number(last[key])} of "
            f"{number(whole[key])})"
        )
        if size and whole.get("bytes"):
            line += f" in {size}, {100 * last['bytes'] / whole['bytes']:.0f} % of its"
            line += f" {whole['bytes'] / 1e6:.1f} MB"
    else:
        line = f"{plain(name)} has a {plain(key)} score of {number(last[key])}"
        line += f" in {size}" if size else ""
    yield f"{line}."
    yield _closed_form(rows, key, last)
    branches = [row for row in having(rows, key) if row.get("kind") == "branch"]
    for row in branches:
        if row.get("student") == name:
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


def _closed_form(rows: Sequence[ScoreRow], key: str, last: ScoreRow) -> str:
    rivals = [
        row
        for row in having(rows, key, "bytes")
        if row.get("kind") == "closed_form" and row["bytes"] <= last.get("bytes", 0)
    ]
    if not rivals:
        return "No closed form of at most its bytes was scored."
    rival = max(rivals, key=lambda row: row[key])
    gap = last[key] - rival[key]
    name, score = plain(rival["name"]), number(rival[key])
    if abs(gap) < SAME:
        return f"A closed form of at most its bytes does as well: {name} has {score}."
    better = "worse" if gap > 0 else "better"
    side = "lower" if gap > 0 else "higher"
    return (
        f"A closed form of at most its bytes does {better}: {name} has {score}, "
        f"{abs(gap):.1f} points {side}."
    )


def _assistants(rows: Sequence[ScoreRow], key: str) -> Iterator[str]:
    found = [row for row in having(rows, key) if row.get("kind") == "assistant"]
    if not found:
        row = having(rows, key)[-1]
        yield f"{plain(row['name'])} has a {plain(key)} score of {number(row[key])}."
        return
    first, last = found[0], found[-1]
    line = f"{plain(last['name'])} has a {plain(key)} score of {number(last[key])}"
    if first is not last:
        gap = last[key] - first[key]
        side = "above" if gap >= 0 else "below"
        line += f", {abs(gap):.1f} points {side} {plain(first['name'])}"
    yield f"{line}."
    yield _closed_form(rows, key, last)


def _last(rows: Sequence[ScoreRow], kind: str, key: str) -> ScoreRow | None:
    found = [row for row in having(rows, key) if row.get("kind") == kind]
    return found[-1] if found else None
