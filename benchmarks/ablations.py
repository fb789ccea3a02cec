"""Tables 3 to 5, 7 and 8 at lab size: contrastive learning, recurrence, sizes.

The recipe `msd_ablations` over three seeds, `msd_sizes` over one; every row has the
same pairs, order and number of updates as its neighbours. What rows, recipes and seeds
have in common is done once. A run that was stopped goes on where it was.

    python benchmarks/ablations.py --data DATA --out runs/ablations
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.files import write_json
from keras_msd.recipes import load_recipe, run

RESULT = Path(__file__).parent / "results" / "ablations.json"
SCORES = ("cross_lingual", "monolingual")
CHANGES = {
    "evaluate.intermediate": "none",
    "evaluate.retrieval": [],
    "evaluate.artefacts": False,
}


def last_rows(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the last row of the assistant and of each student, by name."""
    found = {}
    for row in rows:
        if row["kind"] in ("assistant", "stage"):
            found[row.get("student", "assistant")] = row
    return found


def measure(recipe: str, seeds: list[int], given: argparse.Namespace) -> dict[str, Any]:
    """Run a recipe with each seed; return sizes, scores and seconds of every row."""
    scores: dict[str, dict[str, Any]] = {}
    seconds: dict[str, dict[str, float]] = {}
    for seed in seeds:
        done = run(
            recipe,
            given.out / f"{recipe}_{seed}",
            given.scale,
            data_dir=given.data,
            store_dir=given.store,
            overrides=CHANGES | {"recipe.seed": seed},
            share_steps=True,
        )
        timings = done["timings"]
        seconds[str(seed)] = {
            "here": timings["seconds"],
            "reused": round(sum(timings["reused"].values()), 3),
        }
        for name, row in last_rows(done["rows"]).items():
            one = scores.setdefault(name, {"parameters": row["parameters"]})
            for key in SCORES:
                one.setdefault(key, []).append(row[key])
    about = load_recipe(recipe, given.scale).recipe
    for name, row in about.rows.items():
        scores[name] |= {"row": row.row, "published": dict(row.expected)}
    return {"seeds": seeds, "rows": scores, "seconds": seconds}


def shown(recipe: str, found: dict[str, Any]) -> str:
    """Return a table of means, with half the range where there are several seeds."""
    lines = [f"\n{recipe}: Spearman x 100, seeds {found['seeds']}"]
    for name, row in found["rows"].items():
        cells = [row.get("row", name).ljust(36), f"{row['parameters']:>12,}"]
        for key in SCORES:
            spread = np.ptp(row[key]) / 2
            printed = row.get("published", {}).get(key)
            cell = f"{key} {np.mean(row[key]):6.2f} +- {spread:.2f}"
            cells.append(cell if printed is None else f"{cell} (paper {printed})")
        lines.append("  ".join(cells))
    return "\n".join(lines)


def main() -> None:
    """Run what is not there yet, print the tables, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--store", type=Path, help="guide vectors and shared steps")
    parser.add_argument("--scale", default="lab")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--result", type=Path, default=RESULT)
    given = parser.parse_args()
    result: dict[str, Any] = {"scale": given.scale, "recipes": {}}
    for recipe, seeds in (
        ("msd_ablations", given.seeds),
        ("msd_sizes", given.seeds[:1]),
    ):
        found = measure(recipe, seeds, given)
        result["recipes"][recipe] = found
        print(shown(recipe, found), flush=True)
        write_json(given.result, result)  # after each, so that a stop leaves something


if __name__ == "__main__":
    main()
