"""The recipe of a `distil` run: one stage over one encoder."""

from pathlib import Path
from typing import Any

from keras_msd.distillation.plan import SCHEME, Plan
from keras_msd.recipes.load import recipe_from
from keras_msd.recipes.settings import Recipe

GENERAL = "general"  # corpus of general sentences
NO_LIMIT = 1_000_000  # characters; the encoder cuts long texts
BUCKETS = 3  # batch shapes, each compiled once

# As small12 was trained, see recipes/msd_backbone.toml.
SIMILARITIES = {
    "similarities": {
        "loss": "multilingual_contrastive",
        "goals": "teacher",
        "grouped": True,
        "arguments": {"target": "softmax", "temperature": 0.02},
    },
    "others": {
        "loss": "similarity_distribution",
        "goals": "teacher",
        "arguments": {"temperature": 0.02, "across": True},
    },
}
TABLE_TEMPERATURE = 0.1


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
    shared = {
        "skip": False,
        "steps": plan.steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "quantize": SCHEME,
        "buckets": BUCKETS,
    }
    scale = dim / 2  # each squared error is then a mean of 1 - cosine
    stages: dict[str, Any] = {
        "teach_assistant": shared
        | {"weights": {"source_mse": scale, "target_mse": scale}}
        | {"losses": SIMILARITIES}
    }
    if table:
        own = {"target": "softmax", "temperature": TABLE_TEMPERATURE, "kd_weight": 0.0}
        stages = {"contrastive_learning": shared | own | {"weight_decay": 0.0}}
    others = [code for code in general if code not in codes]
    data: dict[str, Any] = {"kind": "folder", "languages": [*codes, *others]}
    data |= {"max_characters": NO_LIMIT, "max_length": max_length, "seed": seed}
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
        "stages": stages,
        "evaluate": {
            "sets": ["held-out"],
            "languages": {"held-out": codes},
            "part": "report",
            "artefacts": False,
        },
    }
    return recipe_from(values, "distil")
