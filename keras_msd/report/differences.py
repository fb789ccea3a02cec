"""How a recipe differs from its paper."""

from typing import Any, NamedTuple

from keras_msd.files import dotted
from keras_msd.recipes.files import recipe_names
from keras_msd.recipes.loading import describe, load_recipe
from keras_msd.recipes.settings import Recipe
from keras_msd.recipes.stages import STAGES

Line = tuple[str, str, str]
ABOUT = ("recipe", "scale")  # sections that change no result


class Differences(NamedTuple):
    """What is not as in the paper.

    Attributes:
        changed: Dotted key, value in this recipe, value in the recipe of that name at
            the `paper` scale, for each setting that differs.
        ours: Dotted key, value, reason: settings that differ from the paper at that
            scale too, or that the paper does not print. Settings that no stage reads
            are left out.
    """

    changed: list[Line]
    ours: list[Line]


def differences(recipe: dict[str, Any]) -> Differences | None:
    """Return how a recipe differs from its paper.

    Args:
        recipe: The content of a run's recipe.toml.

    Returns:
        None where the packaged recipe of that name has no paper scale, or there is
        none.

    Example:
        >>> from keras_msd.report.differences import differences
        >>> recipe = msd.recipes.load_recipe("msd_xlmr_mean", "paper").settings()
        >>> differences(recipe).ours[0][:2]
        ('evaluate.sets', 'sts2017-extended, tatoeba')
    """
    name = recipe.get("recipe", {}).get("name", "")
    if name not in recipe_names() or "paper" not in describe(name).scales:
        return None
    paper = load_recipe(name, "paper")
    here, there = _flat(recipe), _flat(paper.settings())
    changed = [
        (key, here.get(key, "-"), there.get(key, "-"))
        for key in dict.fromkeys([*here, *there])
        if here.get(key) != there.get(key)
    ]
    ours = []
    for key, why in paper.recipe.ours.items():
        value: Any = paper.settings()
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None and _is_read(paper, key):
            shown = in_words(value)
            ours.append((key, shown, why.replace("{value}", shown)))
    return Differences(changed, ours)


def in_words(value: Any) -> str:
    """Return a value of a recipe without the signs of TOML."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {in_words(part)}" for key, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _flat(settings: dict[str, Any]) -> dict[str, str]:
    """Return the values of settings in words by dotted key."""
    read = {key: it for key, it in settings.items() if key not in ABOUT}
    return {key: in_words(value) for key, value in dotted(read).items()}


def _is_read(recipe: Recipe, key: str) -> bool:
    """Tell whether something that a recipe does depends on a setting."""
    section, *parts = key.split(".")
    ran = {name for name, _ in recipe.stages_in_use()}
    ran |= {"reduce_teacher"} if recipe.reduces_teacher else set()
    pairs = any(STAGES[name].rows == "pairs" for name in ran)
    if section == "stages" and parts[-1] == "skip":
        return pairs and recipe.stages[parts[0]].skip
    if section == "stages":
        return parts[0] in ran
    if section == "data" and parts != ["max_length"]:
        return pairs
    if section == "student":
        return bool(ran and recipe.student.each())
    return bool(ran) or section == "evaluate"
