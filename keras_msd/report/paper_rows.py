"""Which rows of which papers' tables the runs in a folder have measured."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from keras_msd.files import read_json
from keras_msd.report.files import RunFiles, read_run
from keras_msd.report.rows import measured, our_name

NO_TABLE = ("", "none")
# Figures that are drawn from a table's numbers.
FIGURES = {("LEALLA", "6"): "figure 1", ("LEALLA", "8"): "figure 3"}
AVERAGES = (
    "monolingual", "cross_lingual", "retrieval", "retrieval_others", "un", "bucc",
)  # fmt: skip


@dataclass(frozen=True)
class PaperRow:
    """A row of a paper's table.

    Attributes:
        paper: The paper.
        table: The table or figure, such as "3 and 4" or "figure 1"; of `run_rows` all
            that the row stands in, with semicolons.
        name: The row.
        model: The model of the run, empty for the only one.
        expected: Published scores by our names.
        measured: Measured ones by the same names; those of the run's row where the
            paper prints none.
        x: Place on a figure's axis.
        run: The run.
        folder: Its folder.
    """

    paper: str
    table: str
    name: str
    model: str
    expected: dict[str, float]
    measured: dict[str, float]
    x: float | None
    run: RunFiles
    folder: str

    @property
    def source(self) -> str:
        """The file that the measured numbers come from."""
        return str(PurePosixPath(self.folder, "scores.json"))


def read_runs(out_dir: Path) -> dict[str, RunFiles]:
    """Return the finished runs in a folder, by the names of their folders."""
    found = sorted(path.parent for path in out_dir.glob("*/scores.json"))
    return {folder.name: read_run(folder) for folder in found}


def failures(out_dir: Path) -> dict[str, str]:
    """Return what `run_all` could not run last time, with the error."""
    path = out_dir / "results.json"
    results = read_json(path) if path.is_file() else []
    return {one["recipe"]: one["error"] for one in results if "error" in one}


def paper_rows(runs: dict[str, RunFiles]) -> list[PaperRow]:
    """Return all rows, papers in order of their names, tables in that of the paper."""
    rows = [
        replace(row, table=table)
        for folder, run in runs.items()
        for row in run_rows(run, folder)
        for table in _tables(row.paper, row.table)
    ]
    return sorted(rows, key=lambda row: (row.paper, table_order(row.table)))


def table_order(table: str) -> tuple[bool, list[int]]:
    """Return a key that puts tables before figures, each by number."""
    return table.startswith("figure"), [int(n) for n in re.findall(r"\d+", table)]


def columns(rows: Iterable[PaperRow]) -> list[str]:
    """Return the scores that some row has, averages first."""
    found = dict.fromkeys(key for row in rows for key in row.measured)
    first = [key for key in AVERAGES if key in found]
    return first + [key for key in found if key not in first]


def averages(rows: Iterable[PaperRow]) -> list[str]:
    """Return the averages among `columns`, or those where there is none."""
    found = columns(rows)
    return [key for key in found if key in AVERAGES] or found


def curve(row: PaperRow) -> list[tuple[int, float]]:
    """Return (update, cross-lingual score) of the last stage that has a curve."""
    suffix = row.model.removeprefix("student")
    points: list[tuple[int, float]] = []
    for stage in row.run.recipe.get("stages", {}):
        scores = row.run.histories.get(f"{stage}{suffix}", {}).get("scores")
        if scores:
            values = zip(scores["steps"], scores["cross_lingual"], strict=True)
            points = list(values)
    return points


def run_rows(run: RunFiles, folder: str = "") -> Iterator[PaperRow]:
    """Yield the rows that one run has of its paper, each once."""
    about = run.recipe.get("recipe", {})
    own = about.get("rows") or {
        "": {
            "table": about.get("table", ""),
            "row": about.get("row", ""),
            "expected": about.get("expected", {}),
        }
    }
    for model, row in own.items():
        printed = row.get("expected", {})
        expected = {our_name(key): value for key, value in printed.items()}
        yield PaperRow(
            paper=about.get("paper", ""),
            table=row["table"],
            name=row["row"],
            model=model,
            expected=expected,
            measured=dict(_measured(run, model, expected)),
            x=row.get("x"),
            run=run,
            folder=folder,
        )


def _tables(paper: str, tables: str) -> list[str]:
    found = [one.strip() for one in tables.split(";") if one.strip() not in NO_TABLE]
    drawn = [
        figure
        for (title, table), figure in FIGURES.items()
        if title in paper and table in found and figure not in found
    ]
    return found + drawn


def _measured(
    run: RunFiles, model: str, expected: dict[str, float]
) -> Iterator[tuple[str, Any]]:
    for key in expected or AVERAGES:
        value = measured(run.scores, key, model)
        if expected or value is not None:
            yield key, value
