"""What a recipe has that its paper has not, as reports say it."""

from typing import Any, NamedTuple

from keras_msd.recipes.schema.folders import recipe_files
from keras_msd.recipes.schema.loading import describe, load_recipe
from keras_msd.recipes.stages.kinds import STAGE_KINDS
from keras_msd.report.blocks import Block, Table, Text
from keras_msd.report.words import (
    Section,
    settings_in_words,
    stages_that_run,
    students_of,
    value_in_words,
)

NO_PAPER_SCALE = "The recipe has no paper scale: all of its settings are our own."
OURS = ("setting", "value at the paper scale", "not the paper's: why")
Line = tuple[str, str, str]


class Differences(NamedTuple):
    """What is not as in the paper.

    Attributes:
        changed: Part, this recipe, the recipe of that name at the `paper` scale: each
            part that is not the same, in words.
        ours: Setting, value, reason: what is not the paper's at that scale either, or
            what the paper does not print. Settings that no stage reads are left out.
    """

    changed: list[Line]
    ours: list[Line]

    def block(self) -> Block:
        """Return what has changed, or whether all is as published."""
        if self.changed:
            return Table(["part", "this run", "paper scale"], self.changed, words=True)
        if self.ours:
            return Text(
                "As at the recipe's paper scale. What is not the paper's there stands "
                "below."
            )
        return Text("As published.")


def differences(recipe: Section) -> Differences | None:
    """Return what a recipe has that its paper has not.

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
    published = _paper_scale(recipe)
    if published is None:
        return None
    here, there = dict(settings_in_words(recipe)), dict(settings_in_words(published))
    changed = [
        (part, here.get(part, "-"), there.get(part, "-"))
        for part in dict.fromkeys([*here, *there])
        if here.get(part) != there.get(part)
    ]
    ours = [
        (key, value := value_in_words(_value(published, key)), _with_value(why, value))
        for key, why in published["recipe"]["ours"].items()
        if _counts(published, key)
    ]
    return Differences(changed, ours)


def _paper_scale(recipe: Section) -> Section | None:
    """Return the settings of the packaged recipe of that name, if it has the scale."""
    path = recipe_files().get(recipe.get("recipe", {}).get("name", ""))
    if path is None or "paper" not in describe(path).scales:
        return None
    return load_recipe(path, "paper").settings()


def _counts(recipe: Section, key: str) -> bool:
    """Return whether a recipe has a setting, and something of it depends on it."""
    value, ran = _value(recipe, key), stages_that_run(recipe)
    section, *parts = key.split(".")
    pairs = any(it not in STAGE_KINDS or STAGE_KINDS[it].reads_pairs for it in ran)
    if value is None or section == "evaluate":
        return value is not None
    if parts[-1:] == ["skip"]:
        return bool(value and pairs)
    if section == "stages":
        return parts[0] in ran
    if section == "data":
        return pairs or bool(ran and parts == ["max_length"])
    return bool(ran and (section != "student" or students_of(recipe)))


def _with_value(why: str, value: str) -> str:
    """Return a reason with the setting's value where it leaves room for it."""
    return why.replace("{value}", value)


def _value(settings: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings
