"""The command line `keras-msd`: each command is one call of a public function."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd import cli_output as output
from keras_msd.checks import InputError

app = typer.Typer(
    help="Make small multilingual sentence encoders from a teacher you trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Make data.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe."),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder with parallel/, sts/, tatoeba/.")
]
Store = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of guide vectors, reused by runs."),
]
Scale = Annotated[
    str | None, typer.Option(help="smoke, demo, lab or paper; else the recipe's own.")
]
Source = Annotated[str, typer.Argument(help="Encoder: a folder, an artefact or hf://.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake in the input ends it with exit code 2."""
    # TensorFlow reports the processor on every start; real errors are exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # A run makes many models, and TensorFlow takes each new one for a retracing.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    try:
        app(args=arguments, prog_name="keras-msd")
    except InputError as error:
        output.complain(error)
        sys.exit(2)


@app.command(epilog="Example: keras-msd demo --out runs/demo")
def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    store: Store = None,
    json: Json = False,
) -> None:
    """Teach a student on made sentences, score it and search with it."""
    from keras_msd.recipes import run_demo

    result = run_demo(out, store_dir=store)
    output.show(result, json, output.demo_text)
    if result["broken"]:
        raise typer.Exit(1)


@app.command("list", epilog="Example: keras-msd list --json")
def list_(json: Json = False) -> None:
    """List the recipes with the paper's row and scores."""
    from keras_msd.recipes import list_recipes

    output.show(list_recipes(), json, output.recipes_table)


@app.command(
    epilog="Example: keras-msd run msd_minilm_b128_ru3 --scale smoke "
    "--set stages.teach_student.batch_size=16"
)
def run(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file.")],
    scale: Scale = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
    store: Store = None,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Run a recipe, or go on with a run that was stopped."""
    from keras_msd.recipes import run as run_recipe
    from keras_msd.recipes.loading import parse_override

    result = run_recipe(
        recipe,
        out_dir=out,
        scale=scale,
        data_dir=data,
        store_dir=store,
        overrides=dict(map(parse_override, set_ or [])),
    )
    output.show(result, json, output.run_text)


@app.command("run-all", epilog="Example: keras-msd run-all --scale smoke --out runs")
def run_all(
    recipes: Annotated[
        list[str] | None, typer.Argument(help="Names; without any, all recipes.")
    ] = None,
    scale: Scale = "smoke",
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Parent of the runs.")] = Path("runs"),
    store: Store = None,
    json: Json = False,
) -> None:
    """Run several recipes; one that fails does not stop the others."""
    from keras_msd.recipes import run_all as run_recipes

    results = run_recipes(recipes or None, scale, out, data_dir=data, store_dir=store)
    output.show(results, json, output.runs_text)
    if any("error" in result for result in results):
        raise typer.Exit(1)


@app.command(
    epilog="Example: keras-msd evaluate runs/demo/student --data DATA --languages de,fr"
)
def evaluate(
    encoder: Source,
    data: Annotated[Path, typer.Option("--data", help="Folder with sts/, tatoeba/.")],
    languages: Annotated[str, typer.Option(help="Two-letter codes, with commas.")],
    sts: Annotated[str, typer.Option(help="STS set.")] = "stsb",
    split: Annotated[str, typer.Option(help="Part of the STS set.")] = "dev",
    json: Json = False,
) -> None:
    """Score an encoder on an STS set, within and across languages."""
    from keras_msd import load_encoder
    from keras_msd.evaluate import sts_folder

    scores = sts_folder(
        load_encoder(encoder), data / "sts", _codes(languages), split, sts
    )
    output.show(scores, json, output.scores_table)


@app.command(
    epilog="Example: keras-msd embed runs/demo/student --input lines.txt --out v.npz"
)
def embed(
    encoder: Source,
    texts: Annotated[list[str] | None, typer.Argument(help="Sentences.")] = None,
    input_: Annotated[
        Path | None, typer.Option("--input", help="UTF-8 file, a sentence a line.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write sentences and vectors to this .npz.")
    ] = None,
    json: Json = False,
) -> None:
    """Turn sentences into vectors."""
    from keras_msd import load_encoder

    sentences = [*(texts or []), *(output.read_lines(input_) if input_ else [])]
    if not sentences:
        raise InputError("There is nothing to embed. Give sentences or `--input FILE`.")
    vectors = load_encoder(encoder).encode(sentences)
    result: dict[str, Any] = {"sentences": len(sentences), "dim": vectors.shape[1]}
    if out:
        output.write_vectors(out, sentences, vectors)
        result["file"] = str(out)
    else:
        result["vectors"] = vectors.tolist()
    output.show(result, json, output.vectors_text)


@app.command(
    epilog="Example: keras-msd search runs/demo/student 'Wo ist der Hund?' lines.txt"
)
def search(
    encoder: Source,
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    sentences: Annotated[Path, typer.Argument(help="UTF-8 file, a sentence a line.")],
    top: Annotated[int, typer.Option(help="Matches to show.")] = 5,
    json: Json = False,
) -> None:
    """Find the sentences nearest to a query."""
    from keras_msd import load_encoder
    from keras_msd import search as find

    found = find(load_encoder(encoder), query, output.read_lines(sentences), top)
    output.show([match._asdict() for match in found], json, output.matches_table)


@app.command(
    epilog="Example: keras-msd export runs/demo/student artefacts/student "
    "--preset saved_model"
)
def export(
    encoder: Source,
    path: Annotated[Path, typer.Argument(help="Where the artefact goes.")],
    preset: Annotated[
        str, typer.Option(help="Export settings: a name or a .toml file.")
    ] = "saved_model",
    json: Json = False,
) -> None:
    """Write an artefact that runs without keras_msd."""
    from keras_msd import load_encoder
    from keras_msd.export import export as export_encoder
    from keras_msd.export import read_preset

    settings = read_preset(preset)
    settings.pop("description", None)
    written = export_encoder(load_encoder(encoder), path, **settings)
    result = {"artefact": str(written), "format": settings["format"]}
    output.show(result, json, output.lines_text)


@app.command(epilog="Example: keras-msd report runs/demo")
def report(
    run_folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    json: Json = False,
) -> None:
    """Write a run's report anew from its files."""
    from keras_msd.report import write_report

    output.show({"report": str(write_report(run_folder))}, json, output.lines_text)


@data_app.command(
    "made", epilog="Example: keras-msd data made DATA --pairs 1000 --languages de,fr"
)
def data_made(
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    pairs: Annotated[int, typer.Option(help="Pairs for each language.")] = 1000,
    languages: Annotated[str, typer.Option(help="Codes, with commas.")] = "de,fr",
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    json: Json = False,
) -> None:
    """Write the made corpus: parallel sentences and a graded similarity set."""
    from keras_msd.data.made import write_made_data

    write_made_data(folder, languages=_codes(languages), pairs=pairs, seed=seed)
    output.show({"data": str(folder)}, json, output.lines_text)


def _codes(text: str) -> list[str]:
    return [code.strip() for code in text.split(",") if code.strip()]


if __name__ == "__main__":
    main()
