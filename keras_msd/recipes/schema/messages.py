"""Turn pydantic's findings into one message that names key, file and repair."""

import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from keras_msd.checks import InputError, nearest


class Layer(NamedTuple):
    """Values of one origin: `label` is the file and table, or the option."""

    label: str
    values: Mapping[str, Any]


def complaint(
    error: ValidationError,
    model: type[BaseModel],
    layers: Sequence[Layer],
    prefix: str = "",
) -> InputError:
    """Return an `InputError` with a line for each finding of `error`.

    Args:
        error: What pydantic raised for the merged values of `layers`.
        model: The model that was validated.
        layers: Where the values came from, the lowest first.
        prefix: Dotted key in front of every key of `model`.
    """
    return InputError(
        "\n".join(_line(dict(found), model, layers, prefix) for found in error.errors())
    )


def _line(
    found: dict[str, Any], model: type[BaseModel], layers: Sequence[Layer], prefix: str
) -> str:
    path = tuple(str(part) for part in found["loc"] if part != "[key]")
    key = ".".join([*([prefix] if prefix else []), *path])
    origin = _origin(path, layers)
    if found["type"] == "extra_forbidden":
        siblings = _keys(model, path[:-1])
        hint = nearest(path[-1], siblings)
        return " ".join(
            f"Unknown key `{key}` in {origin}. Received: {found['input']!r}. {hint} "
            f"Allowed here: {', '.join(sorted(siblings))}.".split()
        )
    if found["type"] == "missing":
        return f"Key `{key}` is missing in {origin}. Add it."
    rule = found["msg"].removeprefix("Value error, ")
    text = f"`{key}` in {origin}: {rule}." if key else f"{origin}: {rule}."
    received = found["input"]
    if not isinstance(received, BaseModel | Mapping):
        text += f" Received: {received!r}."
    allowed = re.findall("'([^']*)'", found.get("ctx", {}).get("expected", ""))
    return f"{text} {nearest(str(received), allowed)}".rstrip()


def _origin(path: tuple[str, ...], layers: Sequence[Layer]) -> str:
    # The value that counts is the topmost; for a missing key the deepest table given.
    for depth in range(len(path), 0, -1):
        for layer in reversed(layers):
            if _has(layer.values, path[:depth]):
                return f"`{layer.label}`"
    files = [layer.label for layer in layers if "[" not in layer.label]
    files = [label for label in files if label != "--set"]
    return f"`{files[-1]}`" if files else "the recipe"


def _has(values: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def _keys(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """Return the keys that are allowed in the table at `path` under `model`."""
    current: Any = model
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = _table(current.model_fields[part].annotation)
        elif typing.get_origin(current) is dict:
            current = typing.get_args(current)[1]
    if isinstance(current, type) and issubclass(current, BaseModel):
        return [key for key in current.model_fields if path or key != "scale"]
    return []


def _table(annotation: Any) -> Any:
    """Return what an optional table is when it is given."""
    given = [one for one in typing.get_args(annotation) if one is not type(None)]
    optional = typing.get_origin(annotation) is types.UnionType
    return given[0] if optional and len(given) == 1 else annotation
