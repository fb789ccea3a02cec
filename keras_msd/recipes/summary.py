"""What a run gave: scores.json, timings.json, the report."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_msd.evaluate.splits import named
from keras_msd.files import write_json
from keras_msd.recipes.cache import Step
from keras_msd.recipes.loading import Recipe

Records = Mapping[str, dict[str, Any]]
KEEP, SPEED, EXPORT = "keep_", "speed_", "export_"  # begin the names of steps


def write_summary(
    recipe: Recipe,
    where: Path,
    steps: Sequence[Step],
    records: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Write the files of the whole run and return what they say."""
    from keras_msd.report import write_report

    scores = run_scores(recipe, steps, records)
    timings = run_timings(steps, records)
    write_json(where / "scores.json", scores)
    write_json(where / "timings.json", timings)
    exported = _results(records, EXPORT)
    return scores | {
        "folder": str(where),
        "timings": timings,
        "budget": dict(recipe.budget),
        "artefacts": [str(where / result["path"]) for result in exported.values()],
        "report": str(write_report(where)),
    }


def run_scores(
    recipe: Recipe, steps: Sequence[Step], records: Records
) -> dict[str, Any]:
    """Return the content of scores.json.

    Args:
        recipe: The recipe.
        steps: The run's steps, in order.
        records: What each step left, by its name.

    Returns:
        `recipe`, `scale`, `part` if it is a half, `rows` in order, `published`, and
        `measured`: how much of the assistant's cross-lingual score, if that is not 0,
        each student kept, in per cent.
    """
    rows = [dict(step.row) | records[step.name]["result"] for step in steps if step.row]
    return {
        "recipe": recipe.recipe.name,
        "scale": recipe.scale,
        **named(recipe.evaluate.part),
        "rows": rows,
        "published": dict(recipe.recipe.expected),
        "measured": dict(_kept(rows)),
    }


def run_timings(steps: Sequence[Step], records: Records) -> dict[str, Any]:
    """Return the content of timings.json.

    Returns:
        `seconds` in all; `parts` and `steps`, seconds by name; `speed`, sentences a
        second by student; `reused`, for steps taken from another run, the seconds that
        they took there.
    """
    spent = {name: record["seconds"] for name, record in records.items()}
    parts: dict[str, float] = {}
    for step in steps:
        parts[step.part] = round(parts.get(step.part, 0.0) + spent[step.name], 3)
    timed = _results(records, SPEED).items()
    return {
        "seconds": round(sum(spent.values()), 3),
        "parts": parts,
        "steps": spent,
        "speed": {name: result["sentences_per_second"] for name, result in timed},
        "reused": {
            name: record["reused"]
            for name, record in records.items()
            if "reused" in record
        },
    }


def _results(records: Records, prefix: str) -> dict[str, Any]:
    """Return the results of the steps of one kind, by what follows in their names."""
    return {
        name.removeprefix(prefix): record["result"]
        for name, record in records.items()
        if name.startswith(prefix)
    }


def _kept(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    assistants = [row for row in rows if row["kind"] == "assistant"]
    if not assistants or not (whole := assistants[-1].get("cross_lingual")):
        return
    last = {row["student"]: row for row in rows if "student" in row}
    for name, row in last.items():
        share = 100 * row["cross_lingual"] / whole
        yield f"kept_{name}", round(share, 4)
