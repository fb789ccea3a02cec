"""The stages that a recipe can have: what each one trains, and on what."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from keras_msd import stages
from keras_msd.recipes.settings import (
    AlignSettings,
    ContrastiveSettings,
    InferenceSettings,
    PairStageSettings,
    ReductionSettings,
    RegressSettings,
    Settings,
    SimilaritySettings,
    ThinDeepSettings,
)

if TYPE_CHECKING:
    from keras_msd.recipes.loading import Recipe
    from keras_msd.recipes.settings import StudentSettings

Guides = Mapping[str, tuple[str, str]]
TEACHER: Guides = {"teacher": ("teacher", "source")}


def both_sides(whose: str) -> Guides:
    """Return the targets `<whose>_source` and `<whose>_target`."""
    return {f"{whose}_{side}": (whose, side) for side in ("source", "target")}


@dataclass(frozen=True)
class StageSpec:
    """A stage that recipes can have, as `[stages.<name>]`.

    Add your own to `STAGES`, under its name, before you load a recipe that has it.

    Attributes:
        make: The class of the stage, a `keras_msd.stages.Stage`, or a function that
            makes one of an encoder and keyword arguments: `losses`, the factors of
            `weights`, and what `arguments` of the settings returns.
        guides: Target -> whose embeddings it is, "teacher", "assistant" or "embedding"
            (the assistant's embedding block), and the side, "source" or "target".
        settings: The model of its section.
        trains: What it trains; "last" is every student, or the assistant of a recipe
            without students.
        rows: What it learns from: parallel text, or labelled pairs of sentences.
        needs_assistant: Whether the recipe must have an assistant.
        only_for: The one kind of students that has this stage, and must have it.
        label: What score rows call it, by default its name.

    Example:
        >>> from keras_msd.recipes.stages import STAGES
        >>> STAGES["teach_student"].trains
        'student'
    """

    make: Callable[..., Any] | None
    guides: Guides = field(default_factory=dict)
    settings: type[Settings] = PairStageSettings
    trains: Literal["assistant", "student", "teacher", "last"] = "student"
    rows: Literal["pairs", "scored", "inference"] = "pairs"
    needs_assistant: bool = True
    only_for: str = ""
    label: str = ""


# In the order in which they run.
STAGES: dict[str, StageSpec] = {
    "pretrain_assistant": StageSpec(
        lambda encoder, **given: stages.ContrastiveLearning(encoder, **given),
        guides=TEACHER,
        settings=SimilaritySettings,
        trains="assistant",
        label="pre-training",
    ),
    "teach_assistant": StageSpec(
        lambda encoder, **given: stages.TeachAssistant(encoder, **given),
        guides=TEACHER,
        trains="assistant",
        label="stage 1",
    ),
    "align_embedding": StageSpec(
        lambda encoder, **given: stages.AlignEmbedding(encoder, **given),
        guides=both_sides("embedding"),
        settings=AlignSettings,
    ),
    "teach_student": StageSpec(
        lambda encoder, **given: stages.TeachStudent(encoder, **given),
        guides=both_sides("assistant"),
    ),
    "contrastive_learning": StageSpec(
        lambda encoder, **given: stages.ContrastiveLearning(encoder, **given),
        guides=TEACHER,
        settings=ContrastiveSettings,
    ),
    # No stage of an encoder: `starts.reduce_teacher` fits it.
    "reduce_teacher": StageSpec(
        None, settings=ReductionSettings, trains="teacher", needs_assistant=False
    ),
    "teach_thin_deep": StageSpec(
        lambda encoder, **given: stages.TeachThinDeep(encoder, **given),
        guides=both_sides("teacher"),
        settings=ThinDeepSettings,
        needs_assistant=False,
        only_for="thin_deep",
    ),
    "classify_inference": StageSpec(
        lambda encoder, **given: stages.ClassifyInference(encoder, **given),
        settings=InferenceSettings,
        trains="last",
        rows="inference",
        needs_assistant=False,
        label="NLI",
    ),
    "regress_similarity": StageSpec(
        lambda encoder, **given: stages.RegressSimilarity(encoder, **given),
        settings=RegressSettings,
        trains="last",
        rows="scored",
        needs_assistant=False,
        label="STS",
    ),
}


def stages_of(
    recipe: "Recipe", student: "StudentSettings | None" = None
) -> dict[str, Any]:
    """Return the settings of a student's stages, or of the assistant's, in order."""
    trained = ["student" if student else "assistant"]
    if student or recipe.student.kind == "none":
        trained.append("last")
    found = {
        name: student.stage(name, settings) if student else settings
        for name, settings in recipe.stages.items()
        if STAGES[name].trains in trained
    }
    return {name: settings for name, settings in found.items() if not settings.skip}


def stages_in_use(recipe: "Recipe") -> Iterator[tuple[str, Any]]:
    """Yield name and settings of the stages, once for each student that has one.

    Those of the assistant come first. `reduce_teacher` is no stage of an encoder.
    """
    for student in (None, *recipe.student.each().values()):
        yield from stages_of(recipe, student).items()


def reduces_teacher(recipe: "Recipe") -> bool:
    """Tell whether a run trains a dense layer after the teacher."""
    reduction = recipe.stages["reduce_teacher"]
    features = [getattr(stage, "feature", "") for _, stage in stages_in_use(recipe)]
    return bool(reduction.widths and not reduction.skip) or "synchronized" in features


def fits_table(recipe: "Recipe") -> bool:
    """Tell whether a recipe asks for the step `ridge`, a closed-form word table."""
    return recipe.starts.closed_form or begins_at_table(recipe)


def begins_at_table(recipe: "Recipe") -> bool:
    """Tell whether the assistant or a student begins with a closed-form word table."""
    assistant = recipe.assistant
    begun = {str(student.start) for student in recipe.student.each().values()}
    if assistant.source == "new":
        begun.add("ridge" if assistant.word_branch else str(assistant.start))
    return not begun.isdisjoint(("ridge", "grow"))
