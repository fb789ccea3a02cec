"""MSD's figure 3 at lab size: scores on the way through stage 4, by target.

A panel for English beside each language of STSb dev, and one for their mean: Spearman
x 100 on the half that is reported, the mean over seeds, and in grey all that seeds
have. It is drawn from the rows of `msd_convergence` that ablations.py left:

    python benchmarks/curves.py
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from keras_msd.files import digest, read_json
from keras_msd.recipes import load_recipe

HERE = Path(__file__).parent
RECIPE = "msd_convergence"
RESULT, PLOT = HERE / "results" / "ablations.json", HERE / "curves.svg"
COLUMNS = 4
MEAN = "cross_lingual"

Curves = dict[str, dict[str, np.ndarray]]


def curves_of(seeds: Sequence[Mapping[str, Any]]) -> Curves:
    """Return by track, the mean last, and student: (update, score), `(seeds, n, 2)`."""
    students = {
        name: row["curves"] for name, row in seeds[0].items() if "curves" in row
    }
    tracks = sorted(next(iter(students.values())), key=lambda it: (it == MEAN, it))
    return {
        track: {
            name: np.array([rows[name]["curves"][track] for rows in seeds])
            for name in students
        }
        for track in tracks
    }


def draw(curves: Curves, labels: Mapping[str, str]) -> Figure:
    """Draw a panel for each track; `labels` are what the legend calls students."""
    rows = len(curves) // COLUMNS + 1  # the legend has a panel, too
    figure = Figure(figsize=(11, 2.3 * rows), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for panel, (track, students) in zip(panels, curves.items(), strict=False):
        for name, found in students.items():
            updates, scores = found[0, :, 0], found[:, :, 1]
            panel.plot(updates, scores.mean(0), label=labels[name])
            panel.fill_between(
                updates, scores.min(0), scores.max(0), color="grey", alpha=0.2, lw=0
            )
        panel.set_title("mean" if track == MEAN else track, fontsize=9)
        panel.tick_params(labelsize=7)
    handles = panel.get_legend_handles_labels()
    for empty in panels[len(curves) :]:
        empty.set_axis_off()
    panels[len(curves)].legend(*handles, loc="center", fontsize=9)
    figure.supxlabel("updates of stage 4", fontsize=9)
    figure.supylabel("Spearman x 100", fontsize=9)
    return figure


def committed() -> Curves:
    """Return the curves of the committed result."""
    seeds = read_json(RESULT)["tables"][RECIPE]["seeds"].values()
    return curves_of([seed["rows"] for seed in seeds])


def said(curves: Curves) -> str:
    """Return what the plot says that it was drawn from: a hash of its points."""
    return digest(json.dumps(curves, default=np.ndarray.tolist, sort_keys=True))


def main() -> None:
    """Draw the committed curves."""
    curves, rows = committed(), load_recipe(RECIPE, "lab").recipe.rows
    with matplotlib.rc_context({"svg.hashsalt": "curves"}):  # the same bytes again
        figure = draw(curves, {name: row.row for name, row in rows.items()})
        about = {"Date": None, "Description": said(curves)}
        figure.savefig(PLOT, metadata=about)


if __name__ == "__main__":
    main()
