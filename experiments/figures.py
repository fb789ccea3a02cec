"""The papers' figures, drawn from the committed results into `figures/`.

python experiments/figures.py
"""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from papers import LAB, load, parts_of, printed, results, row_of

from keras_msd.io.files import digest

FOLDER = Path(__file__).parent / "figures"
TRACKS = {"cross_lingual": "mean", "en-de": "en-de", "en-es": "en-es", "en-zh": "en-zh"}
OURS, PAPER = "#0072b2", "#d55e00"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def exhibits() -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """Return citation and parts of each exhibit with a figure."""
    return {
        exhibit["figure"]: (paper["citation"], list(parts_of(exhibit)))
        for paper in load()["papers"]
        for exhibit in paper["exhibits"]
        if "figure" in exhibit
    }


def points(name: str) -> dict[str, Any]:
    """Return what a figure is drawn from."""
    citation, parts = exhibits()[name]
    if name == "msd_figure_3":
        found = results(parts[0].get("file", LAB))
        seeds = found[parts[0]["table"]]["seeds"].values()
        return {
            label: {
                track: [seed["rows"][model]["curves"][track] for seed in seeds]
                for track in TRACKS
            }
            for model, label in parts[0]["rows"].items()
        }
    return {
        part["title"]: {
            label: {
                "ours": (row := row_of(part, model, part["score"])).scores,
                "start": row.start,
                "paper": printed(citation, part, model),
            }
            for model, label in part["rows"].items()
        }
        for part in parts
    }


def draw(name: str, found: dict[str, Any]) -> Figure:
    """Draw a figure; names stand at the points, and no axis is cut to exaggerate."""
    if name == "msd_figure_3":
        return _curves(found)
    figure = Figure(figsize=(7.2, 0.5 + 2.6 * len(found)), layout="constrained")
    panels = figure.subplots(len(found), 1, squeeze=False).flat
    for panel, (title, rows) in zip(panels, found.items(), strict=True):
        _dots(panel, title, rows)
    return figure


def _dots(panel: Any, title: str, rows: dict[str, Any]) -> None:
    places = range(len(rows))
    for key, colour in (("ours", OURS), ("paper", PAPER)):
        values = [row[key] for row in rows.values()]
        if any(value is None for value in values):
            continue
        means = [float(np.mean(value)) for value in values]
        panel.plot(places, means, marker="o", color=colour)
        panel.annotate(
            key, (len(rows) - 1, means[-1]), (8, 0), textcoords="offset points",
            color=colour, va="center",
        )  # fmt: skip
        for place, mean in zip(places, means, strict=True):
            panel.annotate(
                f"{mean:.1f}", (place, mean), (0, 6), textcoords="offset points",
                color=colour, ha="center", fontsize=8,
            )  # fmt: skip
    starts = [row["start"] for row in rows.values()]
    if None not in starts:
        panel.plot(places, starts, color="grey", linestyle="--", marker="_")
        panel.annotate(
            "start", (len(rows) - 1, starts[-1]), (8, 0), textcoords="offset points",
            color="grey", va="center",
        )  # fmt: skip
    low, high = panel.get_ylim()
    half = max(5, 0.6 * (high - low))
    panel.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)
    panel.set_xticks(places, rows, fontsize=8)
    panel.set_title(title, fontsize=9)
    panel.margins(x=0.12)


def _curves(found: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = figure.subplots(1, len(TRACKS), squeeze=False).flat
    for panel, (track, title) in zip(panels, TRACKS.items(), strict=True):
        lines = []
        for (label, tracks), colour in zip(found.items(), COLOURS, strict=True):
            scores = np.array(tracks[track])  # seeds, points, (update, score)
            updates, mean = scores[0, :, 0], scores[:, :, 1].mean(0)
            panel.plot(updates, mean, color=colour)
            lines.append((mean[-1], label, colour))
        low, high = panel.get_ylim()
        half = max(3, 0.6 * (high - low))
        panel.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)
        height = float("-inf")
        for end, label, colour in sorted(lines):
            height = max(end, height + 0.09 * half)  # names must not cover one another
            panel.text(updates[-1], height, f" {label}", color=colour, fontsize=7)
        panel.set_title(title, fontsize=9)
        panel.margins(x=0.25)
        panel.tick_params(labelsize=7)
    figure.supxlabel("steps of stage 4", fontsize=9)
    return figure


def said(found: dict[str, Any]) -> str:
    """Return a hash of what a figure is drawn from, which the file contains."""
    return digest(json.dumps(found, sort_keys=True))


def main() -> None:
    """Draw all figures."""
    FOLDER.mkdir(exist_ok=True)
    for name in exhibits():
        found = points(name)
        with mpl.rc_context({"svg.hashsalt": name}):  # the same bytes again
            about = {"Date": None, "Description": said(found)}
            draw(name, found).savefig(FOLDER / f"{name}.svg", metadata=about)


if __name__ == "__main__":
    main()
