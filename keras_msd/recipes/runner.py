"""Run a recipe: every step that is not done yet, then the report; or several."""

import json
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd.checks import InputError, a_list, utf8
from keras_msd.io.files import clear_leftovers, remove, write_json
from keras_msd.progress import place
from keras_msd.recipes.load import describe, load_recipe, recipe_names
from keras_msd.recipes.settings import Recipe

if TYPE_CHECKING:
    from keras_msd.recipes.cache import Step
    from keras_msd.recipes.resources import Run

RESULTS, ERRORS = "results.json", "errors"  # of several runs
WATCHED_S = 30.0  # a page of a longer run is written anew after a score


def run(
    recipe: str | Path | Recipe,
    out_dir: str | Path | None = None,
    scale: str | None = None,
    data_dir: str | Path | Sequence[str | Path] | None = None,
    store_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    share_steps: bool = False,
    checkpoint_minutes: float = 5.0,
    profile: bool = False,
    tensorboard: bool = False,
    repair: bool = False,
) -> dict[str, Any]:
    """Run a recipe, or resume its run where it was stopped.

    The report of a run that takes longer is written anew after each score, to look on.
    The same recipe on the same machine leaves the same bytes, however often the run was
    stopped. For that, every step sets Keras' random state, and on a processor
    TensorFlow's kernels are deterministic from here on. On a GPU the recipe's setting
    `deterministic` asks for it.

    With `distribute.strategy` "data_parallel" stages are spread over all devices. Where
    JAX has several processes, all call this with the same arguments and folders on a
    disk that they share: the first does every step, the others take part in stages.

    Args:
        recipe: A recipe's name, the path of a TOML file, or a `Recipe`.
        out_dir: The run's own folder; by default `runs/<name>`.
        scale: "smoke", "demo", "lab", "backbone" or "paper"; `None` takes the recipe's
            default.
        data_dir: Folder with `parallel/`, `sts/` and `tatoeba/`, for recipes that read
            one; or several: of the others only `parallel/train/` and `lexicon/` are
            read.
        store_dir: Parent of the guide stores; by default `$KERAS_MSD_CACHE`, else the
            user's cache folder.
        overrides: Values by dotted key over those of the recipe.
        share_steps: Take steps that another run left under `store_dir/steps`, and leave
            one's own there. The scores are the same; timings.json says what was taken.
        checkpoint_minutes: Time between two checkpoints of a stage.
        profile: Whether stages say what their time went into, on stderr and in
            profile.json of their folders.
        tensorboard: Whether stages write their terms and scores for TensorBoard, under
            `tensorboard/`; it needs TensorFlow, under JAX too.
        repair: Whether steps whose files were damaged are done again, with a warning.

    Returns:
        What scores.json holds (`recipe`, `scale`, `rows`, `measured`, and `part` where
        a half of each set is scored), and `folder`, `timings` (as in timings.json), the
        paths of `artefacts` and of the `report`.

    Raises:
        InputError: The recipe, the folders or the files in them are not as they must
            be; a step in the folder was made from other settings, files or versions,
            or another process works on it; a file of a step that is done was damaged.
            Steps that are done stay done.

    Example:
        >>> quick = {"data.pairs_per_language": 60, "evaluate.artefacts": False}
        >>> result = msd.recipes.run("msd_labse", "run", overrides=quick)
        >>> [row["name"] for row in result["rows"]]
        ['teacher', 'assistant']
    """
    recipe = load_recipe(recipe, scale, overrides)
    from keras_msd.distribute import (
        device_settings,
        distribution,
        make_deterministic,
    )
    from keras_msd.recipes.cache import RunFolder
    from keras_msd.recipes.resources import Run, default_store_dir

    where = Path(out_dir or Path("runs") / recipe.recipe.name)
    spread = distribution(recipe.distribute.strategy)
    if "precision" not in recipe.model_fields_set:
        usual = {"precision": device_settings().precision}
        recipe = recipe.model_copy(update=usual)
    if profile and spread.replicas > 1:
        raise InputError(
            "The parts of an update are measured on one device. Received: "
            f"profile=True, {spread.replicas} devices. Leave one of both out."
        )
    data = [data_dir] if isinstance(data_dir, str | Path) else data_dir or ()
    work = Run(
        recipe,
        RunFolder(where, recipe, repair),
        [Path(it) for it in data],
        Path(store_dir or default_store_dir()),
        checkpoint_minutes,
        profile,
        tensorboard and spread.process == 0,
        spread,
    )
    make_deterministic(recipe.deterministic)
    return _follow(work) if spread.process else _perform_steps(work, share_steps)


def cost_of(recipe: Recipe) -> str:
    """Return the message that names the cost of a run; empty if it takes seconds."""
    about = recipe.recipe
    takes_long = about.cost and recipe.scale == about.default_scale != "smoke"
    return f"Cost of {about.name}: {about.cost}." if takes_long else ""


def _perform_steps(work: "Run", share_steps: bool) -> dict[str, Any]:
    """Do every step that is not done, with the other processes if there are any."""
    from keras_msd.distribute import message_of_first
    from keras_msd.recipes.cache import locked, perform
    from keras_msd.recipes.outputs import write_summary
    from keras_msd.recipes.prepare import check
    from keras_msd.recipes.resources import RESULT
    from keras_msd.recipes.steps import steps_of
    from keras_msd.recipes.train import check_stages

    recipe, folder, where = work.recipe, work.folder, work.folder.path
    shared = work.store_dir / "steps" if share_steps else None
    folder.check()
    check(work)  # leaves no folder where something is missing
    with locked(where):
        clear_leftovers(where)
        folder.claim()
        if message := cost_of(recipe):
            print(message, file=sys.stderr)
        steps, written = steps_of(work), time.monotonic()
        records: dict[str, dict[str, Any]] = {}
        keys: dict[str, str] = {}
        for number, step in enumerate(steps, 1):
            with place(f"step {number} of {len(steps)}"):
                records[step.name] = perform(work, step, keys, shared)
            if step.name == "pairs":
                check_stages(work)
            if step.row and time.monotonic() - written > WATCHED_S:
                write_summary(recipe, where, steps[:number], records)
                written = time.monotonic()
        result = write_summary(recipe, where, steps, records)
    if work.distribution.processes > 1:
        message_of_first(json.dumps({RESULT: result}))
    return result


def _follow(run: "Run") -> dict[str, Any]:
    """Do each stage that the first process begins, until it has ended the run.

    What a stage leaves in its folder is the first's; this process writes its own into
    a folder that is removed, and reads what later stages begin with on the disk that
    both see.

    Returns:
        What the first process returns.
    """
    from keras_msd.distribute import message_of_first
    from keras_msd.recipes.resources import RESULT, STEP
    from keras_msd.recipes.steps import steps_of

    steps: list[Step] = []
    while STEP in (message := json.loads(message_of_first())):
        steps = steps or steps_of(run)
        (step,) = (step for step in steps if step.name == message[STEP])
        with tempfile.TemporaryDirectory(prefix="keras_msd_") as parent:
            folder = Path(parent, step.name)
            folder.mkdir()
            step.run(run, folder)
    return dict(message[RESULT])


def run_all(
    names: Iterable[str | Path] | None = None,
    scale: str | None = "smoke",
    out_dir: str | Path | None = None,
    data_dir: str | Path | Sequence[str | Path] | None = None,
    store_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Run several recipes; one that fails does not stop the others.

    Steps that recipes have in common are done once, see `run(share_steps=True)`. Given
    again with the same folders it resumes where it was stopped.

    Args:
        names: Names or paths, in a list; by default every recipe that has the scale.
        scale: As for `run`.
        out_dir: Parent of the runs' folders, by default `runs/all/<scale>`; gets
            `results.json` and `report.html`: what each run came to.
        data_dir: As for `run`.
        store_dir: As for `run`.
        overrides: As for `run`, for all recipes.

    Returns:
        What `run` returns for each recipe, or `recipe`, `scale`, `folder` and `error`
        for one that failed; where it failed stands in `errors/<recipe>.txt`.

    Raises:
        InputError: `names` is no list of texts, or `out_dir` is itself a run.

    Example:
        >>> results = msd.recipes.run_all(["xkd_labb"], out_dir="runs")
        >>> print(results[0]["error"])
        InputError: There is no recipe `xkd_labb`. Did you mean `xkd_lab`? ...
    """
    from keras_msd.report import write_report_of_all

    a_list(names=names)
    wanted = with_scale(scale) if names is None else list(names)
    for name in wanted:
        utf8(str(name), "`names`")
    out = Path(out_dir or Path("runs", "all", scale or "default"))
    if (out / "recipe.toml").is_file():
        raise InputError(
            "`out_dir` must be the parent of runs. Received: "
            f"`{out}`, which is a run itself. Give another folder."
        )
    results = []
    for name in wanted:
        title = Path(name).name.removesuffix(".toml")
        where, trace = out / title, out / ERRORS / f"{title}.txt"
        options = scale, data_dir, store_dir, overrides
        try:
            result = run(name, where, *options, share_steps=True)
            remove(trace)
        except Exception as error:  # whatever it is, the other recipes are run
            cause = f"{type(error).__name__}: {error}"
            result = {"recipe": title, "scale": scale or "default", "error": cause}
            result["folder"] = str(where)
            trace.parent.mkdir(parents=True, exist_ok=True)
            trace.write_text(traceback.format_exc(), encoding="utf-8")
        results.append(result)
    write_json(out / RESULTS, results)
    write_report_of_all(out)
    return results


def with_scale(scale: str | None) -> list[str]:
    """Return the names of the recipes that have a scale; without one, all."""
    names = recipe_names()
    return [name for name in names if scale in (None, *describe(name).scales)]
