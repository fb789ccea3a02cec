"""The stages of a recipe: what each trains, imitates and reads."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from keras_msd.checks import InputError
from keras_msd.models.config import EncoderConfig
from keras_msd.plan.shapes import Shapes, branch_alone
from keras_msd.recipes.runs.updates import student_stages
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.recipes.stages import kinds
from keras_msd.recipes.stages.kinds import STAGE_KINDS, StageKind

BOTH = "source", "target"


class Work(NamedTuple):
    """One stage of a recipe.

    Attributes:
        step: Name of the step.
        kind: The stage's record.
        settings: The stage's.
        config: Of the encoder that is trained.
    """

    step: str
    kind: StageKind
    settings: Any
    config: EncoderConfig

    @property
    def whole(self) -> bool:
        """Whether the network is run, or its embedding block alone."""
        return self.kind.guides is not kinds.embedding_guides

    @property
    def imitates(self) -> bool:
        """Whether its guide is the assistant."""
        return self.kind.guides in (kinds.assistant_guides, kinds.embedding_guides)


def recipe_works(recipe: Recipe, shapes: Shapes) -> Iterator[Work]:
    """Yield the stages in the order in which they run."""
    for kind in STAGE_KINDS.values():
        settings = recipe.stages[kind.name]
        of_assistant = kind.trained(settings) == "assistant" and not settings.skip
        if of_assistant and shapes.assistant is not None:
            yield Work(kind.name, kind, settings, shapes.assistant)
    for name, student in recipe.student.each().items():
        for kind, settings in student_stages(recipe, student):
            config = shapes.students[name]
            if getattr(settings, "branch_alone", False):
                config = branch_alone(config)
            step = kind.name + name.removeprefix("student")
            yield Work(step, kind, settings, config)


def goal_widths(work: Work, recipe: Recipe, shapes: Shapes) -> dict[str, int]:
    """Return the width of each target of a stage.

    Raises:
        InputError: The stage has guides of its own.
    """
    guides, assistant = work.kind.guides, shapes.assistant
    if guides is kinds.teacher_guide:
        return {"teacher": shapes.teacher_dim}
    if guides is kinds.teacher_guides:
        return {f"teacher_{side}": shapes.teacher_dim for side in BOTH}
    if guides is kinds.assistant_guides and assistant:
        return {f"assistant_{side}": assistant.dim for side in BOTH}
    if guides is kinds.embedding_guides and assistant:
        tokens = recipe.data.max_length if work.settings.per_token else 1
        return {f"embedding_{side}": tokens * assistant.hidden_dim for side in BOTH}
    raise InputError(
        f"The widths of the targets of `{work.kind.name}` must be known. Received: a "
        "stage with guides of its own. Plan the recipe without it."
    )


def shared_tables(works: Sequence[Work]) -> dict[tuple[Any, ...], list[Work]]:
    """Return stages by corpora and limit: those of one table of token ids together."""
    tables: dict[tuple[Any, ...], list[Work]] = {}
    for work in works:
        settings = work.settings
        key = tuple(sorted(settings.corpora)), settings.pairs_per_language
        tables.setdefault(key, []).append(work)
    return tables
