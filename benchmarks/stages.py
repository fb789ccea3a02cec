"""Table 6 at lab size: which stages a student needs, over three seeds.

Every arm has the same architecture, pairs, order and number of updates; the recipe
`msd_stages` says what each does. The table is run without closed-form starts, then with
them in all arms. What arms and seeds have in common is done once. A run that was
stopped goes on where it was.

    python benchmarks/stages.py --data DATA --out runs/stages
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.recipes import load_recipe, run

RECIPE = "msd_stages"
RESULT = Path(__file__).parent / "results" / "stages.json"
ARMS = {
    "student_single": "single stage",
    "student_longer": "single stage, with the assistant's updates too",
    "student_prekd": "single stage + pre-distillation",
    "student_stage12": "stage 1+2",
    "student_stage123": "stage 1+2+3",
    "student": "stage 1+2+3+4",
}
CLOSED_FORM = {
    "assistant.start": "ridge",
    "assistant.normalize_first": True,
    "assistant.zero_residuals": True,
    "assistant.embedding_layer_norm": False,
    "student.start": "svd",
}
SCORES = ("cross_lingual", "monolingual")
CHANGES = {
    "evaluate.intermediate": "none",
    "evaluate.artefacts": False,
}


def last_rows(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the scores of each student after its last stage."""
    stages = [row for row in rows if row["kind"] == "stage"]
    return {
        row["student"]: {key: row[key] for key in SCORES if key in row}
        for row in stages  # a later stage's row takes the place of an earlier one's
    }


def spread(values: list[float]) -> str:
    """Return mean and half the range."""
    return f"{np.mean(values):6.2f} +- {np.ptp(values) / 2:.2f}"


def main() -> None:
    """Run what is not there yet, print both tables, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/stages"))
    parser.add_argument("--store", type=Path, help="guide vectors and shared steps")
    parser.add_argument("--scale", default="lab")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--result", type=Path, default=RESULT)
    given = parser.parse_args()
    sets = load_recipe(RECIPE, given.scale).evaluate.sets
    sets = [name for name in sets if name != "tatoeba"]
    result: dict[str, Any] = {"scale": given.scale, "seeds": given.seeds, "tables": {}}
    for start, changes in (("random", {}), ("closed form", CLOSED_FORM)):
        scores: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
        for seed in given.seeds:
            folder = given.out / f"{start.replace(' ', '_')}_{seed}"
            done = run(
                RECIPE,
                folder,
                given.scale,
                data_dir=given.data,
                overrides=CHANGES
                | changes
                | {"recipe.seed": seed, "evaluate.sets": sets},
                store_dir=given.store,
                share_steps=True,
            )
            for arm, row in last_rows(done["rows"]).items():
                scores[arm].append(row)
        result["tables"][start] = scores
        print(f"\n{start} start: Spearman x 100, cross-lingual and monolingual")
        for arm, name in ARMS.items():
            cells = [
                spread([row[key] for row in scores[arm]])
                for key in ("cross_lingual", "monolingual")
                if key in scores[arm][0]
            ]
            print(f"{name:50} {'   '.join(cells)}")
    given.result.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
