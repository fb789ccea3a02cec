"""The commands on recipes: `list`, `run`, `run-all`, `report`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.cli import output
from keras_msd.cli.output import Json, goes_on
from keras_msd.recipes.files import recipe_names

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe."),
]
Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        help="Data folder; repeat it to add training pairs from more folders.",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option("--store", help="Folder to cache embeddings; runs can share it."),
]
Scale = Annotated[
    str | None,
    typer.Option(help="smoke, demo, lab, backbone or paper; default: the recipe's."),
]


def overrides(texts: list[str] | None) -> dict[str, Any]:
    """Return what `--set` gives, by dotted key."""
    from keras_msd.recipes.loading import parse_override

    return dict(map(parse_override, texts or []))


def list_recipes(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="Name or file of a recipe to describe, or part of a name to filter.",
            autocompletion=recipe_names,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the recipes with the paper's row and scores, or describe one.

    Example: keras-msd list msd_lab
    """
    names = recipe_names()
    found = [name for name in names if (recipe or "") in name]
    if recipe and (recipe in names or not found):
        from keras_msd.recipes.loading import about_recipe

        output.show(about_recipe(recipe), json, output.recipe_text)
        return
    from keras_msd.recipes import loading

    shown = [about for about in loading.list_recipes() if about["name"] in found]
    output.show(shown, json, output.recipes_table)


def run(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe's name or a .toml file.", autocompletion=recipe_names
        ),
    ],
    scale: Scale = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
    store: Store = None,
    set_: Set = None,
    precision: Annotated[
        str | None,
        typer.Option(help="Number format of the stages: float32, bfloat16 or auto."),
    ] = None,
    distribute: Annotated[
        str | None,
        typer.Option(help="none, or data_parallel: all devices of all processes."),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Share steps with other runs.")
    ] = False,
    checkpoint_minutes: Annotated[
        float, typer.Option(help="Minutes between two checkpoints of a stage.")
    ] = 5.0,
    profile: Annotated[
        bool, typer.Option("--profile", help="Report where the time of stages goes.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write events for TensorBoard.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Run steps with damaged files again.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a recipe, or resume a run that was stopped.

    Example: keras-msd run msd_minilm_b128_ru3 --scale smoke --set
    stages.teach_student.batch_size=16
    """
    own = {"precision": precision, "distribute.strategy": distribute}
    from keras_msd.recipes import run as run_recipe

    with goes_on():
        result = run_recipe(
            recipe,
            out_dir=out,
            scale=scale,
            data_dir=data,
            store_dir=store,
            overrides=overrides(set_) | output.given(**own),
            share_steps=share,
            checkpoint_minutes=checkpoint_minutes,
            profile=profile,
            tensorboard=tensorboard,
            repair=repair,
        )
    output.show(result, json, output.run_text)


def run_all(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names; by default all recipes.", autocompletion=recipe_names
        ),
    ] = None,
    scale: Scale = "smoke",
    data: Data = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Parent folder of the runs; default runs/all/SCALE."),
    ] = None,
    store: Store = None,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Run several recipes and write one report; if one fails, the others still run.

    Example: keras-msd run-all --scale smoke
    """
    from keras_msd.recipes import run_all as run_recipes

    with goes_on():
        results = run_recipes(
            recipes or None,
            scale,
            out,
            data_dir=data,
            store_dir=store,
            overrides=overrides(set_),
        )
    output.show(results, json, output.runs_text)
    if any("error" in result for result in results):
        raise typer.Exit(1)


def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a run, or the parent of several.")
    ],
    json: Json = False,
) -> None:
    """Write the report of one run, or of several, from their files.

    Example: keras-msd report runs/demo
    """
    from keras_msd.report import write_report, write_report_of_all

    several = any(folder.glob("*/scores.json"))
    page = write_report_of_all(folder) if several else write_report(folder)
    output.show({"report": str(page)}, json, output.lines_text)
