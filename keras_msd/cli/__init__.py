"""The command line `keras-msd`: each command is one call of a public function."""

import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import Annotated, Any, get_args

import typer

from keras_msd import __version__
from keras_msd.checks import InputError
from keras_msd.cli import distil, export, output, run, scores, use

app = typer.Typer(
    help="Make small multilingual sentence encoders from a teacher you trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Human = Callable[[Any], Iterable[Any]]
DESCRIBED = re.compile(r"^    (\w+): (.*(?:\n      .*)*)", re.MULTILINE)
EXAMPLE = re.compile(r"^Example: .*(?:\n\S.*)*", re.MULTILINE)
JSON = Parameter(
    "json",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print JSON.")],
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or a pipe may lack letters of the results.
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in words
    if broken := [word for word in words if "\0" in word]:  # no path may hold it
        message = f"An argument contains NUL: {broken[0]!r:.60}. Remove it."
        _fail(message, as_json)
    try:
        sys.exit(app(args=words, prog_name="keras-msd", standalone_mode=False) or 0)
    except InputError as error:
        _fail(str(error), as_json)
    except OSError as error:  # a full disk, a folder without rights, a long name
        _fail(
            f"{error}. Check the path, its permissions and the free disk space.",
            as_json,
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
        print(output.json_text({"error": message}))
    else:
        print(f"Error: {message}", file=sys.stderr)
    sys.exit(2)


def as_command(function: Callable[..., Any], human: Human | None) -> Callable[..., Any]:
    """Return a function as typer registers it.

    Parameters before `*` become arguments and those after it options; a bool becomes a
    flag. `Args:` of the docstring has their help. `Annotated` may add what typer needs
    to know besides, such as a short name.

    Args:
        function: Returns a result that JSON can hold.
        human: Yields what is printed of the result without `--json`. None is for a
            command that returns nothing.
    """
    text, _, described = cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    helps = {name: " ".join(of.split()) for name, of in DESCRIBED.findall(described)}
    declared = signature(function)
    found = [_declare(it, helps.get(it.name)) for it in declared.parameters.values()]

    @wraps(function)
    def command(json: bool = False, **given: Any) -> None:
        result = function(**given)
        if human:
            output.show(result, json, human)
        if isinstance(result, list) and any("error" in part for part in result):
            raise typer.Exit(1)

    # After \b, click leaves lines as they are: the example can be copied.
    command.__doc__ = EXAMPLE.sub(lambda it: "\b\n" + " ".join(it[0].split()), text)
    found += [JSON] if human else []
    command.__dict__["__signature__"] = Signature(found)
    return command


def _declare(parameter: Parameter, text: str | None) -> Parameter:
    """Return a parameter with its help, and the name of its option."""
    hint: Any = parameter.annotation
    extra: Any = None
    if hasattr(hint, "__metadata__"):
        hint, extra = get_args(hint)
    if extra is None:
        name = "--" + parameter.name.strip("_").replace("_", "-")
        option = parameter.kind is Parameter.KEYWORD_ONLY
        extra = typer.Option(name) if option else typer.Argument()
    extra = copy(extra)
    extra.help = extra.help or text
    return parameter.replace(annotation=Annotated[hint, extra])


# Of each command: its function, and what prints its result for people.
COMMANDS: dict[str, tuple[Any, Any]] = {
    "list": (run.list_recipes, output.recipes_text),
    "run": (run.run, output.run_text),
    "run-all": (run.run_all, output.runs_text),
    "embed": (use.embed, output.vectors_text),
    "report": (run.report, output.lines_text),
    "distil": (distil.distil, output.distil_text),
    "compare": (scores.compare, output.compared_text),
    "evaluate": (scores.evaluate, output.evaluation_text),
    "export": (export.export, output.lines_text),
    "push": (export.push, output.lines_text),
    "mine": (use.mine, output.mined_text),
    "search": (use.search, output.matches_text),
    "serve": (use.serve, None),
    "trim": (export.trim, output.lines_text),
}
for command, (function, human) in COMMANDS.items():
    app.command(command)(as_command(function, human))
