"""Read a recipe: its files, a scale, `--set`, each laid over the last, and check it."""

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
from keras_msd.recipes.messages import validated
from keras_msd.recipes.papers import About, read_paper
from keras_msd.recipes.published import with_published
from keras_msd.recipes.recipe import Recipe, recipe_model

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
            `{"stages.teach_student.batch_size": 16}`.

    Raises:
        InputError: a file is missing or is not TOML; a key is unknown, missing or has a
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
    _, merged, parts = _laid_over(place, scale, overrides)
    recipe = validated(recipe_model(), merged, parts)
    return recipe.model_copy(update={"recipe": _filled(recipe.recipe, place.path)})


def _laid_over(
    place: Place, scale: str | None = None, overrides: Mapping[str, Any] | None = None
) -> tuple[About, Mapping[str, Any], list[Layer]]:
    """Return the header of a recipe, its values at a scale, and where they are from."""
    layers = read_layers(place)
    about = _about(layers)
    chosen = scale or about.default_scale
    one_of(about.scales, scale=chosen)
    parts = [
        *(Layer(label, _without_scales(values)) for label, values in layers),
        *(Layer(f"{it.label}, [{chosen}]", it.values.get(chosen, {})) for it in layers),
        Layer("--set", nested(overrides or {})),
    ]
    merged: Mapping[str, Any] = {"scale": chosen}
    for part in parts:
        merged = merge(_without_other_assistant(merged, part.values), part.values)
    return about, merged, parts


def _without_other_assistant(
    below: Mapping[str, Any], above: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return `below` without what describes an assistant that `above` replaces.

    The shape of a new assistant says nothing of one that exists, nor the other way
    round: naming a `source` of the other kind begins `[assistant]` anew, and
    `[tokenizer]`, which follows it.
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


def describe(name_or_path: str | Path) -> About:
    """Return the `[recipe]` section of a recipe file, checked."""
    place = find_recipe(name_or_path)
    return _filled(_about(read_layers(place)), place.path)


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
    filled = _filled(about, place.path).model_dump(mode="json")
    return filled | {"command": f"keras-msd {command}"}


def parse_override(text: str) -> tuple[str, Any]:
    """Split "key=value" of `--set`; the value is TOML, or else a bare word.

    An empty table takes out what recipes have there: laid over it, it would change
    nothing.
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
    headers = [Layer(label, values.get("recipe", {})) for label, values in layers]
    merged = reduce(merge, ({"recipe": header.values} for header in headers))
    return validated(About, merged["recipe"], headers, "recipe")


def _filled(about: About, path: Path) -> About:
    header = with_published(
        about.model_dump(), path, lambda paper: read_paper(paper).model_dump()
    )
    return About.model_validate(header)


def _without_scales(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in SCALES}


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as the tables that hold them."""
    result: dict[str, Any] = {}
    for dotted, value in overrides.items():
        parts = dotted.split(".")[::-1]
        limits.NESTING.check(len(parts), "`--set`", "Give a key of the recipe.")
        result = merge(result, reduce(lambda inner, part: {part: inner}, parts, value))
    return result
