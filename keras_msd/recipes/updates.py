"""Which stages a run has, and how many updates each of them does."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from keras_msd.checks import InputError
from keras_msd.recipes.recipe import Recipe, StudentSettings
from keras_msd.recipes.settings import TrainingSettings
from keras_msd.recipes.stages import STAGE_KINDS, ReductionSettings, StageKind


def stages_in_use(recipe: Recipe) -> Iterator[tuple[type[StageKind], Any]]:
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
) -> Iterator[tuple[type[StageKind], Any]]:
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


# Rows of a closed form's word table: the matrix that is solved has as many rows and
# columns, in float32 6.4 GB at this size.
MOST_PIECES = 40_000


def fits_table(recipe: Recipe) -> bool:
    """Tell whether a recipe asks for the step `ridge`, a closed-form word table."""
    return recipe.starts.closed_form or begins_at_table(recipe)


def begins_at_table(recipe: Recipe) -> bool:
    """Tell whether the assistant or a student begins with a closed-form word table."""
    assistant = recipe.assistant
    begun = {str(student.start) for student in recipe.student.each().values()}
    if assistant.source == "new":
        begun.add("ridge" if assistant.word_branch else str(assistant.start))
    return not begun.isdisjoint(("ridge", "grow"))


class FullBatches(NamedTuple):
    """Batches of one size; rows that do not fill one are left out of an epoch."""

    rows: int
    size: int

    def steps(self, epochs: int) -> int:
        """Return how many batches the first `epochs` epochs have."""
        return epochs * (self.rows // self.size)

    def drawn(self, position: int) -> int:
        """Return how many rows the batches before batch `position` have in all."""
        return position * self.size


def updates(
    name: str, settings: TrainingSettings, steps_in: Callable[[int], int]
) -> int:
    """Return the updates of a stage.

    Args:
        name: The stage.
        settings: The stage's.
        steps_in: Gives the batches of so many epochs.

    Raises:
        InputError: They are too few for `warmup_steps`.
    """
    limits = [] if settings.steps is None else [settings.steps]
    if settings.epochs is not None:
        limits.append(steps_in(settings.epochs))
    steps = min(limits)
    if settings.warmup_steps is not None and settings.warmup_steps >= steps:
        raise InputError(
            f"`stages.{name}.warmup_steps` must be below the stage's updates. Received:"
            f" warmup_steps={settings.warmup_steps}, {steps} updates. Lower it, or "
            "train longer."
        )
    return steps


def full_batches(
    name: str, batch_size: int, count: int, what: str = "pairs"
) -> FullBatches:
    """Return the batches of a stage that `batch_size` cuts.

    Args:
        name: The stage.
        batch_size: Rows in a batch.
        count: What it trains on, in rows.
        what: What such a row is, and where it comes from.

    Raises:
        InputError: There are fewer rows than in a batch.
    """
    if count < batch_size:
        raise InputError(
            f"`stages.{name}.batch_size` must be at most what the stage trains on. "
            f"Received: batch_size={batch_size}, {count} {what}. Lower it, or give "
            "more."
        )
    return FullBatches(count, batch_size)
