"""What a stage tells a recipe about itself: its settings, guides and extra steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from keras_msd.models.encoder import Encoder
from keras_msd.stages.settings import (
    PairStageSettings,
    TeacherVectors,
    TrainingSettings,
)
from keras_msd.stages.stage import Stage

# Whose embeddings a target is: the teacher's (None), or those of what a function makes
# of the assistant and the stage's settings.
Guide = Callable[[Encoder, Any], Any] | None
# Target -> guide and side of a pair, "source" or "target".
Guides = Mapping[str, tuple[Guide, str]]
TEACHER: Guide = None
OF_SOURCE: Guides = {"teacher": (TEACHER, "source")}


def the_assistant(assistant: Encoder, settings: Any) -> Encoder:
    """Return the guide of stages that imitate the assistant itself."""
    return assistant


def both_sides(name: str, guide: Guide) -> Guides:
    """Return the targets `<name>_source` and `<name>_target` of one guide."""
    return {f"{name}_{side}": (guide, side) for side in ("source", "target")}


class ExtraStep(NamedTuple):
    """An array that is made before a stage, by a step of its own.

    Attributes:
        name: Name of the step, and of the argument of the stage's class.
        make: Makes the array.
    """

    name: str
    make: Callable[[TeacherVectors], np.ndarray]


@dataclass(frozen=True)
class StageRecord:
    """A stage that recipes can have, as `[stages.<name>]`.

    Add your own to `STAGES`, under its name, before you load a recipe that has it.

    Attributes:
        make: The class of the stage, or a function that makes a `Stage` of an encoder
            and keyword arguments: `losses`, the factors of `weights`, what `arguments`
            of the settings returns, and the arrays of extra steps.
        settings: The class of its section.
        guides: Target -> guide and side.
        trains: What it trains; "last" is every student, or the assistant of a recipe
            without students.
        rows: What it learns from: parallel text, or labelled pairs of sentences.
        needs_assistant: Whether the recipe must have an assistant.
        needs_teacher_dim: Whether `make` takes `teacher_dim`.
        extra_step: Returns the extra step that some settings bring, or None.
        only_for: The one kind of students that has this stage, and must have it.
        label: What score rows call it, by default its name.

    Example:
        >>> msd.stages.STAGES["teach_student"].trains
        'student'
    """

    make: Callable[..., Stage]
    settings: type[TrainingSettings] = PairStageSettings
    guides: Guides = field(default_factory=dict)
    trains: Literal["assistant", "student", "last"] = "student"
    rows: Literal["pairs", "scored", "inference"] = "pairs"
    needs_assistant: bool = True
    needs_teacher_dim: bool = False
    extra_step: Callable[[Any], ExtraStep | None] = lambda settings: None
    only_for: str = ""
    label: str = ""

    def build(
        self, encoder: Encoder, settings: TrainingSettings, **given: Any
    ) -> Stage:
        """Return the stage that some settings describe.

        Args:
            encoder: The encoder to train.
            settings: Of the class `settings`.
            **given: `teacher_dim` if it is needed, and the array of the extra step.
        """
        losses = [term.term(name) for name, term in settings.losses.items()]
        arguments = settings.weights | settings.arguments() | given
        return self.make(encoder, losses=losses, **arguments)
