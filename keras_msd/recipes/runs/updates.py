"""Which stages a run has, and how many updates each of them does."""

from collections.abc import Iterator
from typing import Any

from keras_msd.checks import InputError
from keras_msd.recipes.schema.recipe import Recipe, StudentSettings
from keras_msd.recipes.schema.settings import TrainingSettings
from keras_msd.recipes.stages.kinds import STAGE_KINDS, ReductionSettings, StageKind


def stages_in_use(recipe: Recipe) -> Iterator[tuple[StageKind, Any]]:
    """Yield kind and settings of the stages, once for each student that has one.

    Those of the assistant come first. `reduce_teacher` is no stage of an encoder.
    """
    for kind in STAGE_KINDS.values():
        settings = recipe.stages[kind.name]
        if kind.trained(settings) == "assistant" and not settings.skip:
            yield kind, settings
    for student in recipe.student.each().values():
        yield from student_stages(recipe, student)


def student_stages(
    recipe: Recipe, student: StudentSettings
) -> Iterator[tuple[StageKind, Any]]:
    """Yield kind and settings of the stages of one student, in order."""
    for kind in STAGE_KINDS.values():
        if kind.trained(recipe.stages[kind.name]) == "student":
            settings = student.stage(kind.name, recipe.stages[kind.name])
            if not settings.skip:
                yield kind, settings


def reduces_teacher(recipe: Recipe) -> bool:
    """Tell whether a run has a step of `reduce_teacher`."""
    reduction: ReductionSettings = recipe.stages["reduce_teacher"]
    features = [getattr(stage, "feature", "") for _, stage in stages_in_use(recipe)]
    return bool(reduction.widths and not reduction.skip) or "synchronized" in features


def updates(
    name: str, settings: TrainingSettings, count: int, what: str = "pairs"
) -> int:
    """Return the updates of a stage.

    Args:
        name: The stage.
        settings: The stage's.
        count: What it trains on, in rows.
        what: What such a row is, and where it comes from.

    Raises:
        InputError: There are fewer rows than in a batch, or too few updates for
            `warmup_steps`.
    """
    # The last batch of an epoch is dropped where it is not full.
    per_epoch = batches(name, settings.batch_size, count, what)
    limits = [] if settings.steps is None else [settings.steps]
    if settings.epochs is not None:
        limits.append(settings.epochs * per_epoch)
    steps = min(limits)
    if settings.warmup_steps is not None and settings.warmup_steps >= steps:
        raise InputError(
            f"`stages.{name}.warmup_steps` must be below the stage's updates. Received:"
            f" warmup_steps={settings.warmup_steps}, {steps} updates. Lower it, or "
            "train longer."
        )
    return steps


def batches(name: str, batch_size: int, count: int, what: str = "pairs") -> int:
    """Return how many whole batches there are, one at least.

    Raises:
        InputError: There is none.
    """
    if count < batch_size:
        raise InputError(
            f"`stages.{name}.batch_size` must be at most what the stage trains on. "
            f"Received: batch_size={batch_size}, {count} {what}. Lower it, or give "
            "more."
        )
    return count // batch_size
