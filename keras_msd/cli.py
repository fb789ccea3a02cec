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
from keras_msd.cli_data import codes as _codes
from keras_msd.cli_data import data_app
from keras_msd.cli_evaluate import EXAMPLE as EVALUATE_EXAMPLE
from keras_msd.cli_evaluate import evaluate
from keras_msd.cli_mine import EXAMPLE as MINE_EXAMPLE
from keras_msd.cli_mine import mine
from keras_msd.cli_trim import EXAMPLE as TRIM_EXAMPLE
from keras_msd.cli_trim import trim

app = typer.Typer(
    help="Make small multilingual sentence encoders from a teacher you trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
    share: Annotated[
        bool, typer.Option("--share", help="Share steps with other runs.")
    ] = False,
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
        share_steps=share,
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
    """Run several recipes, and write one report of all; a failed one stops no other."""
    from keras_msd.recipes import run_all as run_recipes

    results = run_recipes(recipes or None, scale, out, data_dir=data, store_dir=store)
    output.show(results, json, output.runs_text)
    if any("error" in result for result in results):
        raise typer.Exit(1)


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
    "--preset litert_int8 --languages en,de"
)
def export(
    encoder: Source,
    path: Annotated[Path, typer.Argument(help="Where the artefact goes.")],
    preset: Annotated[
        str | None, typer.Option(help="Export settings: a name or a .toml file.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="saved_model, litert, litert_text, onnx, ..."),
    ] = None,
    quantize: Annotated[
        str | None, typer.Option(help="fp16, int8, int4_table or int4.")
    ] = None,
    languages: Annotated[str, typer.Option(help="Codes, with commas.")] = "",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with sts/, to score before and after."),
    ] = None,
    sts: Annotated[str, typer.Option(help="STS set.")] = "stsb",
    split: Annotated[str, typer.Option(help="Part of the STS set.")] = "dev",
    min_cosine: Annotated[
        float | None, typer.Option(help="Smallest cosine to the encoder.")
    ] = None,
    max_sts_loss: Annotated[
        float | None, typer.Option(help="Points of Spearman that may be lost.")
    ] = None,
    license_: Annotated[
        str | None, typer.Option("--license", help="Licence of the artefact.")
    ] = None,
    teacher_license: Annotated[
        str | None, typer.Option(help="Licence of the teacher.")
    ] = None,
    data_license: Annotated[
        str | None, typer.Option(help="Licence of the training sentences.")
    ] = None,
    json: Json = False,
) -> None:
    """Write an artefact that runs without keras_msd, and prove it in its runtime."""
    from keras_msd import load_encoder
    from keras_msd.evaluate import read_sts_folder
    from keras_msd.export import export as export_encoder
    from keras_msd.export import read_card, read_preset

    settings: dict[str, Any] = read_preset(preset) if preset else {}
    settings.pop("description", None)
    given = {
        "format": format_,
        "quantize": quantize,
        "min_cosine": min_cosine,
        "max_sts_loss": max_sts_loss,
        "license": license_,
        "teacher_license": teacher_license,
        "data_license": data_license,
    }
    settings |= {key: value for key, value in given.items() if value is not None}
    codes = _codes(languages)
    if data:
        # A set has files for fewer languages than an encoder knows.
        folder = data / "sts"
        scored = [c for c in codes if (folder / f"{sts}.{split}.{c}.tsv.gz").is_file()]
        settings["sts"] = read_sts_folder(folder, scored, split, sts)
        settings["sts_name"] = f"{sts} {split} in {', '.join(settings['sts'])}"
    written = export_encoder(load_encoder(encoder), path, languages=codes, **settings)
    card = read_card(written)
    shown = {key: card[key] for key in ("format", "quantize", "bytes", "parity")}
    output.show({"artefact": str(written)} | shown, json, output.export_text)


@app.command(epilog="Example: keras-msd report runs/demo")
def report(
    run_folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    json: Json = False,
) -> None:
    """Write a run's report anew from its files."""
    from keras_msd.report import write_report

    output.show({"report": str(write_report(run_folder))}, json, output.lines_text)


app.command("evaluate", epilog=EVALUATE_EXAMPLE)(evaluate)
app.command("mine", epilog=MINE_EXAMPLE)(mine)
app.command("trim", epilog=TRIM_EXAMPLE)(trim)


if __name__ == "__main__":
    main()
