"""From TOML files, mappings and `--set` to a checked `Recipe`.

Values have layers. From the lowest to the topmost: what the recipe extends, the recipe,
the same two for the chosen scale, `--set`. An error names the layer that is wrong.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from keras_msd.checks import InputError, existing_file, nearest, one_of
from keras_msd.choices import Scale
from keras_msd.io.files import NESTING, cached, read_toml
from keras_msd.recipes.errors import OPTION, Layer, message, unknown_key

if TYPE_CHECKING:  # completion on the command line needs the names of recipes at once
    from pydantic import BaseModel

    from keras_msd.recipes.settings import About, Recipe

M = TypeVar("M", bound="BaseModel")
SCALES = get_args(Scale)
SHARED = "_shared"
ROWS = "rows"  # the table whose tables are recipes

# Many recipes need the same TOML files.
read_unchanged = cached(read_toml)


class Place(NamedTuple):
    """Where a recipe is written: a file, or one of the `[rows.<name>]` of a file."""

    path: Path
    row: str = ""

    def __str__(self) -> str:
        return f"{self.path}, [{ROWS}.{self.row}]" if self.row else str(self.path)


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
    """
    if isinstance(recipe, str | Path):
        return _checked(at_scale(read_layers(find_recipe(recipe)), scale, overrides))
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
    return _checked(at_scale([*layers, Layer(label, _own(values))]))


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
    """Return the place of a recipe, given its name or its file's path."""
    text = str(name)
    if text.endswith(".toml") or Path(text).name != text:
        path = existing_file(name, "recipe file")
        rows = read_toml(path).get(ROWS, {})
        if not isinstance(rows, Mapping):
            raise InputError(
                f"`{ROWS}` in `{path}` must be tables, such as [{ROWS}.one]. Received: "
                f"{rows!r:.60}. Remove it."
            )
        if rows:
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


def about_of(files: Sequence[Layer]) -> "About":
    """Return the checked `[recipe]` of layers."""
    from keras_msd.recipes.settings import About

    return _validated(About, merged(files).get("recipe", {}), files, "recipe")


def at_scale(
    files: Sequence[Layer],
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> list[Layer]:
    """Return the layers of a recipe at a scale; the topmost names the scale."""
    about = about_of(files)
    chosen = scale or merged(files).get("scale", about.default_scale)
    one_of(about.scales, scale=chosen)
    for label, values in files:
        if not isinstance(values.get(chosen, {}), Mapping):
            raise InputError(
                f"`{chosen}` in `{label}` must be a table. Received: "
                f"{values[chosen]!r:.60}. Write its values under [{chosen}]."
            )
    return [
        *(
            Layer(label, {k: v for k, v in values.items() if k not in SCALES})
            for label, values in files
        ),
        *(Layer(f"{it.label}, [{chosen}]", it.values.get(chosen, {})) for it in files),
        Layer(OPTION, _nested(overrides or {}) | {"scale": chosen}),
    ]


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the values of all layers, those of the topmost first."""
    values: dict[str, Any] = {}
    for layer in layers:
        values = merge(_without_other_assistant(values, layer.values), layer.values)
    return values


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `above` over `below`: tables are merged, any other value is replaced.

    None removes what is below it, and an empty table a value that is no table.
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        no_table = old is not None and not isinstance(old, Mapping)
        if value is None or (value == {} and no_table):
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


def _nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
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


def _checked(layers: Sequence[Layer]) -> "Recipe":
    """Return the merged values of layers as a `Recipe`."""
    from keras_msd.recipes.settings import Recipe, StudentSettings, stage_records

    records, values = stage_records(), merged(layers)
    if isinstance(tables := values.get("stages", {}), Mapping):
        _check_names("stages", tables, records, layers)
        values["stages"] = {
            name: _validated(
                record.settings,
                tables.get(name, {"skip": True}),
                layers,
                f"stages.{name}",
            )
            for name, record in records.items()
        }
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
    table: str,
    values: Mapping[str, Any],
    known: Iterable[str],
    layers: Sequence[Layer],
) -> None:
    for name, value in values.items():
        if name not in known:
            raise InputError(
                unknown_key([*table.split("."), name], value, known, layers)
            )


def _validated(
    model: type[M], values: Any, layers: Sequence[Layer], prefix: str = ""
) -> M:
    """Return the values of `layers` at the dotted key `prefix` as a model.

    The error has a line for each finding of pydantic.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(message(error, model, layers, prefix)) from error
