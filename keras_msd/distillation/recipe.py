"""The recipe of a `distil` run: one stage over one encoder."""

from pathlib import Path
from typing import Any

from keras_msd.choices import WEIGHT_DECAY
from keras_msd.distillation.plan import Plan
from keras_msd.distillation.size import SCHEME
from keras_msd.recipes.load import recipe_from
from keras_msd.recipes.settings import Recipe

GENERAL = "general"  # corpus of general sentences
NO_LIMIT = 1_000_000  # of characters and words; the encoder cuts long texts
BUCKETS = 3  # batch shapes, each compiled once

Terms = dict[str, dict[str, Any]]


def _similarities(temperature: float) -> dict[str, Any]:
    return {
        "loss": "multilingual_contrastive",
        "goals": "teacher",
        "grouped": True,
        "arguments": {"target": "softmax", "temperature": temperature},
    }


# As small12 was trained, see recipes/msd_backbone.toml.
OF_LAYERS: Terms = {
    "similarities": _similarities(0.02),
    "others": {
        "loss": "similarity_distribution",
        "goals": "teacher",
        "arguments": {"temperature": 0.02, "across": True},
    },
}
# A table cannot meet the teacher's vectors; it is trained for retrieval alone.
OF_TABLE: Terms = {"similarities": _similarities(0.1)}


def recipe_of(
    plan: Plan,
    start: Path,
    teacher: dict[str, Any],
    codes: list[str],
    general: dict[str, float],
    dim: int,
    max_length: int,
    batch_size: int,
    learning_rate: float,
    table: bool,
    seed: int,
) -> Recipe:
    """Return the recipe that trains the encoder of a plan.

    Args:
        plan: The plan.
        start: Folder of the encoder to train.
        teacher: Values of `[teacher]`.
        codes: The language pairs of the user, as `pair_code` gives them.
        general: Sampling weight of the corpus "general" and the codes of its languages;
            empty without one.
        dim: Dimension of a vector.
        max_length: Longest text in tokens.
        batch_size: Pairs in a batch.
        learning_rate: Highest learning rate.
        table: Whether the encoder has no layers.
        seed: Of the run.
    """
    # Each squared error is then a mean of 1 - cosine.
    weight = 0.0 if table else dim / 2
    stage = {
        "skip": False,
        "steps": plan.steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": 0.0 if table else WEIGHT_DECAY,
        "quantize": SCHEME,
        "buckets": BUCKETS,
        "weights": {"source_mse": weight, "target_mse": weight},
        "losses": OF_TABLE if table else OF_LAYERS,
    }
    others = [code for code in general if code not in codes]
    data: dict[str, Any] = {"kind": "folder", "languages": [*codes, *others]}
    data |= {"max_characters": NO_LIMIT, "max_words": NO_LIMIT}
    data |= {"max_length": max_length, "seed": seed}
    if general:
        data["weights"] = {GENERAL: min(general.values())}
    values = {
        "recipe": {
            "name": "distil",
            "title": f"{', '.join(plan.languages)} from {plan.start}",
            "seed": seed,
            "scales": ["backbone"],
            "default_scale": "backbone",
        },
        "teacher": teacher,
        "data": data,
        "assistant": {"source": str(start), "dropout": 0.0},
        "student": {"kind": "none"},
        "stages": {"teach_assistant": stage},
        "evaluate": {
            "sets": ["held-out"],
            "languages": {"held-out": codes},
            "part": "report",
            "artefacts": False,
        },
    }
    return recipe_from(values, "distil")
