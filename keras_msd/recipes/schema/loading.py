"""Read a recipe: its base, its file, a scale, `--set`, each laid over the last."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from keras_msd.checks import InputError, one_of
from keras_msd.recipes.schema.folders import find_base, find_recipe
from keras_msd.recipes.schema.messages import Layer, complaint
from keras_msd.recipes.schema.recipe import About, Recipe

SCALES = ("smoke", "demo", "lab", "paper")


def load_recipe(
    name_or_path: str | Path,
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Recipe:
    """Return a checked recipe at one scale.

    Args:
        name_or_path: A recipe's name, or the path of a TOML file.
        scale: "smoke", "demo", "lab" or "paper"; `None` takes the recipe's default.
        overrides: Values by dotted key, such as
            `{"stages.teach_student.batch_size": 16}`.

    Raises:
        InputError: a file is missing or is not TOML; a key is unknown, missing or has a
            value that is not allowed; the recipe has no such scale.
    """
    layers = _files(find_recipe(name_or_path))
    about = _about(layers)
    chosen = scale or about.default_scale
    one_of(about.scales, scale=chosen)
    merged: dict[str, Any] = {}
    parts = [Layer(at.label, _without_scales(at.values)) for at in layers]
    for at in layers:
        parts.append(Layer(f"{at.label}, [{chosen}]", at.values.get(chosen, {})))
    parts.append(Layer("--set", _nested(overrides or {})))
    for part in parts:
        merged = merge(merged, part.values)
    try:
        return Recipe.model_validate(merged | {"scale": chosen})
    except ValidationError as error:
        raise complaint(error, Recipe, parts) from error


def describe(name_or_path: str | Path) -> About:
    """Return the `[recipe]` section of a recipe file, checked."""
    return _about(_files(find_recipe(name_or_path)))


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `above` over `below`: tables are merged, any other value is replaced."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return result


def parse_override(text: str) -> tuple[str, Any]:
    """Split "key=value" of `--set`; the value is TOML, or else a bare word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(
            f"`--set` takes KEY=VALUE. Received: {text!r}. "
            "Write for example: --set stages.teach_student.batch_size=16"
        )
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def _files(path: Path) -> list[Layer]:
    own = _read(path)
    base = own.pop("extends", None)
    layers = [Layer(str(path), own)]
    if base is not None:
        if not isinstance(base, str):
            raise InputError(
                f"`extends` in `{path}` must be the name of a recipe file without "
                f'.toml. Received: {base!r}. Write: extends = "base"'
            )
        below = find_base(path, base)
        shared = _read(below)
        if "extends" in shared:
            raise InputError(
                f"`{below}` is extended by `{path}` and extends "
                f"{shared['extends']!r} itself; one level is allowed. "
                "Write the values of one of them out."
            )
        layers.insert(0, Layer(str(below), shared))
    return layers


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"`{path}` is not UTF-8 at byte {error.start}. Save it as UTF-8."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"`{path}` is not valid TOML: {error}. Repair it.") from error


def _about(layers: list[Layer]) -> About:
    merged: Mapping[str, Any] = {}
    for at in layers:
        merged = merge(merged, {"recipe": at.values.get("recipe", {})})
    try:
        return About.model_validate(merged["recipe"])
    except ValidationError as error:
        inner = [Layer(at.label, at.values.get("recipe", {})) for at in layers]
        raise complaint(error, About, inner, "recipe") from error


def _without_scales(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in SCALES}


def _nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for dotted, value in overrides.items():
        nested = value
        for part in reversed(dotted.split(".")):
            nested = {part: nested}
        result = merge(result, nested)
    return result
