"""Read a recipe: files, scale and `--set`, each laid over the last, then checked."""

import tomllib
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from keras_msd import limits
from keras_msd.checks import InputError, one_of
from keras_msd.recipes.files import (
    Layer,
    Place,
    find_recipe,
    merge,
    read_layers,
    recipe_names,
)
from keras_msd.recipes.messages import unknown_key, validated
from keras_msd.recipes.published import with_published
from keras_msd.recipes.recipe import Recipe, check_budgets, recipe_model
from keras_msd.recipes.settings import About, StudentSettings
from keras_msd.recipes.stages import STAGES

SCALES = ("smoke", "demo", "lab", "backbone", "paper")


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
        >>> recipe.student.bottleneck_dim, recipe.stages.teach_student.batch_size
        (128, 32)
        >>> recipe.stages.teach_student.epochs
        20
    """
    place = find_recipe(name_or_path)
    _, merged, layers = _laid_over(place, scale, overrides)
    recipe = validated(recipe_model(), merged, layers)
    _check_students(recipe, layers)
    check_budgets(recipe)
    about = with_published(recipe.recipe, place.path)
    return recipe.model_copy(update={"recipe": about})


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
    return about, _without_none(merged), layers


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }


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
    body = "body" in (new.get("start"), old.get("start"))  # with a shape and a source
    replaced = ("tokenizer",) if body else ("assistant", "tokenizer")
    return {key: value for key, value in below.items() if key not in replaced}


def _exists(assistant: Mapping[str, Any]) -> bool:
    return assistant.get("source", "new") not in ("new", "none")


def _check_students(recipe: Recipe, layers: list[Layer]) -> None:
    """Check what variants and students' stages change, where it can be named."""
    names = [name for name, spec in STAGES.items() if spec.trains == "student"]
    shared = recipe.student.model_copy(update={"variants": {}}).model_dump()
    students = {"student": recipe.student}
    for name, changes in recipe.student.variants.items():
        key = f"student.variants.{name}"
        keys = [it for it in StudentSettings.model_fields if it not in ONE_FOR_ALL]
        for changed in changes:
            if changed not in keys:
                raise unknown_key(key, changed, changes[changed], keys, layers)
        students[key] = validated(StudentSettings, shared | changes, layers, key)
    for place, student in students.items():
        for name, changes in student.stages.items():
            if name not in names:
                key = f"{place}.stages"
                raise unknown_key(key, name, changes, names, layers)
            settings = recipe.stages[name]
            values, key = settings.model_dump() | changes, f"{place}.stages.{name}"
            validated(type(settings), values, layers, key)


ONE_FOR_ALL = ("kind", "variants")  # what no student has for itself


def describe(name_or_path: str | Path) -> About:
    """Return the `[recipe]` section of a recipe file, checked."""
    place = find_recipe(name_or_path)
    return with_published(_about(read_layers(place)), place.path)


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
        >>> recipes["lealla_small"]["expected"]["tatoeba"]
        80.7
    """
    return [about_recipe(name) for name in recipe_names()]


def about_recipe(name_or_path: str | Path) -> dict[str, Any]:
    """Return what one recipe is.

    Returns:
        The keys of `[recipe]`, and `command`, which runs it at its default scale.
        `expected` holds published scores x100, `rows` the same by model where a recipe
        has several rows of a table.

    Raises:
        InputError: There is no such recipe, or its file is broken.

    Example:
        >>> from keras_msd.recipes.loading import about_recipe
        >>> about_recipe("msd_lab")["command"]
        'keras-msd run msd_lab --data DATA'
    """
    place = find_recipe(name_or_path)
    about, values, _ = _laid_over(place)
    data = " --data DATA" if values["data"].get("kind") == "folder" else ""
    command = "demo" if name_or_path == "demo" else f"run {name_or_path}{data}"
    filled = with_published(about, place.path).model_dump(mode="json")
    return filled | {"command": f"keras-msd {command}"}


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
        parts = dotted.split(".")[::-1]
        limits.NESTING.check(len(parts), "`--set`", "Give a key of the recipe.")
        result = merge(result, reduce(lambda inner, part: {part: inner}, parts, value))
    return result
