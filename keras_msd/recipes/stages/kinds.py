"""The table of stages: everything that is peculiar to one stands in its record."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from keras_msd.checks import InputError
from keras_msd.data.readers.inference import CLASSES
from keras_msd.losses.table import LOSSES
from keras_msd.recipes.schema.settings import (
    Count,
    NotNegative,
    PairStageSettings,
    Positive,
    Settings,
    TrainingSettings,
    Words,
)
from keras_msd.registry import Record, Registry

Target = Literal["soft", "bool", "ce_soft", "ce_hard", "softmax", "none"]
Feature = Literal["fd", "distillation_first", "synchronized"]
GoldScale = Literal["over_5", "from_1"]
Trained = Literal["assistant", "student", "teacher"]


class Fit(NamedTuple):
    """One stage at work.

    Attributes:
        run: The `Run`.
        name: Name of the stage.
        settings: The stage's, those of its student.
        encoder: What is trained.
        assistant: Step that left the assistant, for stages that imitate it.
        reduction: Step that left the dense layer of a reduced teacher, or None.
    """

    run: Any
    name: str
    settings: Any
    encoder: Any
    assistant: str | None = None
    reduction: str | None = None


Guides = Mapping[str, tuple[Any, str]]


def teacher_guide(fit: Fit) -> Guides:
    """Return the teacher's vectors of the source side, as `teacher`."""
    return {"teacher": (fit.run.teacher, "source")}


def teacher_guides(fit: Fit) -> Guides:
    """Return the teacher's vectors of both sides, as `teacher_source` and `_target`.

    What only knows English stands for both sides with its English vector.
    """
    teacher, other = fit.run.teacher, fit.run.target_side
    return {"teacher_source": (teacher, "source"), "teacher_target": (teacher, other)}


def assistant_guides(fit: Fit) -> Guides:
    """Return the assistant's vectors of both sides."""
    return _both_sides("assistant", _assistant(fit))


def embedding_guides(fit: Fit) -> Guides:
    """Return what the assistant's embedding block makes of both sides."""
    guide = _assistant(fit).embedding_guide(per_token=fit.settings.per_token)
    return _both_sides("embedding", guide)


def _assistant(fit: Fit) -> Any:
    if fit.assistant is None:
        raise InputError(
            f"The stage `{fit.name}` imitates an assistant. Received: none. Give the "
            "recipe an `[assistant]`, or leave the stage out."
        )
    return fit.run.encoder(fit.assistant)


def _both_sides(name: str, guide: Any) -> Guides:
    return {f"{name}_{side}": (guide, side) for side in ("source", "target")}


def peculiar_arguments(fit: Fit) -> dict[str, Any]:
    """Return the settings that only this stage has, for its class."""
    names = type(fit.settings).model_fields.keys() - PairStageSettings.model_fields
    return {name: getattr(fit.settings, name) for name in sorted(names)}


def contrastive_arguments(fit: Fit) -> dict[str, Any]:
    """Return the arguments of `ContrastiveLearning`."""
    if fit.settings.target == "none":
        kept = {"kd_weight", "matryoshka_dims"}
        return fit.settings.model_dump(include=kept) | {"contrastive": None}
    names = SimilaritySettings.model_fields.keys() - PairStageSettings.model_fields
    return {name: getattr(fit.settings, name) for name in sorted(names)}


def thin_deep_arguments(fit: Fit) -> dict[str, Any]:
    """Return the arguments of `TeachThinDeep`."""
    import numpy as np

    arguments = peculiar_arguments(fit) | {"teacher_dim": fit.run.teacher.dim}
    if fit.reduction:
        matrix = fit.run.folder.step(fit.reduction) / "reduction.npy"
        arguments["reduction"] = np.load(matrix)
    return arguments


def no_terms(settings: Any) -> list[str]:
    """Return no terms: those of the stage see one row at a time."""
    return []


class AlignSettings(PairStageSettings):
    """`[stages.align_embedding]`: `per_token` is the variant of `AlignEmbedding`."""

    per_token: bool = False


class SimilaritySettings(PairStageSettings):
    """`[stages.pretrain_assistant]`: target and weights of `ContrastiveLearning`.

    `target` "none" leaves the contrastive term out (the paper's "w/o CL").
    `matryoshka_dims` are widths of prefixes that get the terms of both sides, too.
    """

    kd_weight: NotNegative = 1.0
    contrastive_weight: NotNegative | None = None
    target: Target = "soft"
    temperature: Positive = 0.05
    # Not said where it is as before: results know their settings by a hash.
    matryoshka_dims: Annotated[tuple[Count, ...], Field(strict=False)] = Field(
        default=(), exclude_if=lambda it: not it
    )


class ContrastiveSettings(SimilaritySettings):
    """`[stages.contrastive_learning]`: as those of `pretrain_assistant`, and one more.

    `branch_alone` trains a student's word branch alone, taken out and put back: its
    steps are cheap, so that batches can be large.
    """

    branch_alone: bool = False


class TranslationSettings(SimilaritySettings):
    """`[stages.learn_translations]`: as `pretrain_assistant`, and chosen as it goes.

    Precision at 1 on the half "choose" of the held-out pairs chooses among the weights
    before training, after every `evaluate_every` updates and at the end. The stage ends
    after `patience` such scores without a new best, or after `minutes`.
    """

    evaluate_every: Count = 20
    patience: Count | None = None
    minutes: Positive | None = None


class ThinDeepSettings(PairStageSettings):
    """`[stages.teach_thin_deep]`: the three terms of `TeachThinDeep`.

    A term of weight 0 is left out. `chunk_size` is the number of pairs whose
    activations are held at a time; the gradients are those of the whole batch.
    """

    ams_weight: NotNegative = 1.0
    feature_weight: NotNegative = 1e3
    logit_weight: NotNegative = 1e-2
    feature: Feature = "fd"
    margin: NotNegative = 0.3
    scale: Positive = 100.0
    temperature: Positive = 100.0
    chunk_size: Count | None = None


class ReductionSettings(Settings):
    """`[stages.reduce_teacher]`: a dense layer after the frozen teacher.

    One is trained, and scored, for each of `widths`; one more for a student whose
    `feature` is "synchronized", of that student's width. The pairs are those of
    `teach_thin_deep`.
    """

    skip: bool = False
    widths: Annotated[tuple[Count, ...], Field(strict=False)] = ()
    steps: Count = 5000
    batch_size: Annotated[int, Field(ge=2)] = 512
    learning_rate: Positive = 1e-3
    margin: NotNegative = 0.3
    scale: Positive = 100.0


class RowSettings(TrainingSettings):
    """What stages on sets of sentence pairs share.

    `of` is what it trains: the assistant, from which students are made afterwards, or
    every student. `sets` names the sets; `languages` are by default English and those
    of the pairs. A set need not have all of them.
    """

    needed: ClassVar[str]  # of `sets`, in words

    of: Literal["assistant", "student"] = "student"
    batch_size: Annotated[int, Field(ge=1)] = 16
    sets: Any = ()
    languages: Words = ()

    @model_validator(mode="after")
    def _has_a_set(self) -> "RowSettings":
        if not self.skip and not self.sets:
            raise ValueError(f"`sets` needs {self.needed}")
        return self


class InferenceSettings(RowSettings):
    """`[stages.classify_inference]`: before `regress_similarity`, on NLI labels.

    `sets` names files `nli/<set>.train.<xx>.tsv.gz` (or .jsonl.gz, .tsv, .jsonl), which
    `data.read_inference` reads; `classes` are the labels in them.
    """

    needed = 'a set, as in sets = ["snli"]'

    sets: Words = ()
    classes: Annotated[tuple[str, ...], Field(strict=False, min_length=2)] = CLASSES


class RegressSettings(RowSettings):
    """`[stages.regress_similarity]`: the last stage, on STS scores.

    `sets` maps `sts/<set>.train.<xx>.tsv.gz` to the scale of its scores, see
    `data.scale_gold`. Spearman on `dev_set`, mean of `dev_languages` (by default
    `languages`), chooses among the weights before training, after every
    `evaluate_every` updates (by default an epoch) and at the end; after `patience` such
    scores without a new best the stage ends.
    """

    needed = 'a set and its scale, as in stsb = "over_5"'

    sets: dict[str, GoldScale] = Field(default_factory=dict)
    dev_set: str = "stsb"
    dev_languages: Words = ()
    evaluate_every: Count | None = None
    patience: Count | None = None


@dataclass(frozen=True, kw_only=True)
class StageKind(Record):
    """A stage that recipes may have, as `[stages.<name>]`.

    Functions may be given as dotted paths.

    Attributes:
        title: What the stage does, in a sentence.
        settings: Model of its section; a `PairStageSettings` for one that learns from
            parallel text.
        make: Its class, a `keras_msd.stages.Stage`.
        guides: Maps a `Fit` to the guide and the side of each target.
        trains: What it trains. A setting `of` of its own decides where there is one.
        only_for: The one kind of students that has it, and must have it.
        needs_assistant: Whether there must be an assistant.
        compares: Maps the settings to its own terms that compare the rows of a batch
            with each other; None where that is not said. Only a stage with none may
            have a `token_budget`.
        arguments: Maps a `Fit` to the arguments of `make` beside those that every stage
            takes: by default the settings that only this stage has.
        data: Maps a `Fit` to the `Data` that it trains on.
        watch: Maps a `Fit`, the number of updates and the history to a callback that
            scores the encoder on its way, or to None.
        check_files: Called with run, name and settings before any work where there is a
            data folder; raises `InputError`.
        check_rows: The same once there are pairs.
        files: Maps run and settings to the files besides corpora that it reads.
        short: What it is called in the names of score rows, by default its name.
        said_if_absent: Whether recipes that do not have it list it as skipped: not, if
            it came later, as results know their settings by a hash.
        loss_words: How its loss is computed, for the report.

    Example:
        >>> from keras_msd.recipes.stages.kinds import STAGE_KINDS
        >>> STAGE_KINDS["teach_student"].title
        "The student learns the assistant's vectors."
    """

    title: str
    settings: type[Settings]
    make: Any
    guides: Callable[[Fit], Guides]
    trains: Trained = "student"
    only_for: str | None = None
    needs_assistant: bool = True
    compares: Callable[[Any], Collection[str]] | None = None
    arguments: Callable[[Fit], Mapping[str, Any]] = peculiar_arguments
    data: Any = "keras_msd.recipes.stages.pair_data.pair_data"
    watch: Any = "keras_msd.recipes.stages.pair_data.score_curve"
    check_files: Any = "keras_msd.recipes.stages.pair_data.check_corpora_of"
    check_rows: Any = "keras_msd.recipes.stages.pair_data.check_updates"
    files: Callable[[Any, Any], list[Path]] | str | None = None
    short: str = ""
    said_if_absent: bool = True
    loss_words: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "short", self.short or self.name)

    @property
    def reads_pairs(self) -> bool:
        """Whether it learns from parallel text."""
        return issubclass(self.settings, PairStageSettings | ReductionSettings)

    def absent(self) -> Any:
        """Return the field of `[stages]` for recipes that do not have the stage."""
        skipped = self.settings.model_validate({"skip": True})
        said = None if self.said_if_absent else lambda given: given == skipped
        return Field(default=skipped, exclude_if=said)

    def compared(self, settings: Any) -> list[str]:
        """Return all terms with such settings that may compare rows of a batch."""
        own = self.compares(settings) if self.compares else ["its own"]
        added = settings.losses.items()
        return [*own, *(name for name, it in added if not LOSSES[it.loss].by_row)]

    def trained(self, settings: Any) -> str:
        """Return what the stage trains with such settings."""
        return getattr(settings, "of", self.trains)


SQUARED = "squared errors are means over the batch and over the dimensions"
CONTRASTIVE = f"{SQUARED}; the contrastive term is a mean over the batch"
STAGE_KINDS: Registry[StageKind] = Registry(
    "stage",
    StageKind(
        name="pretrain_assistant",
        title="The assistant imitates the teacher's vectors and similarities.",
        settings=SimilaritySettings,
        make="keras_msd.stages.contrastive.ContrastiveLearning",
        trains="assistant",
        guides=teacher_guide,
        arguments=contrastive_arguments,
        short="pre-training",
        loss_words=CONTRASTIVE,
    ),
    StageKind(
        name="learn_translations",
        title="The assistant learns to find translations, until held-out scores stop.",
        settings=TranslationSettings,
        make="keras_msd.stages.contrastive.ContrastiveLearning",
        trains="assistant",
        guides=teacher_guide,
        arguments=contrastive_arguments,
        watch="keras_msd.recipes.stages.held_out.translation_scores",
        check_files="keras_msd.recipes.stages.held_out.check_translations",
        files="keras_msd.recipes.stages.held_out.translation_files",
        short="training",
        said_if_absent=False,
        loss_words=CONTRASTIVE,
    ),
    StageKind(
        name="teach_assistant",
        title="The assistant learns the teacher's vectors in both languages.",
        settings=PairStageSettings,
        make="keras_msd.stages.imitation.TeachAssistant",
        trains="assistant",
        guides=teacher_guide,
        compares=no_terms,
        short="stage 1",
        loss_words=SQUARED,
    ),
    StageKind(
        name="align_embedding",
        title="The student's embedding block learns the assistant's.",
        settings=AlignSettings,
        make="keras_msd.stages.align.AlignEmbedding",
        guides=embedding_guides,
        compares=no_terms,
        loss_words=SQUARED,
    ),
    StageKind(
        name="teach_student",
        title="The student learns the assistant's vectors.",
        settings=PairStageSettings,
        make="keras_msd.stages.imitation.TeachStudent",
        guides=assistant_guides,
        compares=no_terms,
        loss_words=SQUARED,
    ),
    StageKind(
        name="contrastive_learning",
        title="The student imitates the teacher's similarities across languages.",
        settings=ContrastiveSettings,
        make="keras_msd.stages.contrastive.ContrastiveLearning",
        guides=teacher_guide,
        compares=lambda settings: ["contrastive"][: settings.target != "none"],
        arguments=contrastive_arguments,
        loss_words=CONTRASTIVE,
    ),
    StageKind(
        name="reduce_teacher",
        title="A dense layer takes the teacher's vectors to fewer dimensions.",
        settings=ReductionSettings,
        make="keras_msd.starts.dimension_reduction.reduce_dimensions",
        guides=teacher_guides,
        trains="teacher",
        needs_assistant=False,
    ),
    StageKind(
        name="teach_thin_deep",
        title="A thin, deep student ranks translations and imitates the teacher.",
        settings=ThinDeepSettings,
        make="keras_msd.stages.thin_deep.TeachThinDeep",
        only_for="thin_deep",
        needs_assistant=False,
        guides=teacher_guides,
        compares=lambda settings: [
            term for term in ("ams", "logit") if getattr(settings, f"{term}_weight")
        ],
        arguments=thin_deep_arguments,
        loss_words=f"{SQUARED}; AMS is a mean over the batch of the sum of both "
        "directions, the logit term a mean over all pairs of a batch",
    ),
    StageKind(
        name="classify_inference",
        title="The embeddings of two sentences tell whether one entails the other.",
        settings=InferenceSettings,
        make="keras_msd.stages.finetune.ClassifyInference",
        guides=lambda fit: {},
        needs_assistant=False,
        arguments=lambda fit: {"classes": len(fit.settings.classes)},
        data="keras_msd.recipes.stages.regression.inference_data",
        watch=lambda fit, steps, history: None,
        check_files="keras_msd.recipes.stages.regression.check_inference",
        check_rows="keras_msd.recipes.stages.regression.check_inference",
        files="keras_msd.recipes.stages.regression.inference_files",
        short="NLI",
        said_if_absent=False,
        loss_words="the cross-entropy of the classes is a mean over the batch",
    ),
    StageKind(
        name="regress_similarity",
        title="The cosine of two sentences becomes their gold similarity.",
        settings=RegressSettings,
        make="keras_msd.stages.finetune.RegressSimilarity",
        guides=lambda fit: {},
        needs_assistant=False,
        arguments=lambda fit: {},
        data="keras_msd.recipes.stages.regression.scored_data",
        watch="keras_msd.recipes.stages.regression.development_scores",
        check_files="keras_msd.recipes.stages.regression.check_regression",
        check_rows="keras_msd.recipes.stages.regression.check_regression",
        files="keras_msd.recipes.stages.regression.regression_files",
        short="STS",
        loss_words="cosine and gold score are compared by the mean of squares over "
        "the batch",
    ),
)
