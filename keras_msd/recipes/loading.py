"""Recipes: all of their settings, and how they are read.

Files, scale and `--set` are laid over each other, then checked.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, get_args

from keras_msd.checks import InputError, one_of
from keras_msd.io import limits
from keras_msd.recipes.files import (
    Layer,
    Place,
    find_recipe,
    merge,
    read_layers,
    recipe_names,
    unknown_key,
    validated,
)
from keras_msd.recipes.settings import (
    About,
    Recipe,
    Scale,
    StudentSettings,
    stage_records,
)

SCALES = get_args(Scale)


def load_recipe(
    name_or_path: str | Path,
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Recipe:
    """Return a checked recipe at one scale.

    Args:
        name_or_path: A recipe's name, or the path of a TOML file.
        scale: "smoke", "demo", "lab", "backbone" or "paper"; `None` takes the recipe's
            default.
        overrides: Values by dotted key, such as
            `{"stages.teach_student.batch_size": 16}`; None removes what the recipe has.

    Raises:
        InputError: A file is missing or is not TOML; a key is unknown, missing or has a
            value that is not allowed; the recipe has no such scale.

    Example:
        >>> changes = {"stages.teach_student.batch_size": 32}
        >>> recipe = msd.recipes.load_recipe("msd_minilm_b128_ru3", "paper", changes)
        >>> recipe.student.bottleneck_dim, recipe.stages["teach_student"].batch_size
        (128, 32)
        >>> recipe.stages["teach_student"].epochs
        20
    """
    place = find_recipe(name_or_path)
    _, merged, layers = _laid_over(place, scale, overrides)
    recipe = checked(merged, layers)
    _check_students(recipe, layers)
    return recipe


def checked(values: Mapping[str, Any], layers: Sequence[Layer] = ()) -> Recipe:
    """Return the values of a recipe as a `Recipe`; `layers` are where they are from.

    Raises:
        InputError: A key is unknown or missing, or has a value that is not allowed.
    """
    given = values.get("stages", {})
    if isinstance(given, Mapping):
        for name in given:
            if name not in stage_records():
                raise unknown_key("stages", name, given[name], stage_records(), layers)
        stages = {}
        for name, spec in stage_records().items():
            table, key = given.get(name, {"skip": True}), f"stages.{name}"
            stages[name] = validated(spec.settings, table, layers, key)
        values = {**values, "stages": stages}
    return validated(Recipe, values, layers)


def _laid_over(
    place: Place, scale: str | None = None, overrides: Mapping[str, Any] | None = None
) -> tuple[About, dict[str, Any], list[Layer]]:
    """Return the header of a recipe, its values at a scale, and their origins."""
    files = read_layers(place)
    about = _about(files)
    chosen = scale or about.default_scale
    one_of(about.scales, scale=chosen)
    layers = [
        *(
            Layer(label, {k: v for k, v in values.items() if k not in SCALES})
            for label, values in files
        ),
        *(Layer(f"{it.label}, [{chosen}]", it.values.get(chosen, {})) for it in files),
        Layer("--set", nested(overrides or {})),
    ]
    merged: dict[str, Any] = {"scale": chosen}
    for layer in layers:
        merged = merge(_without_other_assistant(merged, layer.values), layer.values)
    return about, merged, layers


def _without_other_assistant(
    below: dict[str, Any], above: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `below` without what describes an assistant that `above` replaces.

    The shape of a new assistant does not apply to one that exists, nor the reverse: a
    `source` of the other kind resets `[assistant]`, and `[tokenizer]` with it.
    """
    old, new = below.get("assistant", {}), above.get("assistant", {})
    if not isinstance(new, Mapping) or not isinstance(new.get("source"), str):
        return below
    if _exists(old) == _exists(new):
        return below
    replaced = "assistant", "tokenizer"
    return {key: value for key, value in below.items() if key not in replaced}


def _exists(assistant: Mapping[str, Any]) -> bool:
    return assistant.get("source", "new") not in ("new", "none")


def _check_students(recipe: Recipe, layers: list[Layer]) -> None:
    """Check what variants and students' stages change, where it can be named."""
    names = [
        name
        for name, spec in stage_records().items()
        if spec.trains in ("student", "last")
    ]
    shared = recipe.student.model_copy(update={"variants": {}}).model_dump()
    students = {"student": recipe.student}
    for name, changes in recipe.student.variants.items():
        key = f"student.variants.{name}"
        students[key] = validated(StudentSettings, shared | changes, layers, key)
    for place, student in students.items():
        for name, changes in student.stages.items():
            key = f"{place}.stages"
            if name not in names:
                raise unknown_key(key, name, changes, names, layers)
            settings = recipe.stages[name]
            values = settings.model_dump() | changes
            validated(type(settings), values, layers, f"{key}.{name}")


def describe(name_or_path: str | Path) -> About:
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
        >>> from keras_msd.recipes.loading import about_recipe
        >>> about_recipe("xkd_lab")["command"]
        'keras-msd run xkd_lab --data DATA'
    """
    about, values, _ = _laid_over(find_recipe(name_or_path))
    data = " --data DATA" if values["data"].get("kind") == "folder" else ""
    command = f"keras-msd run {name_or_path}{data}"
    return about.model_dump(mode="json") | {"command": command}


def parse_override(text: str) -> tuple[str, Any]:
    """Split "key=value" of `--set`; the value is TOML, or else a bare word.

    An empty table removes what recipes have there.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(
            f"`--set` takes KEY=VALUE. Received: {text!r}. "
            "Write for example: --set stages.teach_student.batch_size=16"
        )
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), None if found == {} else found


def _about(layers: list[Layer]) -> About:
    headers: list[Mapping[str, Any]] = [it.values.get("recipe", {}) for it in layers]
    merged = reduce(lambda one, two: merge({"": one}, {"": two})[""], headers)
    return validated(About, merged, layers, "recipe")


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as the tables that hold them."""
    result: dict[str, Any] = {}
    for dotted, value in overrides.items():
        *tables, key = dotted.split(".")
        limits.NESTING.check(len(tables) + 1, "`--set`", "Give a key of the recipe.")
        table = result
        for part in tables:
            inner = table.get(part)
            table[part] = dict(inner) if isinstance(inner, Mapping) else {}
            table = table[part]
        table[key] = value
    return result
