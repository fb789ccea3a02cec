"""The files of a recipe as they are read: its base and, laid over it, the recipe."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError
from keras_msd.files import read_toml
from keras_msd.recipes.schema.folders import SHARED, shared_file


class Layer(NamedTuple):
    """Values of one origin: `label` is the file and table, or the option."""

    label: str
    values: Mapping[str, Any]


def read_layers(path: Path) -> list[Layer]:
    """Return the values of a recipe file, below them those of the file it extends.

    That file may extend another one, and so on; the lowest comes first.

    Raises:
        InputError: A file is missing or is not TOML, or one extends itself on the way.
    """
    layers: list[Layer] = []
    way = [path]
    values: Mapping[str, Any] = read_toml(path)
    while True:
        own = {key: value for key, value in values.items() if key != "extends"}
        layers.insert(0, Layer(str(way[-1]), own))
        base = values.get("extends")
        if base is None:
            return layers
        if not isinstance(base, str):
            raise InputError(
                f"`extends` in `{way[-1]}` must be the name of a recipe file without "
                f'.toml. Received: {base!r}. Write: extends = "{SHARED}"'
            )
        below = shared_file(way[-1], base, "extends")
        if below.resolve() in [it.resolve() for it in way]:
            names = " -> ".join(f"`{it}`" for it in (*way, below))
            raise InputError(
                f"A recipe must not extend itself. Received: {names}. Take `extends` "
                "out of one of them."
            )
        way.append(below)
        values = read_unchanged(below)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `above` over `below`: tables are merged, any other value is replaced."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return result


def read_unchanged(path: Path) -> Mapping[str, Any]:
    """Return a TOML file that many recipes need, read again only where it has changed.

    Raises:
        InputError: It is missing or is not TOML.
    """
    status = path.stat()
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache
def _read(path: Path, size: int, changed: int) -> Mapping[str, Any]:
    return read_toml(path)
