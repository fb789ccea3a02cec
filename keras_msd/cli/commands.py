"""The command line `keras-msd`: each command is one call of a public function."""

import json as json_
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli import (
    distil,
    evaluate,
    export,
    mine,
    output,
    run,
    search,
    trim,
)
from keras_msd.cli.output import Json, Source, open_source
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


def embed(
    encoder: Source,
    texts: Annotated[list[str] | None, typer.Argument(help="Sentences.")] = None,
    input_: Annotated[
        Path | None,
        typer.Option("--input", help="UTF-8 file with one sentence per line."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write sentences and vectors to this .npz file.")
    ] = None,
    truncate_dim: Annotated[
        int | None, typer.Option(help="Keep only this number of leading dimensions.")
    ] = None,
    json: Json = False,
) -> None:
    """Embed sentences.

    Example: keras-msd embed runs/demo/student --input lines.txt --out v.npz
    """
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


def serve(
    model: Annotated[
        str,
        typer.Argument(
            help="An encoder's folder, tiny12, small12, an artefact or "
            "hf://organisation/model."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all networks.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port; 0 for a free one.")
    ] = 8000,
    name: Annotated[
        str | None, typer.Option(help="Name of the model in requests; default its own.")
    ] = None,
) -> None:
    """Serve an OpenAI-compatible embeddings API over HTTP.

    Example: keras-msd serve tiny12 --port 8000
    """
    from keras_msd.serve import serve as run

    path = Path(model)
    if path.is_file() or (path / "card.json").is_file():
        from keras_msd.export import load_artefact  # needs no TensorFlow

        encoder: Any = load_artefact(model)
    else:
        from keras_msd import load_encoder

        encoder = load_encoder(model)
    run(encoder, name or path.name or path.resolve().name, host, port)


for command in (
    run.list_recipes,
    run.run,
    run.run_all,
    embed,
    run.report,
    distil.distil,
    evaluate.evaluate,
    export.export,
    export.push,
    mine.mine,
    search.index,
    search.search,
    serve,
    trim.trim,
):
    name = "list" if command is run.list_recipes else command.__name__
    app.command(name.replace("_", "-"))(command)
