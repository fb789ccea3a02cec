"""One recipe at lab size in float32 and in bfloat16, over three seeds.

Both have the same pairs, order and updates. A run that was stopped goes on where it
was.

    python benchmarks/precision.py --data DATA
"""

import argparse
import platform
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.io.files import write_json
from keras_msd.recipes import run
from keras_msd.recipes.load import parse_override

RESULT = Path(__file__).parent / "results" / "precision.json"
RECIPE = "msd_minilm_b128_ru3"
PRECISIONS = ("float32", "bfloat16")
CHANGES = {
    "evaluate.sets": ["stsb"],
    "evaluate.intermediate": "none",
    "evaluate.artefacts": False,
}


def measure(given: argparse.Namespace, precision: str, seed: int) -> dict[str, Any]:
    """Run the recipe once; return the student's scores and the seconds of stages."""
    done = run(
        RECIPE,
        given.folder / f"{precision}_{seed}",
        given.scale,
        data_dir=given.data,
        overrides=CHANGES
        | dict(map(parse_override, given.set))
        | {"recipe.seed": seed, "precision": precision},
    )
    rows = done["rows"]
    last = [row for row in rows if row["kind"] == "stage"][-1]
    return {
        **{key: last[key] for key in ("cross_lingual", "monolingual")},
        "stage_seconds": done["timings"]["parts"]["stages"],
    }


def main() -> None:
    """Run what is not there yet, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--scale", default="lab")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", metavar="KEY=VALUE", nargs="+", default=[])
    parser.add_argument("--folder", type=Path, default=Path("runs/precision"))
    given = parser.parse_args()
    seeds = {
        str(seed): {each: measure(given, each, seed) for each in PRECISIONS}
        for seed in given.seeds
    }
    differences = {
        key: [
            round(one["bfloat16"][key] - one["float32"][key], 4)
            for one in seeds.values()
        ]
        for key in ("cross_lingual", "monolingual")
    }
    result = {
        "recipe": ", ".join([RECIPE, given.scale, *given.set]),
        "seeds": seeds,
        "bfloat16_less_float32": differences,
        "largest_difference": float(np.abs(list(differences.values())).max()),
        "machine": f"{platform.system()} {platform.machine()}",
    }
    write_json(RESULT, result)
    for key, values in differences.items():
        print(f"{key}: bfloat16 less float32 {', '.join(map(str, values))}")


if __name__ == "__main__":
    main()
