"""Figures as SVG text that takes the page's own text colour and font."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from keras_msd.report.score_rows import ScoreRow, by_student, having, plain

Points = Sequence[tuple[float, float]]
P = ParamSpec("P")

# Okabe and Ito's colours: told apart with any colour vision, on white and on black.
STYLE: Any = mpl.rc_params_from_file(
    Path(__file__).with_name("plots.mplstyle"), use_default_template=False
)
COLOURS = STYLE["axes.prop_cycle"].by_key()["color"]
INK = STYLE["text.color"]  # stands for the colour of the page's text
MARKERS = "osD^vP*X"
LEVELS = ("assistant", "closed_form")  # kinds of rows that no stage of a student moves
FEW = 40  # points of a line that are marked


def as_svg(draw: Callable[Concatenate[Axes, P], None]) -> Callable[P, str]:
    """Make a function that draws on axes one that returns SVG text with a legend."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> str:
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(5.2, 3.6), layout="constrained")
            draw(figure.subplots(), *args, **kwargs)
            figure.legend(loc="outside lower center", ncols=2)
            return _svg_text(figure)

    return drawn


@as_svg
def lines(axes: Axes, series: Mapping[str, Points], x: str, y: str) -> None:
    """Draw one line for each series of (x, y) points, over titles of both axes."""
    for name, points in series.items():
        marker = "o" if len(points) <= FEW else ""
        axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=name)
    axes.set(xlabel=x, ylabel=y)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


@as_svg
def loss_curves(axes: Axes, history: dict[str, Any]) -> None:
    """Draw the curves of a stage's loss terms, one line a term."""
    terms = history["terms"]
    for term, values in terms.items():
        marker = "o" if len(values) == 1 else ""
        axes.plot(history["steps"], values, label=plain(term), marker=marker)
    axes.set(xlabel="step", ylabel="loss term")
    if all(value > 0 for values in terms.values() for value in values):
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis)


@as_svg
def stage_scores(axes: Axes, rows: Sequence[ScoreRow], key: str) -> None:
    """Draw `key` after each stage, a line a student; other models are level lines."""
    students = by_student(rows)
    steps = dict.fromkeys(_step(row) for of_one in students.values() for row in of_one)
    places = {step: place for place, step in enumerate(steps)}
    for name, steps_of_student in students.items():
        points = [(places[_step(r)], r[key]) for r in having(steps_of_student, key)]
        axes.plot(*zip(*points, strict=True), marker="o", label=plain(name))
    levels = [row for row in having(rows, key) if row.get("kind") in LEVELS]
    colours = cycle(COLOURS[len(students) :] + COLOURS)
    for row, colour in zip(levels, colours, strict=False):
        label = plain(row["name"])
        axes.axhline(row[key], color=colour, linestyle="--", label=label)
    axes.set_xticks(range(len(places)), [step.replace(" ", "\n") for step in places])
    axes.set(ylabel=f"{plain(key)}, x100")
    axes.margins(x=0.1)


@as_svg
def bars(axes: Axes, series: Mapping[str, Mapping[str, float]], y: str) -> None:
    """Draw a group of bars for each name, a bar for each series that has it."""
    names = list(dict.fromkeys(name for values in series.values() for name in values))
    width = 0.8 / len(series)
    for place, (label, values) in enumerate(series.items()):
        offset = (place - (len(series) - 1) / 2) * width
        where = [names.index(name) + offset for name in values]
        axes.barh(where, list(values.values()), width, label=label)
    axes.set(xlabel=y)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


@as_svg
def sizes(
    axes: Axes, kinds: Mapping[str, Points], y: str, front: Points | None = None
) -> None:
    """Draw scores over megabytes, a colour and marker a kind, and a front's line."""
    signs = zip(kinds.items(), cycle(MARKERS), cycle(COLOURS), strict=False)
    for (kind, points), marker, colour in signs:
        axes.plot(*zip(*points, strict=True), marker, color=colour, label=kind)
    if front:
        label = "no smaller model is better"
        across = zip(*front, strict=True)
        axes.step(*across, where="post", color=COLOURS[-1], label=label)
    axes.set(xlabel="weights, MB", ylabel=y, xscale="log")
    _plain_ticks(axes.xaxis)
    axes.margins(0.15)


def front_of(points: Points) -> list[int]:
    """Return the places of points (size, score) that none of their size or less beats.

    From the smallest to the largest; of equal points the first.
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    best, front = float("-inf"), []
    for place in order:
        if points[place][1] > best:
            best = points[place][1]
            front.append(place)
    return front


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


def _step(row: ScoreRow) -> str:
    return plain(row.get("stage", "untrained"))
