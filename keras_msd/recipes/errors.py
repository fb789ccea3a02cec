"""What is said of a wrong recipe: its key, where that stands, the rule, a repair."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from keras_msd.checks import nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

OPTION = "--set"


class Layer(NamedTuple):
    """Values of one origin: `label` is the file and table, or the option."""

    label: str
    values: Mapping[str, Any]


def message(
    error: "ValidationError",
    model: type["BaseModel"],
    layers: Sequence[Layer],
    prefix: str,
) -> str:
    """Return a line for each finding of pydantic.

    Args:
        error: The findings.
        model: What the values must be.
        layers: Where the values came from, the lowest first.
        prefix: Dotted key in front of every key of `model`.
    """
    return "\n".join(_line(dict(it), model, layers, prefix) for it in error.errors())


def _line(
    finding: dict[str, Any],
    model: type["BaseModel"],
    layers: Sequence[Layer],
    prefix: str,
) -> str:
    """Return a finding of pydantic in words: the key, its layer, the rule."""
    inner = [str(part) for part in finding["loc"] if part != "[key]"]
    path = [*filter(None, prefix.split(".")), *inner]
    received, key, origin = finding["input"], ".".join(path), _origin(path, layers)
    if finding["type"] == "extra_forbidden":
        siblings = _keys(model, inner[:-1], whole=not prefix)
        return unknown_key(path, received, siblings, layers)
    if finding["type"] == "missing":
        whole = _file(layers)
        places = whole if origin == whole else f"{whole}, and in {origin}"
        return f"Key `{key}` is missing in {places}. Add it."
    rule = finding["msg"].removeprefix("Value error, ").removesuffix(".")
    text = f"`{key}` in {origin}: {rule}." if key else f"{origin}: {rule}."
    if not (isinstance(received, Mapping) or hasattr(received, "model_fields")):
        text += f" Received: {received!r:.200}."
    elif ". " not in rule:  # it names several keys, and does not say which to change
        text += " Change what it names."
    allowed = re.findall("'([^']*)'", finding.get("ctx", {}).get("expected", ""))
    return f"{text} {nearest(str(received), allowed)}".rstrip()


def unknown_key(
    path: Sequence[str], value: Any, known: Iterable[str], layers: Sequence[Layer]
) -> str:
    """Return what is said of a key that is none of those that its table may have."""
    keys = sorted(known)
    text = (
        f"Unknown key `{'.'.join(path)}` in {_origin(path, layers)}. Received: "
        f"{value!r:.200}. {nearest(path[-1], keys)} Allowed here: {', '.join(keys)}."
    )
    return " ".join(text.split())


def _origin(path: Sequence[str], layers: Sequence[Layer]) -> str:
    """Name the topmost layer that has the key, or the deepest table of its path."""
    depths = [(_depth(layer.values, path), place) for place, layer in enumerate(layers)]
    depth, place = max(depths)
    return f"`{layers[place].label}`" if depth else _file(layers)


def _file(layers: Sequence[Layer]) -> str:
    """Name the recipe's own file."""
    labels = [it.label for it in layers if "[" not in it.label and it.label != OPTION]
    return f"`{(labels or [layers[0].label])[-1]}`"


def _depth(values: Any, path: Sequence[str]) -> int:
    """Return how many parts of a path lead into nested values."""
    for depth, part in enumerate(path):
        if not isinstance(values, Mapping) or part not in values:
            return depth
        values = values[part]
    return len(path)


def _keys(model: Any, path: Sequence[str], whole: bool) -> list[str]:
    """Return the keys that are allowed in the table at `path` under `model`."""
    current = model
    for part in path:
        fields = getattr(current, "model_fields", None)
        # A table whose keys are names, or an array of tables, has its type at the end.
        current = fields[part].annotation if fields else get_args(current)[-1]
        if type(None) in get_args(current):
            current = get_args(current)[0]
    return [key for key in current.model_fields if path or not whole or key != "scale"]
