"""The command line `keras-msd`: each command is one call of a public function."""

import json as json_
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli import distil, evaluate, export, mine, output, search, serve, trim
from keras_msd.cli.given import (
    Data,
    Scale,
    Set,
    overrides,
    recipe_names,
    use_backend,
    use_devices,
)
from keras_msd.cli.output import Json, Source, open_source
from keras_msd.cli.stop import goes_on
from keras_msd.version import __version__

app = typer.Typer(
    help="Make small multilingual sentence encoders from a teacher you trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# What typer raises for wrong options and arguments, by a name that it gives away.
UsageError: Any = typer.BadParameter.__base__

Store = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of guide vectors, reused by runs."),
]


def _print_version(asked: bool) -> None:
    if asked:
        print(f"keras-msd {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake in the input ends it with exit code 2.

    With `--json` the message is `{"error": message}` on stdout, so that stdout holds
    JSON whatever happens, and else a line on stderr.

    Example:
        >>> from keras_msd.cli import main
        >>> try:
        ...     main(["search", "no-model", "Wo ist der Hund?", "no-file.txt"])
        ... except SystemExit as end:
        ...     print(end.code)
        2
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in words
    if broken := [word for word in words if "\0" in word]:  # no path may hold it
        message = f"No word may hold NUL. Received: {broken[0]!r:.60}. Take it out."
        _fail(message, as_json)
    try:
        sys.exit(app(args=words, prog_name="keras-msd", standalone_mode=False) or 0)
    except InputError as error:
        _fail(str(error), as_json)
    except OSError as error:  # a full disk, a folder without rights, a long name
        _fail(
            f"{error}. Look at the path, its rights and the room on its disk.", as_json
        )
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "keras-msd"
        message = error.format_message()
        end = "" if message.endswith((".", "?")) else "."
        _fail(f"{message}{end} See `{command} --help`.", as_json)
    except typer.Abort:
        sys.exit(1)


def _fail(message: str, as_json: bool) -> None:
    if as_json:
        print(json_.dumps({"error": message}, indent=2, ensure_ascii=False))
    else:
        print(f"Error: {message}", file=sys.stderr)
    sys.exit(2)


@app.command(epilog="Example: keras-msd demo --out runs/demo")
def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    store: Store = None,
    json: Json = False,
) -> None:
    """Teach a student on example sentences, score it and search with it."""
    from keras_msd.recipes import run_demo

    with goes_on():
        result = run_demo(out, store_dir=store)
    output.show(result, json, output.demo_text)
    if result["broken"]:
        raise typer.Exit(1)


@app.command("list", epilog="Example: keras-msd list msd_lab")
def list_(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A recipe's name or file: all about it. Or a part of names: those.",
            autocompletion=recipe_names,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the recipes with the paper's row and scores, or say what one is."""
    names = recipe_names()
    found = [name for name in names if (recipe or "") in name]
    if recipe and (recipe in names or not found):
        from keras_msd.recipes.loading import about_recipe

        output.show(about_recipe(recipe), json, output.recipe_text)
        return
    from keras_msd.recipes import list_recipes

    shown = [about for about in list_recipes() if about["name"] in found]
    output.show(shown, json, output.recipes_table)


@app.command(
    epilog="Example: keras-msd run msd_minilm_b128_ru3 --scale smoke "
    "--set stages.teach_student.batch_size=16"
)
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
        typer.Option(help="float32, bfloat16 or auto: what stages compute in."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="tensorflow or jax: what Keras computes with.")
    ] = None,
    devices: Annotated[
        str | None, typer.Option(help="cpu, or a GPU's number; else what there is.")
    ] = None,
    distribute: Annotated[
        str | None,
        typer.Option(help="none or data_parallel: every device of every process."),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Share steps with other runs.")
    ] = False,
    checkpoint_minutes: Annotated[
        float, typer.Option(help="Time between two checkpoints of a stage.")
    ] = 5.0,
    profile: Annotated[
        bool, typer.Option("--profile", help="Say what the time of stages went into.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write events for TensorBoard, too.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Do steps with damaged files again.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a recipe, or go on with a run that was stopped."""
    use_devices(devices)
    use_backend(backend)
    from keras_msd.recipes import run as run_recipe

    with goes_on():
        result = run_recipe(
            recipe,
            out_dir=out,
            scale=scale,
            data_dir=data,
            store_dir=store,
            overrides=overrides(set_) | _given(precision, distribute),
            share_steps=share,
            checkpoint_minutes=checkpoint_minutes,
            profile=profile,
            tensorboard=tensorboard,
            repair=repair,
        )
    output.show(result, json, output.run_text)


@app.command("run-all", epilog="Example: keras-msd run-all --scale smoke")
def run_all(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names; without any, all recipes.", autocompletion=recipe_names
        ),
    ] = None,
    scale: Scale = "smoke",
    data: Data = None,
    out: Annotated[
        Path | None, typer.Option(help="Parent of the runs; else runs/all/SCALE.")
    ] = None,
    store: Store = None,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Run several recipes, and write one report of all; a failed one stops no other."""
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
    truncate_dim: Annotated[
        int | None, typer.Option(help="Keep the first so many numbers of a vector.")
    ] = None,
    json: Json = False,
) -> None:
    """Turn sentences into vectors."""
    from keras_msd.arrays import check_prefix, unit_rows
    from keras_msd.data.readers.lines import read_texts

    sentences = [*(texts or []), *(read_texts(input_) if input_ else [])]
    if not sentences:
        raise InputError("There is nothing to embed. Give sentences or `--input FILE`.")
    model = open_source(encoder, light=True)
    check_prefix(truncate_dim, model.dim)
    vectors = model.encode(sentences)
    if truncate_dim is not None:
        vectors = unit_rows(vectors[:, :truncate_dim])
    result: dict[str, Any] = {"sentences": len(sentences), "dim": vectors.shape[1]}
    if out:
        output.write_vectors(out, sentences, vectors)
        result["file"] = str(out)
    else:
        result["vectors"] = vectors.tolist()
    output.show(result, json, output.vectors_text)


@app.command(epilog="Example: keras-msd report runs/demo")
def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a run, or of the runs of run-all.")
    ],
    json: Json = False,
) -> None:
    """Write a report anew from the files of one run or of several."""
    from keras_msd.report import write_report, write_report_of_all

    several = any(folder.glob("*/scores.json"))
    page = write_report_of_all(folder) if several else write_report(folder)
    output.show({"report": str(page)}, json, output.lines_text)


def _given(precision: str | None, distribute: str | None) -> dict[str, Any]:
    """Return what options of their own say of a recipe, by dotted key."""
    options = {"precision": precision, "distribute.strategy": distribute}
    return output.given(**options)


for command, example in (
    (distil.distil, distil.EXAMPLE),
    (evaluate.evaluate, evaluate.EXAMPLE),
    (export.export, export.EXAMPLE),
    (export.push, export.PUSH_EXAMPLE),
    (mine.mine, mine.EXAMPLE),
    (search.index, search.INDEX_EXAMPLE),
    (search.search, search.EXAMPLE),
    (serve.serve, serve.EXAMPLE),
    (trim.trim, trim.EXAMPLE),
):
    app.command(command.__name__, epilog=example)(command)
