"""Run recipes: every step that is not done yet, then the files of the whole run."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import write_json
from keras_msd.recipes.folders import recipe_files
from keras_msd.recipes.loading import load_recipe
from keras_msd.recipes.resume import RunFolder
from keras_msd.recipes.schema import Recipe


def run(
    name_or_path: str | Path,
    out_dir: str | Path | None = None,
    scale: str | None = None,
    data_dir: str | Path | None = None,
    store_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a recipe, or go on with its run at the first step that is not done.

    Args:
        name_or_path: A recipe's name, or the path of a TOML file.
        out_dir: The run's own folder; by default `runs/<name>-<scale>`.
        scale: "smoke", "demo", "lab" or "paper"; `None` takes the recipe's default.
        data_dir: Folder with `parallel/`, `sts/` and `tatoeba/`, for recipes that read
            one.
        store_dir: Parent of the guide stores; by default `$KERAS_MSD_CACHE`, else the
            user's cache folder.
        overrides: Values by dotted key over those of the recipe.

    Returns:
        `recipe`, `scale`, `folder`, `rows` and `published` (as in scores.json),
        `timings` (as in timings.json), `artefacts` and `report`.

    Raises:
        InputError: The recipe, the folders or the files in them are not as they must
            be. Steps that are done stay done.
    """
    from keras_msd.recipes.plan import plan
    from keras_msd.recipes.scores import check_evaluation_files
    from keras_msd.recipes.state import Run, default_store_dir
    from keras_msd.recipes.widths import check_widths

    recipe = load_recipe(name_or_path, scale, overrides)
    where = Path(out_dir or Path("runs") / f"{recipe.recipe.name}-{recipe.scale}")
    stores = Path(store_dir) if store_dir else default_store_dir()
    data = Path(data_dir) if data_dir else None
    grown = recipe.assistant.source == "new" and recipe.assistant.start == "grow"
    folder = RunFolder(where, recipe)
    ours = Run(recipe, folder, data, stores)
    if recipe.data.kind == "folder":
        from keras_msd.recipes.data_steps import training_files

        training_files(ours)
        check_evaluation_files(recipe, ours.data_dir)
    body = ours.teacher_encoder if grown else None
    check_widths(recipe, ours.teacher, body, ours.given_assistant)
    steps = plan(ours)
    records = {step.name: folder.perform(step.name, step.action) for step in steps}
    rows = [
        {"name": step.row} | records[step.name]["result"] for step in steps if step.row
    ]
    scores = {
        "recipe": recipe.recipe.name,
        "scale": recipe.scale,
        "rows": rows,
        "published": recipe.recipe.expected,
    }
    write_json(where / "scores.json", scores)
    spent = {step.name: (step.part, records[step.name]["seconds"]) for step in steps}
    timings = _timings(recipe, spent)
    timings["speed"] = {
        step.name: records[step.name]["result"]
        for step in steps
        if step.name.startswith("speed")
    }
    write_json(where / "timings.json", timings)
    from keras_msd.report import write_report

    return scores | {
        "folder": str(where),
        "timings": timings,
        "artefacts": [
            str(where / records[step.name]["result"]["path"])
            for step in steps
            if step.name.startswith("export")
        ],
        "report": str(write_report(where)),
    }


def run_all(
    names: Iterable[str | Path] | None = None,
    scale: str | None = "smoke",
    out_dir: str | Path = "runs",
    data_dir: str | Path | None = None,
    store_dir: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Run several recipes; one that fails does not stop the others.

    Args:
        names: Names or paths; by default every recipe.
        scale: As for `run`.
        out_dir: Parent of the runs' folders.
        data_dir: As for `run`.
        store_dir: As for `run`.

    Returns:
        What `run` returns for each recipe, or `recipe`, `scale`, `folder` and `error`
        for one that failed; also written to `out_dir/results.json`.
    """
    results = []
    for name in recipe_files() if names is None else names:
        own = Path(name).name.removesuffix(".toml")
        where = Path(out_dir) / f"{own}-{scale or 'default'}"
        try:
            result = run(name, where, scale, data_dir, store_dir)
        except (InputError, RuntimeError, OSError) as error:
            result = {"recipe": own, "scale": scale or "default", "folder": str(where)}
            result["error"] = f"{type(error).__name__}: {error}"
        results.append(result)
    write_json(Path(out_dir) / "results.json", results)
    return results


def _timings(recipe: Recipe, spent: dict[str, tuple[str, float]]) -> dict[str, Any]:
    parts: dict[str, dict[str, float]] = {}
    for part, seconds in spent.values():
        entry = parts.setdefault(part, {"seconds": 0.0})
        entry["seconds"] = round(entry["seconds"] + seconds, 3)
    if recipe.scale == "lab":
        for part, minutes in recipe.budget.items():
            parts.setdefault(part, {"seconds": 0.0})["budget"] = minutes
    return {
        "seconds": round(sum(seconds for _, seconds in spent.values()), 3),
        "parts": parts,
        "steps": {name: seconds for name, (_, seconds) in spent.items()},
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
