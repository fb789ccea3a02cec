"""The report of many runs: the papers' tables, measured beside published."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from os.path import commonprefix
from pathlib import Path
from typing import Any

from keras_msd.checks import existing_folder
from keras_msd.evaluate.rows import asked_sets
from keras_msd.files import read_json
from keras_msd.report import plots
from keras_msd.report.blocks import (
    Block,
    Heading,
    Picture,
    Table,
    Text,
    whole_page,
    write_page,
)
from keras_msd.report.differences import NO_PAPER_SCALE, OURS, Line, differences
from keras_msd.report.files import RunFiles, read_run
from keras_msd.report.paper_tables import (
    MeasuredRow,
    averages,
    paper_rows,
    score_tables,
)
from keras_msd.report.score_rows import final_rows, having, number, plain

TITLE = "The papers' tables: measured beside published"
SCORE = "cross_lingual"


def write_report_of_all(out_dir: str | Path) -> Path:
    """Write `report.html` and `report.md` over the runs in a folder.

    For every table of the papers that a finished run has a row of: measured, published
    and, where both are of the same test set, difference; the settings that differ from
    the paper in words, the papers' figures as plots, and quality against size. Every
    number comes from a file in a run's folder, and the file stands beside it. The same
    files give the same bytes.

    Args:
        out_dir: Parent of the runs' folders, as `run_all` leaves it.

    Returns:
        The path of `report.html`.

    Raises:
        InputError: The folder is missing, or a file of a run is broken.

    Example:
        >>> results = msd.recipes.run_all(["msd_labb"], out_dir="runs")
        >>> page = msd.report.write_report_of_all("runs")
        >>> print(page.with_suffix(".md").read_text())
        # The papers' tables: measured beside published
        <BLANKLINE>
        0 finished runs, scale none. ...
        | msd_labb | InputError: There is no recipe `msd_labb`. Did you mean ...
    """
    folder = existing_folder(out_dir, "folder of runs")
    blocks = list(_blocks(folder))
    body = "".join(block.html() for block in blocks)
    write_page(folder / "report.md", "\n".join(block.markdown() for block in blocks))
    return write_page(folder / "report.html", whole_page(TITLE, body))


def _blocks(folder: Path) -> Iterator[Block]:
    finished = sorted(path.parent for path in folder.glob("*/scores.json"))
    runs = {run_folder.name: read_run(run_folder) for run_folder in finished}
    scales = sorted({run.scores["scale"] for run in runs.values()})
    yield Heading(TITLE, 1)
    yield Text(
        f"{len(runs)} finished runs, scale {', '.join(scales) or 'none'}. Scores are "
        "x100. Measured numbers come from the file named in the row, published ones "
        "from `recipe.expected` or `recipe.rows` in the recipe.toml beside it. Another "
        "scale and other test sentences give other numbers: see the settings below."
    )
    results = folder / "results.json"
    failed = [
        [result["recipe"], result["error"]]
        for result in (read_json(results) if results.is_file() else [])
        if "error" in result
    ]
    if failed:
        yield Heading("Recipes that failed")
        yield Table(["recipe", "error (results.json)"], failed, words=True)
    for paper, of_paper in groupby(paper_rows(runs), key=lambda row: row.paper):
        yield Heading(paper or "Without a paper")
        for table, rows in groupby(of_paper, key=lambda row: row.table):
            yield from _table(table, list(rows))
    yield from _quality(runs)
    yield from _differences({name: run.recipe for name, run in runs.items()})


def _table(table: str, rows: list[MeasuredRow]) -> Iterator[Block]:
    word = "tables " if " and " in table else "table "
    title = f"{word if table[0].isdigit() else ''}{table}"
    yield Heading(title.capitalize(), 3)
    yield from score_tables(rows)
    if table.startswith("figure"):
        yield from _figure(table, rows)


def _figure(table: str, rows: list[MeasuredRow]) -> Iterator[Block]:
    curves = {row.name: row.curves() for row in rows}
    keys = dict.fromkeys(key for of_row in curves.values() for key in of_row)
    for key in keys:
        lines = {name: of_row[key] for name, of_row in curves.items() if key in of_row}
        svg = plots.lines(lines, "update", f"{plain(key)}, x100")
        files = "stages/<stage>/history.json of the runs above"
        yield Picture(f"{table}: {plain(key)} by update, {files}", svg)
    if keys:
        return
    placed = all(row.x is not None for row in rows)
    for key in averages(rows):
        series: dict[str, Any] = {}
        other = any(row.other_set(key) for row in rows)
        published = "published, of another set" if other else "published"
        for label, kind in (("measured", "measured"), (published, "published")):
            points: list[tuple[Any, Any]] = [
                (row.x if placed else row.name, score)
                for row in rows
                if (score := getattr(row, kind).get(key)) is not None
            ]
            if points:
                series[label] = sorted(points) if placed else dict(points)
        title = f"{plain(key)}, x100"
        if series:
            draw = partial(plots.lines, x=table) if placed else plots.bars
            caption = f"{table}: {plain(key)}, from the files above"
            yield Picture(caption, draw(series, y=title))


def _quality(runs: dict[str, RunFiles]) -> Iterator[Block]:
    """Yield a plot and the models that no smaller one beats, for each test set."""
    models: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for folder, run in runs.items():
        for row in having(final_rows(run.scores["rows"]), SCORE):
            if row.get("bytes"):
                models.setdefault(_test_set(run.recipe), []).append((folder, row))
    if models:
        yield Heading("Quality against size")
        yield Text(
            "Megabytes of the weights in float32 against the cross-lingual score; only "
            "models scored on the same sentences are compared. The table has the "
            "models that no model of their size or less beats."
        )
    for test_set, of_set in models.items():
        points = [(row["bytes"] / 1e6, float(row[SCORE])) for _, row in of_set]
        kinds: dict[str, list[tuple[float, float]]] = {}
        for (_, row), point in zip(of_set, points, strict=True):
            kinds.setdefault(_kind(row), []).append(point)
        front = plots.front_of(points)
        svg = plots.sizes(kinds, f"{plain(SCORE)}, x100", [points[i] for i in front])
        yield Picture(f"{test_set}: all scores.json of runs with this set", svg)
        best = [
            [plain(row["name"]), f"{size:,.2f}", number(score), f"{folder}/scores.json"]
            for (folder, row), (size, score) in ((of_set[i], points[i]) for i in front)
        ]
        yield Table(["model", "MB", plain(SCORE), "file"], best)


def _test_set(recipe: dict[str, Any]) -> str:
    data = recipe.get("data", {})
    seed = f", seed {data.get('seed')}" if data.get("kind") == "made" else ""
    sets = asked_sets(recipe)
    asked = next((it for it in sets if it.record.similarity), None)
    name = asked.words if asked else "sts"
    languages = asked.languages if asked else data.get("languages", [])
    return f"{name}{seed}, English with {', '.join(languages)}"


def _kind(row: dict[str, Any]) -> str:
    kind = row.get("kind", "student")
    return "student" if kind in ("stage", "untrained") else plain(kind)


def _differences(recipes: dict[str, dict[str, Any]]) -> Iterator[Block]:
    """Yield what each run has that its paper has not."""
    yield Heading("Settings that differ from the paper")
    yield Text("Parts of each recipe.toml that are not as at the recipe's paper scale.")
    reasoned: dict[Line, list[str]] = {}
    for name, recipe in recipes.items():
        found = differences(recipe)
        for line in found.ours if found else ():
            reasoned.setdefault(line, []).append(name)
        yield Heading(name, 3)
        yield found.block() if found else Text(NO_PAPER_SCALE)
    if reasoned:
        yield Heading("Not the paper's at the paper scale", 3)
        rows = [[_in_short(of, list(recipes)), *it] for it, of in reasoned.items()]
        yield Table(["recipes", *OURS], rows, words=True)


def _in_short(names: list[str], known: list[str]) -> str:
    """Return names, or how they begin and which others that begin so are not meant."""
    start = commonprefix(names)
    others = [name for name in known if name.startswith(start) and name not in names]
    if not start or len(names) <= 3 + len(others):
        return ", ".join(names)
    return f"{start}*" + (f" but {', '.join(others)}" if others else "")
