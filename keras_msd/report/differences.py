"""Which settings of runs are not as published."""

from collections.abc import Iterator
from typing import Any

from keras_msd.report.blocks import Block, Heading, Table, Text
from keras_msd.report.words import settings_in_words, value_in_words

NOT_PRINTED = "the paper prints none"
LABSE = "the paper prints none; LaBSE's public training settings"
DESCRIPTION = "the model's description prints none"
EXAMPLE = "the model's description prints none; sentence-transformers' example"
# By the beginning of a recipe's name: settings that are ours at the paper scale, too.
OURS: dict[str, dict[str, str]] = {
    "lealla_": {
        "data.languages": "LaBSE's pairs, in 109 languages, are not public",
        "data.max_characters": NOT_PRINTED,
        "evaluate.sts": "the paper has Tatoeba, UN and BUCC; STS is ours",
        "evaluate.retrieval": "the paper averages 112 languages of Tatoeba",
        "student.dropout": NOT_PRINTED,
        "stages.teach_thin_deep.warmup_steps": LABSE,
        "stages.teach_thin_deep.schedule": LABSE,
        "stages.teach_thin_deep.weight_decay": LABSE,
        "stages.teach_thin_deep.clip_norm": NOT_PRINTED,
        "stages.teach_thin_deep.margin": LABSE,
        "stages.teach_thin_deep.scale": LABSE,
        "stages.teach_thin_deep.dims": "a sum over 768 numbers would drown AMS",
        "stages.teach_thin_deep.chunk_size": "memory; the gradients are the same",
        "stages.reduce_teacher.batch_size": NOT_PRINTED,
        "stages.reduce_teacher.learning_rate": NOT_PRINTED,
        "stages.reduce_teacher.margin": LABSE,
        "stages.reduce_teacher.scale": LABSE,
    },
    "xkd_legal_bertimbau_": {
        "data.max_characters": DESCRIPTION,
        "data.max_length": EXAMPLE,
        "stages.teach_assistant.batch_size": EXAMPLE,
        "stages.teach_assistant.clip_norm": DESCRIPTION,
        "stages.regress_similarity.epochs": EXAMPLE,
        "stages.regress_similarity.batch_size": EXAMPLE,
        "stages.regress_similarity.warmup": EXAMPLE,
        "stages.regress_similarity.weight_decay": EXAMPLE,
        "stages.regress_similarity.clip_norm": DESCRIPTION,
        "stages.regress_similarity.sets": "the model card prints no scales",
        "stages.regress_similarity.evaluate_every": DESCRIPTION,
        "stages.regress_similarity.patience": DESCRIPTION,
    },
}


def differences(recipes: dict[str, dict[str, Any]]) -> Iterator[Block]:
    """Yield what each run has that its recipe's paper scale has not.

    Args:
        recipes: The contents of each run's recipe.toml by the name of its folder.
    """
    yield Heading("Settings that differ from the paper")
    yield Text("Parts of each recipe.toml that are not as at the recipe's paper scale.")
    published = {name: _paper_scale(own) for name, own in recipes.items()}
    for name, own in recipes.items():
        yield Heading(name, 3)
        yield from _of_one(own, published[name])
    ours = list(dict.fromkeys(line for at in published.values() for line in _ours(at)))
    if ours:
        yield Heading("Values of our own at the paper scale", 3)
        yield Table(["recipes", "setting", "value", "why"], ours, words=True)


def _of_one(
    recipe: dict[str, Any], published: dict[str, Any] | None
) -> Iterator[Block]:
    if published is None:
        yield Text("The recipe has no paper scale: all of its settings are our own.")
        return
    here, there = (dict(settings_in_words(one)) for one in (recipe, published))
    rows = [
        [part, here.get(part, "-"), there.get(part, "-")]
        for part in dict.fromkeys([*here, *there])
        if here.get(part) != there.get(part)
    ]
    if rows:
        yield Table(["part", "this run", "paper scale"], rows, words=True)
    elif _ours(published):
        yield Text("As at the recipe's paper scale, with the values of our own below.")
    else:
        yield Text("As published.")


def _paper_scale(recipe: dict[str, Any]) -> dict[str, Any] | None:
    """Return the settings of the packaged recipe of that name, if it has the scale."""
    from keras_msd.recipes.schema.folders import recipe_files
    from keras_msd.recipes.schema.loading import describe, load_recipe

    path = recipe_files().get(recipe.get("recipe", {}).get("name", ""))
    if path is None or "paper" not in describe(path).scales:
        return None
    return load_recipe(path, "paper").settings()


def _ours(published: dict[str, Any] | None) -> list[tuple[str, str, str, str]]:
    return [
        (f"{prefix}*", key, _value(published, key), why)
        for prefix, settings in OURS.items()
        for key, why in settings.items()
        if published and published["recipe"]["name"].startswith(prefix)
    ]


def _value(settings: dict[str, Any], dotted: str) -> str:
    value: Any = settings
    for part in dotted.split("."):
        value = value.get(part, {})
    return value_in_words(value) or "none"
