"""Run recipes: every step that is not done yet, then the files of the whole run."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from keras_msd.files import write_json
from keras_msd.recipes.runs import summary
from keras_msd.recipes.schema.loading import load_recipe
from keras_msd.recipes.steps.plan import Step
from keras_msd.recipes.runs.run_folder import RunFolder
from keras_msd.recipes.runs.run_lock import locked
from keras_msd.recipes.schema.recipe import Recipe


def run(
    name_or_path: str | Path,
    out_dir: str | Path | None = None,
    scale: str | None = None,
    data_dir: str | Path | None = None,
    store_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    share_steps: bool = False,
) -> dict[str, Any]:
    """Run a recipe, or go on with its run at the first step that is not done.

    The same recipe on the same machine leaves the same bytes, however often the run was
    stopped. For that, TensorFlow's kernels are deterministic from here on, and every
    step sets Keras' random state.

    Args:
        name_or_path: A recipe's name, or the path of a TOML file.
        out_dir: The run's own folder; by default `runs/<name>`.
        scale: "smoke", "demo", "lab" or "paper"; `None` takes the recipe's default.
        data_dir: Folder with `parallel/`, `sts/` and `tatoeba/`, for recipes that read
            one.
        store_dir: Parent of the guide stores; by default `$KERAS_MSD_CACHE`, else the
            user's cache folder.
        overrides: Values by dotted key over those of the recipe.
        share_steps: Take steps that another run left under `store_dir/steps`, and leave
            one's own there. The scores are the same; timings.json says what was taken.

    Returns:
        What scores.json holds (`recipe`, `scale`, `rows`, `published`, `measured`),
        and `folder`, `timings` (as in timings.json), `budget` in minutes, the paths
        of `artefacts` and of the `report`.

    Raises:
        InputError: The recipe, the folders or the files in them are not as they must
            be; the folder's run began with other code, libraries or backend, or another
            process works on it. Steps that are done stay done.
    """
    from keras_msd.recipes.runs.checks import (check, check_stages, facts)
    from keras_msd.recipes.steps.plan import (make_deterministic, perform, plan)
    from keras_msd.recipes.runs.run import (Run, default_store_dir)

    recipe = load_recipe(name_or_path, scale, overrides)
    where = Path(out_dir or Path("runs") / recipe.recipe.name)
    folder = RunFolder(where, recipe)
    ours = Run(
        recipe,
        folder,
        Path(data_dir) if data_dir else None,
        Path(store_dir) if store_dir else default_store_dir(),
    )
    do: Callable[[Step], dict[str, Any]] = partial(perform, ours)
    if share_steps:
        from keras_msd.recipes.steps.shared import SharedSteps

        do = SharedSteps(ours, ours.store_dir / "steps").perform
    check(ours)  # leaves no folder where something is missing
    with locked(where):
        folder.claim(facts(ours))
        make_deterministic()
        steps, records = plan(ours), {}
        for step in steps:
            records[step.name] = do(step)
            if step.name == "pairs":
                check_stages(ours)
        return _written(recipe, where, steps, records)


def _written(
    recipe: Recipe, where: Path, steps: list[Step], records: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Write the files of the whole run and return what they say."""
    from keras_msd.report import write_report

    scores = summary.scores(recipe, steps, records)
    timings = summary.timings(steps, records)
    write_json(where / "scores.json", scores)
    write_json(where / "timings.json", timings)
    return scores | {
        "folder": str(where),
        "timings": timings,
        "budget": dict(recipe.budget),
        "artefacts": [str(where / path) for path in summary.artefacts(steps, records)],
        "report": str(write_report(where)),
    }
