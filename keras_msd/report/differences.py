"""What a recipe has that its paper has not."""

from typing import Any, NamedTuple

from keras_msd.recipes.files import recipe_names
from keras_msd.recipes.loading import describe, load_recipe
from keras_msd.recipes.stages import STAGE_KINDS

Section = dict[str, Any]
Line = tuple[str, str, str]
ABOUT = ("recipe", "scale", "budget")  # say nothing of what is done


class Differences(NamedTuple):
    """What is not as in the paper.

    Attributes:
        changed: Dotted key, value in this recipe, value in the recipe of that name at
            the `paper` scale, for each setting that is not the same.
        ours: Dotted key, value, reason: what is not the paper's at that scale either,
            or what the paper does not print. Settings that no stage reads are left out.
    """

    changed: list[Line]
    ours: list[Line]


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
    here, there = _flat(recipe), _flat(published)
    changed = [
        (key, here.get(key, "-"), there.get(key, "-"))
        for key in dict.fromkeys([*here, *there])
        if here.get(key) != there.get(key)
    ]
    ours = []
    for key, why in published["recipe"]["ours"].items():
        if _counts(published, key):
            value = in_words(_value(published, key))
            ours.append((key, value, why.replace("{value}", value)))
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


def _flat(settings: Section, place: str = "") -> dict[str, str]:
    """Return the values of settings in words by dotted key."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if not place and key in ABOUT:
            continue
        dotted = f"{place}{key}"
        if isinstance(value, dict):
            found |= _flat(value, f"{dotted}.")
        else:
            found[dotted] = in_words(value)
    return found


def _paper_scale(recipe: Section) -> Section | None:
    """Return the settings of the packaged recipe of that name, if it has the scale."""
    name = recipe.get("recipe", {}).get("name", "")
    if name not in recipe_names() or "paper" not in describe(name).scales:
        return None
    return load_recipe(name, "paper").settings()


def _counts(recipe: Section, key: str) -> bool:
    """Return whether a recipe has a setting, and something of it depends on it."""
    value, ran = _value(recipe, key), _stages_that_run(recipe)
    section, *parts = key.split(".")
    pairs = any(it not in STAGE_KINDS or STAGE_KINDS[it].reads_pairs() for it in ran)
    if value is None or section == "evaluate":
        return value is not None
    if parts[-1:] == ["skip"]:
        return bool(value and pairs)
    if section == "stages":
        return parts[0] in ran
    if section == "data":
        return pairs or bool(ran and parts == ["max_length"])
    return bool(ran and (section != "student" or _students(recipe)))


def _stages_that_run(recipe: Section) -> list[str]:
    """Return the stages that some model of a recipe goes through."""
    students, stages = _students(recipe), recipe.get("stages", {})
    return [key for key in stages if _runs(key, stages, students)]


def _students(recipe: Section) -> list[Section]:
    student = recipe.get("student", {})
    if student.get("kind") == "none":
        return []
    shared = {key: value for key, value in student.items() if key != "variants"}
    return [shared, *(shared | it for it in student.get("variants", {}).values())]


def _runs(name: str, stages: Section, students: list[Section]) -> bool:
    if name == "reduce_teacher" and not stages[name].get("widths"):
        thin_deep = _each("teach_thin_deep", stages, students)
        if "synchronized" not in [stage.get("feature") for stage in thin_deep]:
            return False
    return not all(stage.get("skip") for stage in _each(name, stages, students))


def _each(name: str, stages: Section, students: list[Section]) -> list[Section]:
    """Return the settings of a stage for every student."""
    shared = stages.get(name, {})
    # Of a stage that was registered when the run was made, nothing may be known now.
    kind = STAGE_KINDS[name] if name in STAGE_KINDS else None
    imitates = kind and kind.needs_assistant and kind.trains == "student"
    if not students and not imitates:
        return [shared]
    changes = [student.get("stages", {}) for student in students]
    return [shared | change.get(name, {}) for change in changes]


def _value(settings: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings
