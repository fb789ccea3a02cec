"""Figures as SVG text that takes the page's own text colour and font."""

import warnings
from collections.abc import Iterable
from io import StringIO
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from keras_msd.report.rows import by_student, final_rows, plain

INK = "#010203"  # stands for the colour of the page's text
# Okabe and Ito's colours: told apart with any colour vision, on white and on black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888")
MARKERS = "osD^vP*X"
LEVELS = ("assistant", "closed_form")  # kinds of rows that no stage of a student moves
STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.facecolor": "none",
    "axes.prop_cycle": cycler(color=COLOURS),
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "legend.frameon": False,
    "figure.facecolor": "none",
}


def loss_curves(stage: str, history: dict[str, Any]) -> str:
    """Return the curves of a stage's loss terms, one line a term."""
    terms = history["terms"]
    with mpl.rc_context(STYLE | {"svg.hashsalt": f"loss {stage}"}):
        figure, axes = new_figure("step", "loss term")
        for term, values in terms.items():
            marker = "o" if len(values) == 1 else None
            axes.plot(
                history["steps"],
                values,
                label=plain(term),
                marker=marker,
                linewidth=1.4,
            )
        if all(value > 0 for values in terms.values() for value in values):
            axes.set_yscale("log")
            plain_ticks(axes.yaxis)
        add_legend(axes)
        return to_svg(figure)


def stage_scores(rows: list[dict[str, Any]], key: str) -> str:
    """Return `key` after each stage, a line a student; other models are level lines."""
    students = by_student(rows)
    names = list(dict.fromkeys(_step(row) for own in students.values() for row in own))
    with mpl.rc_context(STYLE | {"svg.hashsalt": f"stages {key}"}):
        figure, axes = new_figure("", f"{plain(key)}, x100")
        for name, own in students.items():
            points = [(names.index(_step(r)), r[key]) for r in own if _has(r, key)]
            axes.plot(*zip(*points, strict=True), marker="o", label=plain(name))
        levels = [row for row in rows if row.get("kind") in LEVELS and _has(row, key)]
        colours = _cycle(COLOURS[len(students) :] + COLOURS, levels)
        for row, colour in zip(levels, colours, strict=True):
            axes.axhline(
                row[key],
                color=colour,
                linestyle="--",
                linewidth=1.2,
                label=plain(row["name"]),
            )
        axes.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
        axes.margins(x=0.1)
        add_legend(axes)
        return to_svg(figure)


def size_against(rows: list[dict[str, Any]], key: str) -> str:
    """Return `key` over the bytes of the weights, a point a finished model."""
    rows = [row for row in final_rows(rows) if _has(row, key) and row.get("bytes")]
    with mpl.rc_context(STYLE | {"svg.hashsalt": f"size {key}"}):
        figure, axes = new_figure("weights, MB", f"{plain(key)}, x100")
        for row, marker, colour in zip(
            rows, _cycle(MARKERS, rows), _cycle(COLOURS, rows), strict=True
        ):
            axes.plot(
                row["bytes"] / 1e6,
                row[key],
                marker,
                color=colour,
                markersize=8,
                label=plain(row["name"]),
            )
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.margins(0.15)
        add_legend(axes)
        return to_svg(figure)


def new_figure(x: str, y: str) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes of these titles."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, without powers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def add_legend(axes: Axes) -> None:
    """Put the legend below the axes."""
    axes.figure.legend(loc="outside lower center", ncols=2)


def to_svg(figure: Figure) -> str:
    """Return a figure as SVG text without a date, in the page's colours."""
    text = StringIO()
    with warnings.catch_warnings():
        # The browser picks the font, so it does not matter what matplotlib's has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # Without these four there is no metadata block, hence no date in the file.
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", metadata=nothing)
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


def _cycle(values: Any, items: Iterable[Any]) -> list[Any]:
    return [values[place % len(values)] for place, _ in enumerate(items)]


def _has(row: dict[str, Any], key: str) -> bool:
    return row.get(key) is not None


def _step(row: dict[str, Any]) -> str:
    return plain(row.get("stage", "untrained"))
