"""The stages that a recipe can have: what each one trains, and on what."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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

Guides = Mapping[str, tuple[Any, str]]


class Work(NamedTuple):
    """A stage at work in a run.

    Attributes:
        run: The `Run`.
        name: Name of the stage.
        settings: Its settings, with the changes of its student.
        encoder: What it trains.
        assistant: Step that left the assistant, for stages that imitate it.
        reduction: Step that left the dense layer of a reduced teacher, or None.
    """

    run: Any
    name: str
    settings: Any
    encoder: Any
    assistant: str | None = None
    reduction: str | None = None


def own_arguments(work: Work) -> dict[str, Any]:
    """Return the settings that only this stage has, as arguments of its class."""
    shared = PairStageSettings.model_fields
    own = type(work.settings).model_fields.keys() - shared.keys()
    given = {name: getattr(work.settings, name) for name in sorted(own)}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class StageSpec:
    """A stage that recipes can have, as `[stages.<name>]`.

    Add your own to `STAGES`, under its name, before you load a recipe that has it.

    Attributes:
        make: The class of the stage, a `keras_msd.stages.Stage`, or a function that
            makes one of an encoder and keyword arguments.
        guides: From the stage at work to the source and the side of each target.
        settings: The model of its section.
        arguments: From the stage at work to the arguments of `make`, besides those that
            every stage takes. By default the settings that only this stage has.
        trains: What it trains; a setting `of` takes precedence.
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
    guides: Callable[[Work], Guides] = lambda work: {}
    settings: type[Settings] = PairStageSettings
    arguments: Callable[[Work], Mapping[str, Any]] = own_arguments
    trains: Literal["assistant", "student", "teacher"] = "student"
    rows: Literal["pairs", "scored", "inference"] = "pairs"
    needs_assistant: bool = True
    only_for: str = ""
    label: str = ""

    def trained(self, settings: Any) -> str:
        """Return what the stage trains with such settings."""
        return getattr(settings, "of", self.trains)


def _teacher(work: Work) -> Guides:
    return {"teacher": (work.run.teacher, "source")}


def _assistant(work: Work) -> Guides:
    guide = work.run.encoder(work.assistant)
    return {f"assistant_{side}": (guide, side) for side in ("source", "target")}


def _embedding(work: Work) -> Guides:
    guide = work.run.encoder(work.assistant)
    guide = guide.embedding_guide(per_token=work.settings.per_token)
    return {f"embedding_{side}": (guide, side) for side in ("source", "target")}


def _both_sides(work: Work) -> Guides:
    sides = {"teacher_source": "source", "teacher_target": work.run.target_side}
    return {name: (work.run.teacher, side) for name, side in sides.items()}


def _contrastive(work: Work) -> dict[str, Any]:
    given = own_arguments(work)
    given.pop("branch_alone", None)
    if work.settings.target != "none":
        return given
    kept = "kd_weight", "matryoshka_dims"
    return {key: given[key] for key in kept if key in given} | {"contrastive": None}


def _thin_deep(work: Work) -> dict[str, Any]:
    given = own_arguments(work) | {"teacher_dim": work.run.teacher.dim}
    if work.reduction:
        given["reduction"] = work.run.array(work.reduction, "reduction")
    return given


# In the order in which they run.
STAGES: dict[str, StageSpec] = {
    "pretrain_assistant": StageSpec(
        lambda encoder, **given: stages.ContrastiveLearning(encoder, **given),
        guides=_teacher,
        settings=SimilaritySettings,
        arguments=_contrastive,
        trains="assistant",
        label="pre-training",
    ),
    "teach_assistant": StageSpec(
        lambda encoder, **given: stages.TeachAssistant(encoder, **given),
        guides=_teacher,
        trains="assistant",
        label="stage 1",
    ),
    "align_embedding": StageSpec(
        lambda encoder, **given: stages.AlignEmbedding(encoder, **given),
        guides=_embedding,
        settings=AlignSettings,
    ),
    "teach_student": StageSpec(
        lambda encoder, **given: stages.TeachStudent(encoder, **given),
        guides=_assistant,
    ),
    "contrastive_learning": StageSpec(
        lambda encoder, **given: stages.ContrastiveLearning(encoder, **given),
        guides=_teacher,
        settings=ContrastiveSettings,
        arguments=_contrastive,
    ),
    # No stage of an encoder: `starts.reduce_teacher` fits it.
    "reduce_teacher": StageSpec(
        None, settings=ReductionSettings, trains="teacher", needs_assistant=False
    ),
    "teach_thin_deep": StageSpec(
        lambda encoder, **given: stages.TeachThinDeep(encoder, **given),
        guides=_both_sides,
        settings=ThinDeepSettings,
        arguments=_thin_deep,
        needs_assistant=False,
        only_for="thin_deep",
    ),
    "classify_inference": StageSpec(
        lambda encoder, **given: stages.ClassifyInference(encoder, **given),
        settings=InferenceSettings,
        arguments=lambda work: {"classes": len(work.settings.classes)},
        rows="inference",
        needs_assistant=False,
        label="NLI",
    ),
    "regress_similarity": StageSpec(
        lambda encoder, **given: stages.RegressSimilarity(encoder, **given),
        settings=RegressSettings,
        arguments=lambda work: {},
        rows="scored",
        needs_assistant=False,
        label="STS",
    ),
}


def assistant_stages(recipe: "Recipe") -> dict[str, Any]:
    """Return the settings of the stages that train the assistant, in order."""
    return {
        name: recipe.stages[name]
        for name, spec in STAGES.items()
        if spec.trained(recipe.stages[name]) == "assistant"
        and not recipe.stages[name].skip
    }


def student_stages(recipe: "Recipe", student: "StudentSettings") -> dict[str, Any]:
    """Return the settings of the stages of one student, in order."""
    found = {
        name: student.stage(name, recipe.stages[name])
        for name, spec in STAGES.items()
        if spec.trained(recipe.stages[name]) == "student"
    }
    return {name: settings for name, settings in found.items() if not settings.skip}


def stages_in_use(recipe: "Recipe") -> Iterator[tuple[str, Any]]:
    """Yield name and settings of the stages, once for each student that has one.

    Those of the assistant come first. `reduce_teacher` is no stage of an encoder.
    """
    yield from assistant_stages(recipe).items()
    for student in recipe.student.each().values():
        yield from student_stages(recipe, student).items()


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
