"""Rows of a paper as tables: measured beside published."""

from collections.abc import Iterator

from keras_msd.report.blocks import Block, Table, Text
from keras_msd.report.paper_rows import PaperRow, averages, columns
from keras_msd.report.rows import plain

WHAT = ("measured", "published", "difference")


def score_tables(rows: list[PaperRow]) -> Iterator[Block]:
    """Yield a table of the averages and one of the single columns, if there are any."""
    means = averages(rows)
    heads = [f"{plain(key)}, {what}" for key in means for what in WHAT]
    body = [
        [row.name, *(cell for key in means for cell in _cells(row, key)), row.source]
        for row in rows
    ]
    yield Table(["row", *heads, "file"], body)
    tracks = [key for key in columns(rows) if key not in means]
    if tracks:
        yield Text("By column of the paper, measured / published / difference:")
        body = [[row.name, *(_joined(row, key) for key in tracks)] for row in rows]
        yield Table(["row", *map(plain, tracks)], body)


def _cells(row: PaperRow, key: str) -> tuple[str, str, str]:
    own, printed = row.measured.get(key), row.expected.get(key)
    gap = "" if own is None or printed is None else f"{own - printed:+.1f}"
    return _number(own), _number(printed), gap


def _joined(row: PaperRow, key: str) -> str:
    cells = _cells(row, key)
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
