"""The report of many runs: the papers' tables, measured beside published."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from keras_msd.checks import existing_folder
from keras_msd.files import atomic_path
from keras_msd.report import paper_plots
from keras_msd.report.blocks import Block, Heading, Picture, Table, Text
from keras_msd.report.page import whole_page
from keras_msd.report.paper_rows import (
    AVERAGES,
    PaperRow,
    columns,
    curve,
    failures,
    paper_rows,
    read_runs,
)
from keras_msd.report.quality import quality
from keras_msd.report.rows import plain
from keras_msd.report.words import settings_in_words

TITLE = "The papers' tables: measured beside published"
WHAT = ("measured", "published", "difference")


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
    yield Heading("Settings that differ from the paper")
    yield Text("Parts of each recipe.toml that are not as at the recipe's paper scale.")
    for name, run in runs.items():
        yield Heading(name, 3)
        yield from _differences(run.recipe)


def _table(table: str, rows: list[PaperRow]) -> Iterator[Block]:
    figure = table.startswith("figure")
    word = "tables " if " and " in table else "table "
    title = f"{word if table[0].isdigit() else ''}{table}"
    yield Heading(title.capitalize(), 3)
    keys = columns(rows)
    averages = [key for key in keys if key in AVERAGES] or keys
    heads = [f"{plain(key)}, {what}" for key in averages for what in WHAT]
    body = [
        [row.name, *(cell for key in averages for cell in _cells(row, key)), row.source]
        for row in rows
    ]
    yield Table(["row", *heads, "file"], body)
    tracks = [key for key in keys if key not in averages]
    if tracks:
        yield Text("By column of the paper, measured / published / difference:")
        body = [[row.name, *(_joined(row, key) for key in tracks)] for row in rows]
        yield Table(["row", *map(plain, tracks)], body)
    if figure:
        yield from _figure(table, rows)


def _cells(row: PaperRow, key: str) -> tuple[str, str, str]:
    own, printed = row.measured.get(key), row.expected.get(key)
    gap = "" if own is None or printed is None else f"{own - printed:+.1f}"
    return _number(own), _number(printed), gap


def _joined(row: PaperRow, key: str) -> str:
    cells = _cells(row, key)
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _figure(table: str, rows: list[PaperRow]) -> Iterator[Block]:
    curves = {row.name: curve(row) for row in rows}
    curves = {name: points for name, points in curves.items() if points}
    if curves:
        svg = paper_plots.lines(curves, "update", "cross-lingual, x100")
        yield Picture(f"{table}: stages/<stage>/history.json of the runs above", svg)
        return
    for key in columns(rows):
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


def _differences(recipe: dict[str, Any]) -> Iterator[Block]:
    from keras_msd.recipes.folders import recipe_files
    from keras_msd.recipes.loading import load_recipe

    about = recipe.get("recipe", {})
    path = recipe_files().get(about.get("name", ""))
    scales = about.get("scales", [])
    if recipe.get("scale") == "paper":
        yield Text("As published.")
    elif path is None or "paper" not in scales:
        yield Text("The recipe has no paper scale: all of its settings are our own.")
    else:
        here = dict(settings_in_words(recipe))
        there = dict(settings_in_words(load_recipe(path, "paper").settings()))
        rows = [
            [part, here.get(part, "-"), there.get(part, "-")]
            for part in dict.fromkeys([*here, *there])
            if here.get(part) != there.get(part)
        ]
        yield Table(["part", "this run", "paper scale"], rows, words=True)
