"""The report of many runs: what each came to, and the papers' tables."""

from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from keras_msd.checks import existing_folder
from keras_msd.files import read_json
from keras_msd.report.files import RunFiles, read_run
from keras_msd.report.one_run import PUBLISHED
from keras_msd.report.page import Html, heading, paragraph, table, write_page
from keras_msd.report.published import published_rows
from keras_msd.report.verdict import verdict

TITLE = "All runs"


def write_report_of_all(out_dir: str | Path) -> Path:
    """Write `report.html` over the runs in a folder.

    It has the verdict of each run with a link to its own report, the recipes that
    failed, and the scores that papers print beside those measured, paper by paper.

    Args:
        out_dir: Parent of the runs' folders, as `run_all` leaves it.

    Returns:
        The path of `report.html`.

    Raises:
        InputError: The folder is missing, or a file of a run is broken.

    Example:
        >>> results = msd.recipes.run_all(["msd_labb"], out_dir="runs")
        >>> page = msd.report.write_report_of_all("runs").read_text()
        >>> "There is no recipe `msd_labb`. Did you mean" in page
        True
    """
    folder = existing_folder(out_dir, "folder of runs")
    return write_page(folder / "report.html", TITLE, _parts(folder))


def _parts(folder: Path) -> Iterator[str]:
    finished = sorted(path.parent for path in folder.glob("*/scores.json"))
    runs = {run_folder.name: read_run(run_folder) for run_folder in finished}
    scales = sorted({run.scores["scale"] for run in runs.values()})
    yield heading(TITLE, 1)
    yield paragraph(
        f"{len(runs)} finished runs, scale {', '.join(scales) or 'none'}. Scores are "
        "x100. Another scale and other test sentences give other numbers."
    )
    results = folder / "results.json"
    failed = [
        [result["recipe"], result["error"]]
        for result in (read_json(results) if results.is_file() else [])
        if "error" in result
    ]
    if failed:
        yield heading("Recipes that failed")
        yield table(["recipe", "error (results.json)"], failed, words=True)
    if runs:
        yield heading("What each came to")
        yield table(
            ["run", "verdict (scores.json)"],
            (
                [_linked(name), verdict(it.scores["rows"])[0]]
                for name, it in runs.items()
            ),
            words=True,
        )
    yield from _papers(runs)


def _linked(name: str) -> Html:
    return Html(f"<a href='{escape(name)}/report.html'>{escape(name)}</a>")


def _papers(runs: dict[str, RunFiles]) -> Iterator[str]:
    rows = [row for run in runs.values() for row in published_rows(run)]
    rows.sort(key=lambda row: (row.paper, row.table))
    for paper, of_paper in groupby(rows, key=lambda row: row.paper):
        yield heading(paper or "Without a paper")
        for name, found in groupby(of_paper, key=lambda row: row.table):
            yield heading(f"Tables and figures: {name}" if name else "Its own", 3)
            yield table(PUBLISHED, (cells for row in found for cells in row.cells()))
