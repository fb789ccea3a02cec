"""The files of a whole run, put together from what its steps left."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_msd.recipes.steps.plan import (EXPORT, SPEED, Step)
from keras_msd.recipes.schema.recipe import Recipe

Records = Mapping[str, dict[str, Any]]


def scores(recipe: Recipe, steps: Sequence[Step], records: Records) -> dict[str, Any]:
    """Return the content of scores.json.

    Args:
        recipe: The recipe.
        steps: The run's steps, in order.
        records: What each step left, by its name.

    Returns:
        `recipe`, `scale`, `rows` in order, `published`, and `measured`: how much of the
        assistant's cross-lingual score, if that is not 0, each student kept, in per
        cent.
    """
    rows = [dict(step.row) | records[step.name]["result"] for step in steps if step.row]
    return {
        "recipe": recipe.recipe.name,
        "scale": recipe.scale,
        "rows": rows,
        "published": dict(recipe.recipe.expected),
        "measured": dict(_kept(rows)),
    }


def timings(steps: Sequence[Step], records: Records) -> dict[str, Any]:
    """Return the content of timings.json.

    Returns:
        `seconds` in all; `parts` and `steps`, seconds by name; `speed`, sentences a
        second by student; `reused`, for steps taken from another run, the seconds that
        they took there.
    """
    spent = {step.name: records[step.name]["seconds"] for step in steps}
    parts: dict[str, float] = {}
    for step in steps:
        parts[step.part] = round(parts.get(step.part, 0.0) + spent[step.name], 3)
    speed = {
        step.name.removeprefix(SPEED): records[step.name]["result"][
            "sentences_per_second"
        ]
        for step in steps
        if step.name.startswith(SPEED)
    }
    total = round(sum(spent.values()), 3)
    reused = {
        name: record["reused"] for name, record in records.items() if "reused" in record
    }
    found = {"seconds": total, "parts": parts, "steps": spent, "speed": speed}
    return found | {"reused": reused}


def artefacts(steps: Sequence[Step], records: Records) -> list[str]:
    """Return the paths of exported files, relative to the run's folder."""
    return [
        records[step.name]["result"]["path"]
        for step in steps
        if step.name.startswith(EXPORT)
    ]


def _kept(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    assistants = [row for row in rows if row["kind"] == "assistant"]
    if not assistants or not (whole := assistants[-1]["cross_lingual"]):
        return
    last = {row["student"]: row for row in rows if "student" in row}
    for name, row in last.items():
        share = 100 * row["cross_lingual"] / whole
        yield f"kept_{name}", round(share, 4)
