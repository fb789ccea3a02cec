"""Turn pydantic's findings into messages that name key, file and repair."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

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
        values: The merged values of `layers`, those at `prefix`.
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


def unknown_key(
    table: str, key: str, value: Any, known: Iterable[str], layers: Sequence[Layer]
) -> InputError:
    """Return the error for a key that a table cannot have."""
    path, keys = [*filter(None, table.split(".")), key], sorted(known)
    text = (
        f"Unknown key `{'.'.join(path)}` in {_origin(path, layers)}. Received: "
        f"{value!r:.200}. {nearest(key, keys)} Allowed here: {', '.join(keys)}."
    )
    return InputError(" ".join(text.split()))


def _line(
    finding: dict[str, Any],
    model: type[BaseModel],
    layers: Sequence[Layer],
    prefix: str,
) -> str:
    inner = [str(part) for part in finding["loc"] if part != "[key]"]
    path = [*filter(None, prefix.split(".")), *inner]
    key, origin = ".".join(path), _origin(path, layers)
    received = finding["input"]
    if finding["type"] == "extra_forbidden":
        siblings = _keys(model, inner[:-1])
        error = unknown_key(".".join(path[:-1]), path[-1], received, siblings, layers)
        return str(error)
    if finding["type"] == "missing":
        whole = _file(layers)
        places = whole if origin == whole else f"{whole}, and in {origin}"
        return f"Key `{key}` is missing in {places}. Add it."
    rule = finding["msg"].removeprefix("Value error, ").removesuffix(".")
    text = f"`{key}` in {origin}: {rule}." if key else f"{origin}: {rule}."
    if not isinstance(received, BaseModel | Mapping):
        text += f" Received: {received!r:.200}."
    elif ". " not in rule:  # it names several keys, and does not say which to change
        text += " Change what it names."
    allowed = re.findall("'([^']*)'", finding.get("ctx", {}).get("expected", ""))
    return f"{text} {nearest(str(received), allowed)}".rstrip()


def _origin(path: Sequence[str], layers: Sequence[Layer]) -> str:
    # The value that counts is the topmost; for a missing key the deepest table given.
    depths = [(_depth(layer.values, path), place) for place, layer in enumerate(layers)]
    depth, place = max(depths, default=(0, 0))
    return f"`{layers[place].label}`" if depth else _file(layers)


def _file(layers: Sequence[Layer]) -> str:
    """Name the recipe's own file."""
    labels = (layer.label for layer in layers)
    files = [label for label in labels if "[" not in label and label != "--set"]
    return f"`{files[-1]}`" if files else "the recipe"


def _depth(values: Any, path: Sequence[str]) -> int:
    """Return how many parts of a path lead into nested values."""
    for depth, part in enumerate(path):
        if not isinstance(values, Mapping) or part not in values:
            return depth
        values = values[part]
    return len(path)


def _keys(model: Any, path: Sequence[str]) -> list[str]:
    """Return the keys that are allowed in the table at `path` under `model`."""
    current = model
    for part in path:
        fields = getattr(current, "model_fields", None)
        # A table whose keys are names, or an array of tables, has its type at the end.
        current = fields[part].annotation if fields else get_args(current)[-1]
        if type(None) in get_args(current):
            current = get_args(current)[0]
    return [key for key in current.model_fields if path or key != "scale"]
