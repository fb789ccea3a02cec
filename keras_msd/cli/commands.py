"""The command line `keras-msd`: each command is one call of a public function."""

import json as json_
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli import distil, export, mine, output, run, search, trim, use
from keras_msd.cli.command import as_command
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


# Of each command: its function, and what prints its result for people.
COMMANDS: dict[str, tuple[Any, Any]] = {
    "list": (run.list_recipes, output.recipes_text),
    "run": (run.run, output.run_text),
    "run-all": (run.run_all, output.runs_text),
    "embed": (use.embed, output.vectors_text),
    "report": (run.report, output.lines_text),
    "distil": (distil.distil, distil.distil_text),
    "evaluate": (use.evaluate, output.evaluation_text),
    "export": (export.export, output.lines_text),
    "push": (export.push, output.lines_text),
    "mine": (mine.mine, mine.mined_text),
    "index": (search.index, output.lines_text),
    "search": (search.search, output.matches_text),
    "serve": (use.serve, None),
    "trim": (trim.trim, output.lines_text),
}
for command, (function, human) in COMMANDS.items():
    app.command(command)(as_command(function, human))
