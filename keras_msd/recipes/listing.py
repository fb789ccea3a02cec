"""What recipes are, without loading them: `keras-msd list` shows it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_msd.recipes.load import (
    about_of,
    at_scale,
    find_recipe,
    merged,
    read_layers,
    recipe_names,
)
from keras_msd.recipes.settings import About


def describe(name_or_path: str | Path) -> About:
    """Return the `[recipe]` section of a recipe file, checked."""
    return about_of(read_layers(find_recipe(name_or_path)))


def list_recipes() -> list[dict[str, Any]]:
    """Return what `about_recipe` returns of every recipe.

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
        >>> from keras_msd.recipes.listing import about_recipe
        >>> about_recipe("xkd_lab")["command"]
        'keras-msd run xkd_lab --data DATA'
    """
    files = read_layers(find_recipe(name_or_path))
    values = merged(at_scale(files))
    about, data = about_of(files), values.get("data")
    folder = isinstance(data, Mapping) and data.get("kind") == "folder"
    command = f"keras-msd run {name_or_path}{' --data DATA' if folder else ''}"
    return about.model_dump(mode="json") | {"command": command}


def with_scale(scale: str | None) -> list[str]:
    """Return the names of the recipes that have a scale; without one, all."""
    names = recipe_names()
    return [name for name in names if scale in (None, *describe(name).scales)]
