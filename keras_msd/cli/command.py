"""How a plain function becomes a command: its signature and docstring declare it."""

import re
from collections.abc import Callable, Iterable
from copy import copy
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import Annotated, Any, get_args

import typer

from keras_msd.cli.output import show

Human = Callable[[Any], Iterable[Any]]
DESCRIBED = re.compile(r"^    (\w+): (.*(?:\n      .*)*)", re.MULTILINE)
JSON = Parameter(
    "json",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print JSON.")],
)


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
            show(result, json, human)
        if isinstance(result, list) and any("error" in part for part in result):
            raise typer.Exit(1)

    command.__doc__ = text
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
