"""Turn pydantic's findings into one message that names key, file and repair."""

import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from keras_msd.checks import InputError, nearest
from keras_msd.recipes.files import Layer

M = TypeVar("M", bound=BaseModel)


def validated(
    model: type[M], values: Any, layers: Sequence[Layer], prefix: str = ""
) -> M:
    """Return values as a model.

    Args:
        model: What they must be.
        values: The merged values of `layers`.
        layers: Where the values came from, the lowest first.
        prefix: Dotted key in front of every key of `model`.

    Raises:
        InputError: They are something else, with a line for each finding of pydantic.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        findings = map(dict, error.errors())
        lines = (_line(finding, model, layers, prefix) for finding in findings)
        raise InputError("\n".join(lines)) from error


def _line(
    finding: dict[str, Any],
    model: type[BaseModel],
    layers: Sequence[Layer],
    prefix: str,
) -> str:
    path = tuple(str(part) for part in finding["loc"] if part != "[key]")
    key = ".".join(filter(None, (prefix, *path)))
    origin = _origin(path, layers)
    if finding["type"] == "extra_forbidden":
        siblings = _keys(model, path[:-1])
        hint = nearest(path[-1], siblings)
        return " ".join(
            f"Unknown key `{key}` in {origin}. Received: {finding['input']!r:.200}. "
            f"{hint} Allowed here: {', '.join(sorted(siblings))}.".split()
        )
    if finding["type"] == "missing":
        if origin != (whole := _file(layers)):
            origin = f"{whole}, and in {origin}"
        return f"Key `{key}` is missing in {origin}. Add it."
    rule = finding["msg"].removeprefix("Value error, ").removesuffix(".")
    text = f"`{key}` in {origin}: {rule}." if key else f"{origin}: {rule}."
    received = finding["input"]
    if not isinstance(received, BaseModel | Mapping):
        text += f" Received: {received!r:.200}."
    elif ". " not in rule:  # it names several keys, and does not say which to change
        text += " Change what it names."
    allowed = re.findall("'([^']*)'", finding.get("ctx", {}).get("expected", ""))
    return f"{text} {nearest(str(received), allowed)}".rstrip()


def _origin(path: tuple[str, ...], layers: Sequence[Layer]) -> str:
    # The value that counts is the topmost; for a missing key the deepest table given.
    depths = [(_depth(layer.values, path), place) for place, layer in enumerate(layers)]
    depth, place = max(depths, default=(0, 0))
    if depth:
        return f"`{layers[place].label}`"
    return _file(layers)


def _file(layers: Sequence[Layer]) -> str:
    """Name the recipe's own file."""
    labels = (layer.label for layer in layers)
    files = [label for label in labels if "[" not in label and label != "--set"]
    return f"`{files[-1]}`" if files else "the recipe"


def _depth(values: Any, path: tuple[str, ...]) -> int:
    """Return how many parts of a path lead into nested values."""
    for depth, part in enumerate(path):
        if not isinstance(values, Mapping) or part not in values:
            return depth
        values = values[part]
    return len(path)


def _keys(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """Return the keys that are allowed in the table at `path` under `model`."""
    current: Any = model
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = current.model_fields[part].annotation
            if typing.get_origin(current) is types.UnionType:  # an optional table
                current = typing.get_args(current)[0]
        else:  # a table whose keys are names, or an array of tables
            by_name = typing.get_origin(current) is dict
            current = typing.get_args(current)[by_name]
    return [key for key in current.model_fields if path or key != "scale"]
