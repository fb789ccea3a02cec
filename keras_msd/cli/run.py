"""The commands for recipes: `list`, `run`, `run-all`, `report`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.cli.output import says_how_to_resume, without_none
from keras_msd.recipes.load import load_recipe, parse_override, recipe_names

Recipe = Annotated[str, typer.Argument(autocompletion=recipe_names)]
Part = Annotated[str | None, typer.Argument(autocompletion=recipe_names)]
Recipes = Annotated[list[str] | None, typer.Argument(autocompletion=recipe_names)]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")]


def overrides(texts: list[str] | None) -> dict[str, Any]:
    """Return what `--set` gives, by dotted key."""
    return dict(map(parse_override, texts or []))


def list_recipes(recipe: Part = None) -> Any:
    """List the recipes with the paper's row and scores, or describe one.

    Example: keras-msd list xkd_lab

    Args:
        recipe: Name or file of a recipe to describe, or part of a name to filter.
    """
    from keras_msd.recipes import listing

    names = recipe_names()
    found = [name for name in names if (recipe or "") in name]
    if recipe and (recipe in names or not found):
        return listing.about_recipe(recipe)
    return [about for about in listing.list_recipes() if about["name"] in found]


def run(
    recipe: Recipe,
    *,
    scale: str | None = None,
    data: list[Path] | None = None,
    out: Path | None = None,
    store: Path | None = None,
    set_: Set = None,
    precision: str | None = None,
    distribute: str | None = None,
    share: bool = False,
    checkpoint_minutes: float = 5.0,
    profile: bool = False,
    tensorboard: bool = False,
    repair: bool = False,
) -> dict[str, Any]:
    """Run a recipe, or resume a run that was stopped.

    Example: keras-msd run msd_minilm_b128_ru3 --scale smoke --set
    stages.teach_student.batch_size=16

    Args:
        recipe: A recipe's name or a .toml file.
        scale: Size of the experiment: smoke (seconds), demo, lab, backbone or paper.
            Default: the recipe's.
        data: Data folder; repeat it to add training pairs from more folders.
        out: The run's folder.
        store: Folder to cache embeddings; runs can share it.
        set_: Change a value of the recipe.
        precision: Number format of the stages: float32, bfloat16 or auto.
        distribute: none, or data_parallel: all devices, under JAX of all processes.
        share: Keep finished steps in --store, and reuse those of other runs.
        checkpoint_minutes: Minutes between two checkpoints of a stage.
        profile: Report where the time of stages goes.
        tensorboard: Also write events for TensorBoard.
        repair: Run steps with damaged files again.
    """
    own = {"precision": precision, "distribute.strategy": distribute}
    loaded = load_recipe(recipe, scale, overrides(set_) | without_none(**own))
    # What imports more comes after the file was read.
    from keras_msd.recipes import run as run_recipe

    with says_how_to_resume():
        return run_recipe(
            loaded,
            out_dir=out,
            data_dir=data,
            store_dir=store,
            share_steps=share,
            checkpoint_minutes=checkpoint_minutes,
            profile=profile,
            tensorboard=tensorboard,
            repair=repair,
        )


def run_all(
    recipes: Recipes = None,
    *,
    scale: str | None = "smoke",
    data: list[Path] | None = None,
    out: Path | None = None,
    store: Path | None = None,
    set_: Set = None,
) -> list[dict[str, Any]]:
    """Run several recipes and write one report; if one fails, the others still run.

    Example: keras-msd run-all --scale smoke

    Args:
        recipes: Names; by default all recipes.
        scale: smoke, demo, lab, backbone or paper.
        data: Data folder; repeat it to add training pairs from more folders.
        out: Parent folder of the runs; default runs/all/SCALE.
        store: Folder to cache embeddings; runs can share it.
        set_: Change a value of every recipe.
    """
    from keras_msd.recipes import run_all as run_recipes

    with says_how_to_resume():
        return run_recipes(
            recipes or None,
            scale,
            out,
            data_dir=data,
            store_dir=store,
            overrides=overrides(set_),
        )


def report(folder: Path) -> dict[str, Any]:
    """Write the report of one run, or of several, from their files.

    Example: keras-msd report runs/demo

    Args:
        folder: The folder of a run, or the parent of several.
    """
    from keras_msd.report import write_report, write_report_of_all

    several = any(folder.glob("*/scores.json"))
    page = write_report_of_all(folder) if several else write_report(folder)
    return {"report": str(page)}
