"""The papers' ablations at lab size: MSD's tables 3 to 5, 7, 8, LEALLA's 5 and 8.

The recipes `msd_ablations`, `lealla_lab` and `lealla_lab_terms` over three seeds,
`msd_sizes` and `lealla_search` over one; every row has the same pairs, order and number
of updates as its neighbours. What rows, recipes and seeds have in common is done once.
A run that was stopped goes on where it was, and a seed that stands in the result is not
run again: delete the file to begin anew.

    python benchmarks/ablations.py --data DATA --out runs/ablations

`--recipe` picks some of the five.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.files import digest, read_json, write_json
from keras_msd.recipes import load_recipe, run
from keras_msd.report.paper_tables import other_set
from keras_msd.report.score_rows import our_name

RESULT = Path(__file__).parent / "results" / "ablations.json"
# At most so many of the seeds, and sets left out: MSD's own tables have STS alone.
RECIPES: dict[str, tuple[int | None, tuple[str, ...]]] = {
    "msd_ablations": (None, ("tatoeba",)),
    "msd_sizes": (1, ("tatoeba",)),
    "lealla_lab": (None, ()),
    "lealla_lab_terms": (None, ()),
    "lealla_search": (1, ()),
}
SCORES = ("retrieval", "cross_lingual", "monolingual")  # those that a recipe has
CHANGES: dict[str, Any] = {
    "evaluate.intermediate": "none",
    "evaluate.artefacts": False,
}


def last_rows(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the last row of the assistant, of each student and of closed forms."""
    found = {}
    for row in rows:
        if row["kind"] in ("assistant", "stage"):
            found[row.get("student", "assistant")] = row
        elif row["kind"] == "closed_form":
            found[row["name"]] = row
    return found


def measure(recipe: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run a recipe with one seed; return sizes, scores and seconds of every row."""
    sets = load_recipe(recipe, given.scale).evaluate.sets
    kept = [name for name in sets if name not in RECIPES[recipe][1]]
    done = run(
        recipe,
        given.out / f"{recipe}_{seed}",
        given.scale,
        data_dir=given.data,
        store_dir=given.store,
        overrides=CHANGES | {"evaluate.sets": kept, "recipe.seed": seed},
        share_steps=True,
    )
    timings = done["timings"]
    return {
        "seconds": timings["seconds"],
        "seconds_reused": round(sum(timings["reused"].values()), 3),
        "rows": {
            name: {key: row[key] for key in ("parameters", *SCORES) if key in row}
            for name, row in last_rows(done["rows"]).items()
        },
    }


def shown(recipe: str, scale: str, seeds: dict[str, dict[str, Any]]) -> str:
    """Return a table of means, with half the range where there are several seeds."""
    lines = [f"\n{recipe}: Spearman and P@1 x 100, seeds {', '.join(seeds)}"]
    loaded = load_recipe(recipe, scale)
    about, settings = loaded.recipe.rows, loaded.settings()
    runs = [one["rows"] for one in seeds.values()]
    for name, first in runs[0].items():
        cells = [
            (about[name].row if name in about else name).ljust(46),
            f"{first['parameters']:>12,}",
        ]
        for key in [key for key in SCORES if key in first]:
            values = [rows[name][key] for rows in runs]
            cell = f"{key} {np.mean(values):6.2f} +- {np.ptp(values) / 2:.2f}"
            scores = about[name].expected if name in about else {}
            printed = {our_name(k): score for k, score in scores.items()}.get(key)
            other = other_set(settings, key)
            paper = f"paper{other and f' on {other}'} {printed}"
            cells.append(cell if printed is None else f"{cell} ({paper})")
        lines.append("  ".join(cells))
    return "\n".join(lines)


def settings_digest(recipe: str, scale: str) -> str:
    """Return a hash of what a recipe says.

    A title or cost put right leaves a result what it is, and so does a setting that was
    added and that the recipe has not.
    """
    settings = load_recipe(recipe, scale)
    return digest(settings.model_dump_json(exclude={"recipe"}, exclude_none=True))


def main() -> None:
    """Run what is not there yet, print the tables, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--store", type=Path, help="guide vectors and shared steps")
    parser.add_argument("--scale", default="lab")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--recipe", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--result", type=Path, default=RESULT)
    given = parser.parse_args()
    result: dict[str, Any] = {"scale": given.scale, "recipes": {}}
    if given.result.is_file():
        result = read_json(given.result)
        if result["scale"] != given.scale:
            raise SystemExit(f"{given.result} is of scale {result['scale']}; move it.")
    for recipe in given.recipe:
        seeds = given.seeds[: RECIPES[recipe][0]]
        settings = settings_digest(recipe, given.scale)
        empty = {"settings": settings, "seeds": {}}
        found = result["recipes"].setdefault(recipe, empty)
        if found["settings"] != settings:
            raise SystemExit(f"{given.result} has {recipe} as it was; move the file.")
        for seed in seeds:
            if str(seed) not in found["seeds"]:
                found["seeds"][str(seed)] = measure(recipe, seed, given)
                write_json(given.result, result)
        print(shown(recipe, given.scale, found["seeds"]), flush=True)


if __name__ == "__main__":
    main()
