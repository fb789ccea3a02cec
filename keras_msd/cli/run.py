"""The commands that train: `list`, `run`, `run-all`, `report`, `distil`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.choices import MIN_PAIRS
from keras_msd.cli.output import codes, says_how_to_resume, without_none
from keras_msd.recipes.load import recipe_names

Recipe = Annotated[str, typer.Argument(autocompletion=recipe_names)]
Part = Annotated[str | None, typer.Argument(autocompletion=recipe_names)]
Recipes = Annotated[list[str] | None, typer.Argument(autocompletion=recipe_names)]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")]


def overrides(texts: list[str] | None) -> dict[str, Any]:
    """Return what `--set` gives, by dotted key."""
    from keras_msd.recipes.load import parse_override

    return dict(map(parse_override, texts or []))


def list_recipes(recipe: Part = None) -> Any:
    """List the recipes with the paper's row and scores, or describe one.

    Example: keras-msd list xkd_lab

    Args:
        recipe: Name or file of a recipe to describe, or part of a name to filter.
    """
    from keras_msd.recipes import load

    names = recipe_names()
    found = [name for name in names if (recipe or "") in name]
    if recipe and (recipe in names or not found):
        return load.about_recipe(recipe)
    return [about for about in load.list_recipes() if about["name"] in found]


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
    from keras_msd.recipes import load_recipe

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


def distil(
    pairs: Annotated[list[str] | None, typer.Argument()] = None,
    *,
    out: Path,
    max_mb: Annotated[float | None, typer.Option("--max-mb")] = None,
    minutes: float = 10.0,
    text: Annotated[list[Path] | None, typer.Option("--text")] = None,
    languages: Annotated[str | None, typer.Option(metavar="A,B")] = None,
    language: str | None = None,
    source_language: str | None = None,
    format: str | None = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B")] = None,
    start: str | None = None,
    guard: float = 1.0,
    no_guard: bool = False,
    teacher: str | None = None,
    multilingual: bool = False,
    updates: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    vocabulary_size: int | None = None,
    store: Path | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Make a small encoder for your languages and your size.

    It starts from small12 and multilingual-e5-small, if they are installed, with the
    tokens that your languages need and as many layers as fit; your pairs train it. The
    result is a LiteRT file with its tokenizer. A plan is printed first, a report page
    is written at the end. One source sentence in eight is held out for both.

    Example: keras-msd distil pairs.csv --out model --max-mb 16

    Example: keras-msd distil --languages sv,en --out model --max-mb 16

    Args:
        pairs: Pairs: .tsv, .csv (header: source,target or languages), .jsonl, .json,
            .tmx, .parquet, Moses; compressed or zipped too.
        out: Folder for the encoder, its file and the report.
        max_mb: Maximum size of the file in megabytes. Default: 16 with layers.
        minutes: Expected minutes of training; 0 trains nothing.
        text: Files with a sentence a line, which help to choose the vocabulary.
        languages: Codes of the languages that no pairs name. Without --text, the
            vocabulary is chosen by word frequencies.
        language: Code of the translations' language, if no name gives it.
        source_language: Code of the sources' language, if not English.
        format: Format of the files, if no suffix shows it.
        columns: Names or numbers (from 1) of both columns.
        start: Where training starts: e5-small, small12, tiny12, pairs (ridge baseline)
            or the folder of an encoder or checkpoint.
        guard: Keep the encoder before training if a score on general text falls by more
            than this many points.
        no_guard: Allow any loss on general text.
        teacher: Whose vectors are learnt: default (all-MiniLM-L6-v2), a folder,
            hf://org/name, ... Default: the start before it is cut to size.
        multilingual: Your teacher reads other languages than English.
        updates: Training steps, in place of --minutes.
        batch_size: Pairs in a batch.
        learning_rate: Highest learning rate.
        vocabulary_size: Maximum vocabulary.
        store: Folder to cache the teacher's vectors; runs can share it.
        seed: Seed for the order of the pairs.
    """
    print(f"Making an encoder in {out}", file=sys.stderr, flush=True)
    from keras_msd.data.readers import check_pairs, read_pairs
    from keras_msd.data.readers.lines import read_texts
    from keras_msd.data.words import check_listed
    from keras_msd.distillation.split import check_new

    if not pairs and not languages:
        raise InputError(
            "`distil` needs files of pairs, or --languages. Received: neither. Give "
            "one: keras-msd distil pairs.csv --out model"
        )
    if not pairs and not text:
        check_listed(codes(languages or ""))
    check_new(out)
    names = columns.split(",") if columns else None
    if pairs:
        files = read_pairs(pairs, format, language, source_language, names)
        check_pairs(files, MIN_PAIRS)
    texts = [line for path in text or () for line in read_texts(path)]
    # TensorFlow takes seconds to load.
    from keras_msd import distil as make

    with says_how_to_resume():
        return make(
            pairs or None,
            out,
            language=language,
            source_language=source_language,
            format=format,
            columns=names,
            texts=texts,
            languages=codes(languages or ""),
            max_mb=max_mb,
            teacher=teacher,
            multilingual=multilingual,
            start=start,
            guard=None if no_guard else guard,
            minutes=minutes,
            updates=updates,
            batch_size=batch_size,
            learning_rate=learning_rate,
            vocabulary_size=vocabulary_size,
            store_dir=store,
            seed=seed,
        )
