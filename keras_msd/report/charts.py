"""Charts as SVG text that takes the page's own text colour and font.

A model has one colour in all charts of a page. Axes of scores span at least 20 points,
so that small differences look small.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.optimize import isotonic_regression

from keras_msd.report.score_rows import ScoreRow, by_student, having, plain, step_of

Colours = Mapping[str, str]

# Okabe and Ito's colours: told apart with any colour vision, on white and on black.
STYLE: Any = mpl.rc_params_from_file(
    Path(__file__).with_name("plots.mplstyle"), use_default_template=False
)
PALETTE = STYLE["axes.prop_cycle"].by_key()["color"]
INK = STYLE["text.color"]  # stands for the colour of the page's text
SPAN = 20.0  # points
LEVELS = ("assistant", "closed_form")  # kinds of rows that no stage of a student moves


def as_svg(draw: Callable[..., None]) -> Callable[..., str]:
    """Make a function that draws on axes one that returns SVG text."""

    @wraps(draw)
    def drawn(*given: Any) -> str:
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(4.8, 3.4), layout="constrained")
            draw(figure.subplots(), *given)
            return _svg_text(figure)

    return drawn


def model_of(row: ScoreRow) -> str:
    """Return the model that a row is of: all steps of a student are one."""
    return str(row.get("student") or row["name"])


def colours_of(rows: Sequence[ScoreRow]) -> dict[str, str]:
    """Return a colour for each model of a run, the first ones for students."""
    first = sorted(rows, key=lambda row: "student" not in row)
    models = dict.fromkeys(map(model_of, first))
    return {model: PALETTE[place % len(PALETTE)] for place, model in enumerate(models)}


@as_svg
def sizes(axes: Axes, rows: Sequence[ScoreRow], key: str, colours: Colours) -> None:
    """Draw the scores of finished models over their megabytes."""
    points = [
        (row["bytes"] / 1e6, row[key], plain(row["name"]), colours[model_of(row)])
        for row in rows
    ]
    for size, score, _, colour in points:
        axes.plot(size, score, "o", color=colour)
    axes.set(xlabel="weights, MB", ylabel=f"{plain(key)}, x100", xscale="log")
    _plain_ticks(axes.xaxis)
    axes.margins(x=0.45)
    _span(axes)
    _names(axes, points)


@as_svg
def stage_scores(
    axes: Axes, rows: Sequence[ScoreRow], key: str, colours: Colours
) -> None:
    """Draw a score after each stage, a line a student; other models are level."""
    students = by_student(rows)
    steps = dict.fromkeys(step_of(row) for it in students.values() for row in it)
    places = {step: place for place, step in enumerate(steps)}
    ends = []
    for name, of_student in students.items():
        points = [(places[step_of(row)], row[key]) for row in having(of_student, key)]
        axes.plot(*zip(*points, strict=True), marker="o", color=colours[name])
        ends.append((*points[-1], plain(name), colours[name]))
    for row in having(rows, key):
        if row.get("kind") in LEVELS:
            colour = colours[model_of(row)]
            level = [row[key]] * 2
            axes.plot([-0.3, len(places) - 1], level, color=colour, linestyle="--")
            ends.append((len(places) - 1, row[key], plain(row["name"]), colour))
    steps_shown = [step.replace(" ", "\n") for step in places]
    axes.set_xticks(range(len(places)), steps_shown, fontsize=7)
    axes.set(ylabel=f"{plain(key)}, x100", xlim=(-0.3, 1.5 * len(places) - 0.3))
    _span(axes)
    _names(axes, ends)


@as_svg
def loss_curves(axes: Axes, history: dict[str, Any]) -> None:
    """Draw the loss terms of a stage, one line a term."""
    terms, ends = history["terms"], []
    for (term, values), colour in zip(terms.items(), PALETTE, strict=False):
        marker = "o" if len(values) == 1 else ""
        axes.plot(history["steps"], values, color=colour, marker=marker)
        ends.append((history["steps"][-1], values[-1], plain(term), colour))
    axes.set(xlabel="step", ylabel="loss term")
    axes.margins(x=0.3)
    if all(value > 0 for values in terms.values() for value in values):
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis)
    _names(axes, ends)


def spread(values: Sequence[float], gap: float) -> np.ndarray:
    """Return values moved as little as needed to be at least a gap apart.

    Example:
        >>> from keras_msd.report.charts import spread
        >>> spread([5.0, 1.0, 5.2], 1.0).round(2).tolist()
        [4.6, 1.0, 5.6]
    """
    order, steps = np.argsort(values), gap * np.arange(len(values))
    found = np.empty(len(values))
    found[order] = isotonic_regression(np.take(values, order) - steps).x + steps
    return found


def _names(axes: Axes, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the name of each point at its right, none over another one."""
    heights = [axes.transData.transform((x, y))[1] for x, y, _, _ in points]
    for (x, y, name, colour), height, free in zip(
        points, heights, spread(heights, 14.0), strict=True
    ):
        axes.annotate(
            name, (x, y), (7, (free - height) * 72 / axes.figure.dpi),
            textcoords="offset points", color=colour, va="center", fontsize=8,
        )  # fmt: skip


def _span(axes: Axes) -> None:
    low, high = axes.get_ylim()
    half = max(SPAN, 1.1 * (high - low)) / 2
    axes.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)


def _plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, without powers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _svg_text(figure: Figure) -> str:
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
