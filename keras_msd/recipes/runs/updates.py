"""Which stages a run has, and how many updates each of them does."""

from collections.abc import Iterator
from typing import get_args

from keras_msd.checks import InputError
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.recipes.schema.training import (Length, StudentStage)


def stages_in_use(recipe: Recipe) -> Iterator[tuple[str, Length]]:
    """Yield name and settings of the stages, once for each student that has one."""
    shared = recipe.stages
    if not shared.teach_assistant.skip:
        yield "teach_assistant", shared.teach_assistant
    regress = shared.regress_similarity
    if regress.of == "assistant" and not regress.skip:
        yield "regress_similarity", regress
    for student in recipe.student.each().values():
        for name in get_args(StudentStage):
            settings = student.stage(name, getattr(shared, name))
            if not settings.skip and getattr(settings, "of", "student") == "student":
                yield name, settings


def reduces_teacher(recipe: Recipe) -> bool:
    """Tell whether a run has a step of `reduce_teacher`."""
    own = recipe.stages.reduce_teacher
    features = [getattr(one, "feature", "") for _, one in stages_in_use(recipe)]
    return bool(own.widths and not own.skip) or "synchronized" in features


def updates(name: str, settings: Length, count: int, what: str = "pairs") -> int:
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
