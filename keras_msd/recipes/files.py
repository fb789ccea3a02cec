"""The files of recipes: where they are, and which one an error is about."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from keras_msd.checks import InputError, existing_file, nearest
from keras_msd.io.files import cached, read_toml

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")
SHARED = "_shared"
ROWS = "rows"  # the table whose tables are recipes


class Place(NamedTuple):
    """Where a recipe is written: a file, or one of the `[rows.<name>]` of a file."""

    path: Path
    row: str = ""

    def __str__(self) -> str:
        return f"{self.path}, [{ROWS}.{self.row}]" if self.row else str(self.path)


@cache
def recipe_folder() -> Path:
    """Return the folder that holds the recipe files."""
    # A wheel carries the folder inside this package, a checkout beside keras_msd.
    inside = Path(__file__).parent / "configs"
    return (
        inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "recipes"
    )


def recipe_places() -> dict[str, Place]:
    """Return the place of every recipe by name, without the shared values."""
    places: dict[str, Place] = {}
    for path in recipe_folder().glob("[!_]*.toml"):
        rows = read_unchanged(path).get(ROWS)
        places |= {row: Place(path, row) for row in rows or {}}
        places |= {} if rows else {path.stem: Place(path)}
    return dict(sorted(places.items()))


def recipe_names() -> list[str]:
    """Return the names of all recipes."""
    return list(recipe_places())


def find_recipe(name: str | Path) -> Place:
    """Return the place of a recipe named, or given by its file's path.

    Raises:
        InputError: no recipe has that name, no file is at that path, or the file holds
            several recipes.
    """
    text = str(name)
    if text.endswith(".toml") or Path(text).name != text:
        path = existing_file(name, "recipe file")
        if rows := read_toml(path).get(ROWS):
            raise InputError(
                f"A recipe's file must hold one. Received: `{path}`, which holds "
                f"{', '.join(rows)}. Give the name of one of them."
            )
        return Place(path)
    places = recipe_places()
    if text not in places:
        hint = nearest(text, places) or "`keras-msd list` names them all."
        raise InputError(
            f"There is no recipe `{text}`. {hint} Give a recipe's name, or the path of "
            "a .toml file."
        )
    return places[text]


def shared_file(recipe: Path, name: str) -> Path:
    """Return the file that `recipe` extends: beside it, else among the recipes.

    Args:
        recipe: The recipe's file.
        name: The file's name without .toml.

    Raises:
        InputError: There is no such file.
    """
    places = list(dict.fromkeys([recipe.parent, recipe_folder()]))
    for folder in places:
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    raise InputError(
        f'`{recipe}` says `extends = "{name}"`, but there is no `{name}.toml` in '
        f"{' or '.join(f'`{p}`' for p in places)}. Put it there, or extend "
        f'"{SHARED}".'
    )


# Many recipes need the same TOML files.
read_unchanged = cached(read_toml)


class Layer(NamedTuple):
    """Values of one origin: `label` is the file and table, or the option."""

    label: str
    values: Mapping[str, Any]


def read_layers(place: Place) -> list[Layer]:
    """Return the values of a recipe, below them those of what it extends.

    That may extend something else, and so on; the lowest comes first.

    Raises:
        InputError: A file is missing or is not TOML, or a recipe extends itself on the
            way.
    """
    layers: list[Layer] = []
    seen: list[Place] = []
    below: Place | None = place
    while below is not None:
        if below in seen:
            names = " -> ".join(f"`{it}`" for it in (*seen, below))
            raise InputError(
                f"A recipe must not extend itself. Received: {names}. Take `extends` "
                "out of one of them."
            )
        seen.append(below)
        packaged = below.path.parent == recipe_folder()
        values = (read_unchanged if packaged else read_toml)(below.path)
        if row := below.row:
            own = values[ROWS][row]
            header = {"name": row} | own.get("recipe", {})
            layers.append(Layer(str(below), own | {"recipe": header}))
        own = {k: v for k, v in values.items() if k not in ("extends", ROWS)}
        layers.append(Layer(str(below.path), own))
        below = _extended(below.path, values.get("extends"))
    return layers[::-1]


def _extended(path: Path, base: Any) -> Place | None:
    """Return the recipe, or the file of shared values, that a file extends."""
    if base is None:
        return None
    name = str(base)
    if (path.parent / f"{name}.toml").is_file():
        return Place(path.parent / f"{name}.toml")
    return recipe_places().get(name) or Place(shared_file(path, name))


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `above` over `below`: tables are merged, any other value is replaced.

    None takes out what stands below.
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merge(old if isinstance(old, Mapping) else {}, value)
        else:
            result[key] = value
    return result


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
    from pydantic import ValidationError  # the command line lists recipes without it

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
    model: type["BaseModel"],
    layers: Sequence[Layer],
    prefix: str,
) -> str:
    inner = [str(part) for part in finding["loc"] if part != "[key]"]
    path = [*filter(None, prefix.split(".")), *inner]
    key, origin = ".".join(path), _origin(path, layers)
    received = finding["input"]
    if finding["type"] == "extra_forbidden":
        siblings = _keys(model, inner[:-1], whole=not prefix)
        error = unknown_key(".".join(path[:-1]), path[-1], received, siblings, layers)
        return str(error)
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
