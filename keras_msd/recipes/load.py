"""From TOML files, mappings and `--set` to a checked `Recipe`.

Values have layers. From the lowest to the topmost: what the recipe extends, the recipe,
the same two for the chosen scale, `--set`. An error names the layer that is wrong.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from keras_msd.checks import InputError, existing_file, nearest, one_of
from keras_msd.choices import Scale
from keras_msd.io.files import NESTING, cached, read_toml

if TYPE_CHECKING:  # completion on the command line needs the names of recipes at once
    from pydantic import BaseModel

    from keras_msd.recipes.settings import About, Recipe

M = TypeVar("M", bound="BaseModel")
SCALES = get_args(Scale)
SHARED = "_shared"
ROWS = "rows"  # the table whose tables are recipes
OPTION = "--set"

# Many recipes need the same TOML files.
read_unchanged = cached(read_toml)


class Place(NamedTuple):
    """Where a recipe is written: a file, or one of the `[rows.<name>]` of a file."""

    path: Path
    row: str = ""

    def __str__(self) -> str:
        return f"{self.path}, [{ROWS}.{self.row}]" if self.row else str(self.path)


class Layer(NamedTuple):
    """Values of one origin: `label` is the file and table, or the option."""

    label: str
    values: Mapping[str, Any]


def load_recipe(
    recipe: "str | Path | Recipe",
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> "Recipe":
    """Return a checked recipe at one scale.

    Args:
        recipe: A recipe's name, or the path of a TOML file. A `Recipe` is returned as
            it is.
        scale: "smoke", "demo", "lab", "backbone" or "paper"; `None` takes the recipe's
            default.
        overrides: Values by dotted key, such as
            `{"stages.teach_student.batch_size": 16}`; None removes what the recipe has.

    Raises:
        InputError: A file is missing or is not TOML; a key is unknown, missing or has a
            value that is not allowed; the recipe has no such scale, or is a `Recipe`
            and `scale` or `overrides` should change it.

    Example:
        >>> changes = {"stages.teach_student.batch_size": 32}
        >>> recipe = msd.recipes.load_recipe("msd_minilm_b128_ru3", "paper", changes)
        >>> recipe.student.bottleneck_dim, recipe.stages["teach_student"].batch_size
        (128, 32)
        >>> recipe.stages["teach_student"].epochs
        20
    """
    if isinstance(recipe, str | Path):
        layers = read_layers(find_recipe(recipe))
        return _checked(*_at_scale(layers, scale, overrides))
    if scale is not None or overrides:
        raise InputError(
            "`scale` and `overrides` are for recipes in files. Received: a `Recipe` of "
            f"scale {recipe.scale}, scale={scale!r}, overrides={overrides!r:.80}. "
            "Change the values that you give to `recipe_from`."
        )
    return recipe


def recipe_from(values: Mapping[str, Any], label: str) -> "Recipe":
    """Return a checked recipe of values in memory.

    Args:
        values: What a recipe's file would hold. `extends` names a recipe, or "_shared"
            for the shared values; `scale` chooses another scale than the default.
        label: Names the origin of the values in error messages.

    Raises:
        InputError: A key is unknown, missing or has a value that is not allowed, or
            there is nothing of the name in `extends`.

    Example:
        >>> about = {"name": "mine", "title": "My recipe"}
        >>> values = {"extends": "xkd_lab", "recipe": about, "data": {"seed": 4}}
        >>> recipe = msd.recipes.recipe_from(values, "my settings")
        >>> recipe.recipe.name, recipe.data.seed
        ('mine', 4)
    """
    below = _extended(values.get("extends"), label)
    layers = read_layers(below) if below else []
    return _checked(*_at_scale([*layers, Layer(label, _own(values))]))


def describe(name_or_path: str | Path) -> "About":
    """Return the `[recipe]` section of a recipe file, checked."""
    return _about(read_layers(find_recipe(name_or_path)))


def list_recipes() -> list[dict[str, Any]]:
    """Return what every recipe is, by name.

    Returns:
        For each what `about_recipe` returns.

    Raises:
        InputError: A recipe file is broken.

    Example:
        >>> recipes = {about["name"]: about for about in msd.recipes.list_recipes()}
        >>> recipes["lealla_small"]["table"], recipes["lealla_small"]["row"]
        ('2; 3; 8', 'LEALLA-small')
    """
    return [about_recipe(name) for name in recipe_names()]


def about_recipe(name_or_path: str | Path) -> dict[str, Any]:
    """Return what one recipe is.

    Returns:
        The keys of `[recipe]`, and `command`, which runs it at its default scale.

    Raises:
        InputError: There is no such recipe, or its file is broken.

    Example:
        >>> from keras_msd.recipes.load import about_recipe
        >>> about_recipe("xkd_lab")["command"]
        'keras-msd run xkd_lab --data DATA'
    """
    files = read_layers(find_recipe(name_or_path))
    values, _ = _at_scale(files)
    data = " --data DATA" if values["data"].get("kind") == "folder" else ""
    command = f"keras-msd run {name_or_path}{data}"
    return _about(files).model_dump(mode="json") | {"command": command}


def parse_override(text: str) -> tuple[str, Any]:
    """Split "key=value" of `--set`; the value is TOML, or else a bare word.

    An empty table removes what recipes have there.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(
            f"`{OPTION}` takes KEY=VALUE. Received: {text!r}. "
            "Write for example: --set stages.teach_student.batch_size=16"
        )
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), None if found == {} else found


# Where recipes are.


@cache
def recipe_folder() -> Path:
    """Return the folder that holds the recipe files."""
    # A wheel carries the folder inside this package, a checkout beside keras_msd.
    inside = Path(__file__).parent / "configs"
    beside = Path(__file__).resolve().parents[2] / "recipes"
    return inside if inside.is_dir() else beside


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
    """Return the place of a recipe, given its name or its file's path.

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


def _extended(name: Any, label: str, folder: Path | None = None) -> Place | None:
    """Return what `extends = name` means, None if there is no name.

    A file of that name in the folder of the recipe comes first, then a recipe, then
    another file in the folder of all recipes, such as that of the shared values.
    """
    if name is None:
        return None
    inside = [it / f"{name}.toml" for it in (folder, recipe_folder()) if it]
    own, packaged = inside[0], inside[-1]
    if own.is_file():
        return Place(own)
    if place := recipe_places().get(str(name)):
        return place
    if packaged.is_file():
        return Place(packaged)
    searched = " or ".join(f"`{path.parent}`" for path in dict.fromkeys(inside))
    raise InputError(
        f'`{label}` says `extends = "{name}"`, but there is no `{name}.toml` in '
        f'{searched}. Put it there, or extend "{SHARED}".'
    )


# Layers of values.


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
        path, row = below
        packaged = path.parent == recipe_folder()
        values = (read_unchanged if packaged else read_toml)(path)
        if row:
            own = values[ROWS][row]
            header = {"name": row} | own.get("recipe", {})
            layers.append(Layer(str(below), own | {"recipe": header}))
        layers.append(Layer(str(path), _own(values)))
        below = _extended(values.get("extends"), str(path), path.parent)
    return layers[::-1]


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a file without those that lead to other recipes."""
    return {key: it for key, it in values.items() if key not in ("extends", ROWS)}


def _at_scale(
    files: Sequence[Layer],
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[Layer]]:
    """Return the merged values of a recipe at a scale, and their layers."""
    about = _about(files)
    chosen = scale or _merged(files).get("scale", about.default_scale)
    one_of(about.scales, scale=chosen)
    layers = [
        *(
            Layer(label, {k: v for k, v in values.items() if k not in SCALES})
            for label, values in files
        ),
        *(Layer(f"{it.label}, [{chosen}]", it.values.get(chosen, {})) for it in files),
        Layer(OPTION, nested(overrides or {})),
    ]
    return _merged(layers) | {"scale": chosen}, layers


def _about(files: Sequence[Layer]) -> "About":
    from keras_msd.recipes.settings import About

    return _validated(About, _merged(files).get("recipe", {}), files, "recipe")


def _merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the values of all layers, those of the topmost first."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(_without_other_assistant(merged, layer.values), layer.values)
    return merged


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `above` over `below`: tables are merged, any other value is replaced.

    None removes the value below it.
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


def _without_other_assistant(
    below: dict[str, Any], above: Mapping[str, Any]
) -> dict[str, Any]:
    """Drop the inherited `[assistant]` if the layer above switches its kind.

    The shape of a new assistant does not apply to one that exists, nor the reverse.
    `[tokenizer]` is dropped with it.
    """
    old, new = below.get("assistant", {}), above.get("assistant", {})
    if not (isinstance(old, Mapping) and isinstance(new, Mapping) and "source" in new):
        return below
    of_no_encoder = "new", "none"  # any other source is an encoder that exists
    if (old.get("source", "new") in of_no_encoder) == (new["source"] in of_no_encoder):
        return below
    dropped = "assistant", "tokenizer"
    return {key: value for key, value in below.items() if key not in dropped}


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as the tables that hold them."""
    result: dict[str, Any] = {}
    for dotted, value in overrides.items():
        *tables, key = dotted.split(".")
        NESTING.check(len(tables) + 1, f"`{OPTION}`", "Give a key of a recipe.")
        table = result
        for part in tables:
            inner = table.get(part)
            table[part] = dict(inner) if isinstance(inner, Mapping) else {}
            table = table[part]
        table[key] = value
    return result


# Checks.


def _checked(values: Mapping[str, Any], layers: Sequence[Layer]) -> "Recipe":
    """Return merged values as a `Recipe`.

    Raises:
        InputError: A key is unknown or missing, or has a value that is not allowed.
    """
    from keras_msd.recipes.settings import Recipe, StudentSettings, stage_records

    records, tables = stage_records(), values.get("stages", {})
    if isinstance(tables, Mapping):
        _check_names("stages", tables, [*records], layers)
        stages = {
            name: _validated(
                record.settings,
                tables.get(name, {"skip": True}),
                layers,
                f"stages.{name}",
            )
            for name, record in records.items()
        }
        values = {**values, "stages": stages}
    recipe = _validated(Recipe, values, layers)
    # What variants and students' stages change is checked here, where it can be named.
    changed = [name for name, it in records.items() if it.trains in ("student", "last")]
    shared = recipe.student.model_copy(update={"variants": {}}).model_dump()
    students = {"student": recipe.student}
    for name, changes in recipe.student.variants.items():
        key = f"student.variants.{name}"
        students[key] = _validated(StudentSettings, shared | changes, layers, key)
    for key, student in students.items():
        _check_names(f"{key}.stages", student.stages, changed, layers)
        for name, changes in student.stages.items():
            stage = recipe.stages[name]
            table = stage.model_dump() | changes
            _validated(type(stage), table, layers, f"{key}.stages.{name}")
    return recipe


def _check_names(
    table: str, values: Mapping[str, Any], known: list[str], layers: Sequence[Layer]
) -> None:
    for name, value in values.items():
        if name not in known:
            path = [*table.split("."), name]
            raise InputError(_unknown_key(path, value, known, layers))


def _validated(
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
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        findings = map(dict, error.errors())
        lines = (_line(finding, model, layers, prefix) for finding in findings)
        raise InputError("\n".join(lines)) from error


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
        return _unknown_key(path, received, siblings, layers)
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


def _unknown_key(
    path: Sequence[str], value: Any, known: Iterable[str], layers: Sequence[Layer]
) -> str:
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
