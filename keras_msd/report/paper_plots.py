"""Figures over many runs: a paper's curves, and quality against size."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from keras_msd.report.plots import (
    COLOURS,
    STYLE,
    add_legend,
    new_figure,
    plain_ticks,
    to_svg,
)

Points = Sequence[tuple[float, float]]


def lines(series: Mapping[str, Points], x: str, y: str) -> str:
    """Return one line for each series of (x, y) points."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": f"lines {x} {y}"}):
        figure, axes = new_figure(x, y)
        for name, points in series.items():
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        add_legend(axes)
        return to_svg(figure)


def bars(series: Mapping[str, Mapping[str, float]], y: str) -> str:
    """Return a group of bars for each name, a bar for each series that has it."""
    names = list(dict.fromkeys(name for values in series.values() for name in values))
    width = 0.8 / len(series)
    with mpl.rc_context(STYLE | {"svg.hashsalt": f"bars {y}"}):
        figure, axes = new_figure(y, "")
        for place, (label, values) in enumerate(series.items()):
            offset = (place - (len(series) - 1) / 2) * width
            where = [names.index(name) + offset for name in values]
            axes.barh(where, list(values.values()), width, label=label)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        add_legend(axes)
        return to_svg(figure)


def pareto(kinds: Mapping[str, Points], front: Points, y: str) -> str:
    """Return quality over megabytes, a colour a kind of model, and the front's line."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": f"pareto {y}"}):
        figure, axes = new_figure("weights, MB", y)
        for (kind, points), colour in zip(kinds.items(), COLOURS, strict=False):
            axes.plot(*zip(*points, strict=True), "o", color=colour, label=kind)
        axes.step(
            *zip(*front, strict=True),
            where="post",
            color=COLOURS[-1],
            label="no smaller model is better",
        )
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        add_legend(axes)
        return to_svg(figure)


def front_of(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of points (size, score) that none of their size or less beats.

    From the smallest to the largest; of equal points the first.
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    best, found = float("-inf"), []
    for place in order:
        if points[place][1] > best:
            best = points[place][1]
            found.append(place)
    return found
