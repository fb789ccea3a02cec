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
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from keras_msd.report.runs import ScoreRow, by_student, having, plain, step_of

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
    for row in rows:
        look: Any = {"color": colours[model_of(row)], "label": plain(row["name"])}
        axes.plot(row["bytes"] / 1e6, row[key], "o", **look)
    axes.set(xlabel="weights, MB", ylabel=f"{plain(key)}, x100", xscale="log")
    _plain_ticks(axes.xaxis)
    _span(axes)
    _legend(axes)


@as_svg
def stage_scores(
    axes: Axes, rows: Sequence[ScoreRow], key: str, colours: Colours
) -> None:
    """Draw a score after each stage, a line a student; other models are level."""
    students = by_student(rows)
    steps = dict.fromkeys(step_of(row) for it in students.values() for row in it)
    places = {step: place for place, step in enumerate(steps)}
    for name, of_student in students.items():
        points = [(places[step_of(row)], row[key]) for row in having(of_student, key)]
        look: Any = {"color": colours[name], "label": plain(name)}
        axes.plot(*zip(*points, strict=True), marker="o", **look)
    for row in having(rows, key):
        if row.get("kind") in LEVELS:
            look = {"color": colours[model_of(row)], "label": plain(row["name"])}
            axes.axhline(row[key], linestyle="--", **look)
    steps_shown = [step.replace(" ", "\n") for step in places]
    axes.set_xticks(range(len(places)), steps_shown, fontsize=7)
    axes.set(ylabel=f"{plain(key)}, x100")
    _span(axes)
    _legend(axes)


@as_svg
def loss_curves(axes: Axes, history: dict[str, Any]) -> None:
    """Draw the loss terms of a stage, one line a term."""
    terms = history["terms"]
    for term, values in terms.items():
        marker = "o" if len(values) == 1 else ""
        axes.plot(history["steps"], values, label=plain(term), marker=marker)
    axes.set(xlabel="step", ylabel="loss term")
    if all(value > 0 for values in terms.values() for value in values):
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis)
    _legend(axes)


def _legend(axes: Axes) -> None:
    axes.figure.legend(loc="outside lower center", ncols=2, fontsize=7)


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
