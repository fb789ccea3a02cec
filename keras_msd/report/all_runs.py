"""The report of many runs: the papers' tables, measured beside published."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from keras_msd.checks import existing_folder
from keras_msd.files import atomic_path
from keras_msd.report import paper_plots
from keras_msd.report.blocks import Block, Heading, Picture, Table, Text
from keras_msd.report.differences import differences
from keras_msd.report.page import whole_page
from keras_msd.report.paper_rows import (
    PaperRow,
    averages,
    curve,
    failures,
    paper_rows,
    read_runs,
)
from keras_msd.report.paper_tables import score_tables
from keras_msd.report.quality import quality
from keras_msd.report.rows import plain

TITLE = "The papers' tables: measured beside published"


def write_report_of_all(out_dir: str | Path) -> Path:
    """Write `report.html` and `report.md` over the runs in a folder.

    For every table of the papers that a finished run has a row of: measured, published
    and difference, the settings that differ from the recipe's `paper` scale in words,
    the papers' figures as plots, and quality against size. Every number comes from a
    file in a run's folder, and the file stands beside it. The same files give the same
    bytes.

    Args:
        out_dir: Parent of the runs' folders, as `run_all` leaves it.

    Returns:
        The path of `report.html`.

    Raises:
        InputError: The folder is missing, or a file of a run is broken.
    """
    folder = existing_folder(out_dir, "folder of runs")
    blocks = list(_blocks(folder))
    body = "".join(block.html() for block in blocks)
    pages = {
        "report.html": whole_page(TITLE, body),
        "report.md": "\n".join(block.markdown() for block in blocks),
    }
    for name, page in pages.items():
        with atomic_path(folder / name) as temporary:
            temporary.write_text(page, encoding="utf-8")
    return folder / "report.html"


def _blocks(folder: Path) -> Iterator[Block]:
    runs, failed = read_runs(folder), failures(folder)
    yield Heading(TITLE, 1)
    scales = sorted({run.scores["scale"] for run in runs.values()})
    yield Text(
        f"{len(runs)} finished runs, scale {', '.join(scales) or 'none'}. Scores are "
        "x100. Measured numbers come from the file named in the row, published ones "
        "from `recipe.expected` or `recipe.rows` in the recipe.toml beside it. Another "
        "scale and other test sentences give other numbers: see the settings below."
    )
    if failed:
        yield Heading("Recipes that failed")
        errors = [[name, error] for name, error in failed.items()]
        yield Table(["recipe", "error (results.json)"], errors, words=True)
    for paper, own in groupby(paper_rows(runs), key=lambda row: row.paper):
        yield Heading(paper or "Without a paper")
        for table, rows in groupby(own, key=lambda row: row.table):
            yield from _table(table, list(rows))
    yield from quality(runs)
    yield from differences({name: run.recipe for name, run in runs.items()})


def _table(table: str, rows: list[PaperRow]) -> Iterator[Block]:
    figure = table.startswith("figure")
    word = "tables " if " and " in table else "table "
    title = f"{word if table[0].isdigit() else ''}{table}"
    yield Heading(title.capitalize(), 3)
    yield from score_tables(rows)
    if figure:
        yield from _figure(table, rows)


def _figure(table: str, rows: list[PaperRow]) -> Iterator[Block]:
    curves = {row.name: curve(row) for row in rows}
    curves = {name: points for name, points in curves.items() if points}
    if curves:
        svg = paper_plots.lines(curves, "update", "cross-lingual, x100")
        yield Picture(f"{table}: stages/<stage>/history.json of the runs above", svg)
        return
    for key in averages(rows):
        own = [(row, row.measured.get(key), row.expected.get(key)) for row in rows]
        series: dict[str, Any] = {}
        placed = all(row.x is not None for row in rows)
        for label, values in (
            ("measured", [(row, value) for row, value, _ in own]),
            ("published", [(row, value) for row, _, value in own]),
        ):
            points = [
                (row.x if placed else row.name, value)
                for row, value in values
                if value is not None
            ]
            if points:
                series[label] = sorted(points) if placed else dict(points)
        if series and placed:
            svg = paper_plots.lines(series, table, f"{plain(key)}, x100")
        elif series:
            svg = paper_plots.bars(series, f"{plain(key)}, x100")
        else:
            continue
        yield Picture(f"{table}: {plain(key)}, from the files above", svg)
