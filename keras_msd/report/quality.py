"""Size against quality over many runs."""

from collections.abc import Iterator
from typing import Any

from keras_msd.report.blocks import Block, Heading, Picture, Table, Text
from keras_msd.report.files import RunFiles
from keras_msd.report.paper_plots import front_of, pareto
from keras_msd.report.rows import final_rows, plain

SCORE = "cross_lingual"


def quality(runs: dict[str, RunFiles]) -> Iterator[Block]:
    """Yield a plot and the models that no smaller one beats, for each test set."""
    sets: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for folder, run in runs.items():
        rows = [
            (folder, row)
            for row in final_rows(run.scores["rows"])
            if row.get(SCORE) is not None and row.get("bytes")
        ]
        if rows:
            sets.setdefault(_test_set(run.recipe), []).extend(rows)
    if sets:
        yield Heading("Quality against size")
        yield Text(
            "Megabytes of the weights in float32 against the cross-lingual score; only "
            "models scored on the same sentences are compared. The table has the "
            "models that no model of their size or less beats."
        )
    for test_set, found in sets.items():
        points = [(row["bytes"] / 1e6, float(row[SCORE])) for _, row in found]
        kinds: dict[str, list[tuple[float, float]]] = {}
        for (_, row), point in zip(found, points, strict=True):
            kinds.setdefault(_kind(row), []).append(point)
        front = front_of(points)
        svg = pareto(kinds, [points[i] for i in front], f"{plain(SCORE)}, x100")
        yield Picture(f"{test_set}: all scores.json of runs with this set", svg)
        yield Table(
            ["model", "MB", plain(SCORE), "file"],
            [
                [
                    plain(found[i][1]["name"]),
                    f"{points[i][0]:,.2f}",
                    f"{points[i][1]:.1f}",
                    f"{found[i][0]}/scores.json",
                ]
                for i in front
            ],
        )


def _test_set(recipe: dict[str, Any]) -> str:
    ours, data = recipe.get("evaluate", {}), recipe.get("data", {})
    languages = ours.get("languages") or data.get("languages", [])
    made = f", seed {data.get('seed')}" if data.get("kind") == "made" else ""
    name = f"{ours.get('sts', 'sts')} {ours.get('split', '')}{made}"
    return f"{name}, English with {', '.join(languages)}"


def _kind(row: dict[str, Any]) -> str:
    kind = row.get("kind", "student")
    return "student" if kind in ("stage", "untrained") else plain(kind)
