r"""Scores of a recipe with the optimizer step before and after a repair.

Before, each occurrence of a word in a batch had a gradient of its own under TensorFlow;
now they are summed before clipping and the optimizer. "Old" leaves them as they were.
The last scores of each model of both runs go into results/gradient_fix.json:

    python benchmarks/gradient_fix.py demo
    python benchmarks/gradient_fix.py lealla_lab --data DATA --set student.variants={}

`--old` and `--new` take the scores.json of a run that has been made:

    python benchmarks/gradient_fix.py msd_lab --new runs/lab/scores.json \
        --old experiments/results/msd_lab/scores.json
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_msd.distribute import _tensorflow as replicas
from keras_msd.recipes import run

RESULT = Path(__file__).parent / "results" / "gradient_fix.json"
SIDES = ("old", "new")
SCORES = ("cross_lingual", "monolingual", "retrieval", "held_out")


def scores_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the scores of the trained rows by name."""
    return {
        row["name"]: {key: row[key] for key in SCORES if key in row}
        for row in rows
        if row["kind"] == "stage"
    }


def main() -> None:
    """Run a recipe with both steps, print the scores and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--store", type=Path, help="teacher's vectors")
    parser.add_argument("--set", action="append", default=[], help="key=value")
    for side in SIDES:
        parser.add_argument(f"--{side}", type=Path, help=f"scores.json, {side} step")
    given = parser.parse_args()
    changes: Mapping[str, Any] = {
        key: json.loads(value) for key, value in (it.split("=", 1) for it in given.set)
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for side in SIDES:
            if made := getattr(given, side):
                rows = json.loads(made.read_text(encoding="utf-8"))["rows"]
            else:
                as_it_was = mock.patch.object(replicas, "summed", lambda given: given)
                with as_it_was if side == "old" else nullcontext():
                    rows = run(
                        given.recipe,
                        Path(folder) / side,
                        data_dir=given.data,
                        store_dir=given.store or Path(folder) / "store",
                        overrides=changes,
                    )["rows"]
            found[side] = scores_of(rows)
    for name, new in found["new"].items():
        old = found["old"].get(name, {})
        cells = (f"{key} {old.get(key, 0):.2f} -> {new[key]:.2f}" for key in new)
        print(f"{name}: {', '.join(cells)}")
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    kept[given.recipe] = {"set": dict(changes), **found}
    RESULT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
