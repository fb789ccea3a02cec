"""The stages that a recipe can have: their settings, what they train, and on what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from keras_msd import stages
from keras_msd.checks import one_of
from keras_msd.choices import (
    CLIP_NORM,
    SCHEDULE,
    WARMUP,
    WEIGHT_DECAY,
    Dims,
    Feature,
    GoldScale,
    Schedule,
    Target,
)
from keras_msd.quantize.schemes import IntegerScheme

Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Words = Annotated[tuple[str, ...], Field(strict=False)]
Counts = Annotated[tuple[Count, ...], Field(strict=False)]
LAST_TENTH = "last_tenth"
Layers = Annotated[
    tuple[Literal["embedding", "body", "pooling", "projection"], ...],
    Field(strict=False),
]


class Settings(BaseModel):
    """A section: it never changes after reading, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def with_values(self, changes: dict[str, Any]) -> Any:
        """Return these settings with other values."""
        return type(self).model_validate(self.model_dump() | changes)


class LossSettings(Settings):
    """`[stages.<name>.losses.<term>]`: a loss term in addition to the stage's own.

    `loss` is a name in `LOSSES`, made with `arguments`. `goals` names the targets that
    it gets; with `grouped` it gets `group` too. See `LossTerm`.
    """

    loss: str
    goals: str | Words
    grouped: bool = False
    weight: NotNegative = 1.0
    arguments: dict[str, Any] = Field(default_factory=dict)

    @property
    def targets(self) -> tuple[str, ...]:
        """The names in `goals`."""
        return (self.goals,) if isinstance(self.goals, str) else self.goals

    def options(self) -> dict[str, Any]:
        """Return what `LossTerm` takes besides its name and loss."""
        return self.model_dump(include={"goals", "grouped", "weight"})

    @field_validator("loss")
    @classmethod
    def _is_known(cls, loss: str) -> str:
        from keras_msd.losses.table import LOSSES  # it loads Keras

        one_of(LOSSES, loss=loss)
        return loss


class TrainingSettings(Settings):
    """`[stages.<name>]`: length, optimizer and terms of one stage.

    The stage ends after `epochs` or `steps`, whichever comes first. `warmup` is a share
    of the training steps; `warmup_steps` is their number and takes precedence. `frozen`
    names layers that keep their weights. `weights` are factors of the stage's terms,
    `losses` are further terms. `buckets` is the largest number of batch shapes, see
    `PairBatches`.
    """

    skip: bool = False
    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Positive = 2e-5
    warmup: Fraction = WARMUP
    warmup_steps: Count | None = None
    weight_decay: NotNegative = WEIGHT_DECAY
    clip_norm: Positive = CLIP_NORM
    schedule: Schedule = SCHEDULE
    frozen: Layers = ()
    buckets: Count | None = None
    weights: dict[str, NotNegative] = Field(default_factory=dict)
    losses: dict[str, LossSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_a_length(self) -> "TrainingSettings":
        if not self.skip and self.epochs is None and self.steps is None:
            raise ValueError("a stage needs `epochs` or `steps`, unless it is skipped")
        return self

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the stage's class that only this stage has."""
        return {}


class PairStageSettings(TrainingSettings):
    """A stage that learns from parallel text.

    `corpora` and `pairs_per_language` limit its pairs. `dims` says whether squared
    errors are a "mean" or a "sum" over dimensions. `scored` is the number of times that
    the encoder is scored during the stage; "last_tenth" scores it after nine tenths of
    the steps and at the end. `quantize` trains with weights rounded to 8 or 4 bits, see
    `Stage`.
    """

    dims: Dims = "mean"
    corpora: Words = ()
    pairs_per_language: Count | None = None
    scored: Count | Literal["last_tenth"] | None = None
    quantize: IntegerScheme | None = None

    def arguments(self) -> dict[str, Any]:
        """Return `dims`, `quantize` and the fields of a subclass that are set."""
        own = type(self).model_fields.keys() - PairStageSettings.model_fields.keys()
        return self.model_dump(include={"dims", "quantize", *own}, exclude_none=True)


class AlignSettings(PairStageSettings):
    """`[stages.align_embedding]`: `per_token` is the variant of `AlignEmbedding`."""

    per_token: bool = False


class SimilaritySettings(PairStageSettings):
    """Settings of `pretrain_assistant` and `contrastive_learning`.

    They are arguments of `ContrastiveLearning`; what is not set has its default.
    `target` "none" leaves the contrastive term out (the paper's "w/o CL").
    """

    kd_weight: NotNegative | None = None
    contrastive_weight: NotNegative | None = None
    target: Literal[Target, "none"] = "soft"
    temperature: Positive | None = None
    goal_temperature: Positive | None = None
    matryoshka_dims: Counts | None = None

    def arguments(self) -> dict[str, Any]:
        """Return its fields; without the contrastive term those of the others."""
        given = super().arguments()
        if self.target != "none":
            return given
        kept = "dims", "quantize", "kd_weight", "matryoshka_dims"
        return {key: given[key] for key in kept if key in given} | {"contrastive": None}


class ThinDeepSettings(PairStageSettings):
    """`[stages.teach_thin_deep]`: arguments of `TeachThinDeep`.

    A term of weight 0 is left out. `chunk_size` is the number of pairs whose
    activations are in memory at a time; the gradients are those of the whole batch.
    What is not set has the default of `TeachThinDeep`.
    """

    ams_weight: NotNegative | None = None
    feature_weight: NotNegative | None = None
    logit_weight: NotNegative | None = None
    feature: Feature = "fd"
    margin: NotNegative | None = None
    scale: Positive | None = None
    temperature: Positive | None = None
    chunk_size: Count | None = None


class ReductionSettings(Settings):
    """`[stages.reduce_teacher]`: a dense layer after the frozen teacher.

    One layer is trained, and scored, for each of `widths`; one more for a student whose
    `feature` is "synchronized", of that student's dimension. The pairs are those of
    `teach_thin_deep`. The other settings are arguments of `starts.reduce_dimensions`.
    """

    skip: bool = False
    widths: Counts = ()
    steps: Count | None = None
    batch_size: Annotated[int, Field(ge=2)] = 512
    learning_rate: Positive | None = None
    margin: NotNegative | None = None
    scale: Positive | None = None


class RowSettings(TrainingSettings):
    """Settings that the stages on sets of sentence pairs share.

    `sets` names the sets; `languages` are by default English and those of the pairs. A
    set need not have all of them.
    """

    needed: ClassVar[str]  # an example of `sets`

    batch_size: Count = 16
    sets: Any = ()
    languages: Words = ()

    @model_validator(mode="after")
    def _has_a_set(self) -> "RowSettings":
        if not self.skip and not self.sets:
            raise ValueError(f"`sets` needs {self.needed}")
        return self


class InferenceSettings(RowSettings):
    """`[stages.classify_inference]`: fine-tuning on NLI labels.

    `sets` names files `nli/<set>.train.<xx>.tsv.gz` (or .jsonl.gz, .tsv, .jsonl), which
    `data.read_inference` reads.
    """

    needed = 'a set, as in sets = ["snli"]'

    sets: Words = ()


class RegressSettings(RowSettings):
    """`[stages.regress_similarity]`: fine-tuning on STS scores, the last stage.

    `sets` maps `sts/<set>.train.<xx>.tsv.gz` to the scale of its scores, see
    `data.scale_gold`. The best weights are kept by Spearman on `dev_set`, the mean of
    `dev_languages` (by default `languages`), before training, every `evaluate_every`
    training steps (by default each epoch) and at the end. The stage ends after
    `patience` scores without a new best.
    """

    needed = 'a set and its scale, as in stsb = "over_5"'

    sets: dict[str, GoldScale] = Field(default_factory=dict)
    dev_set: str = "stsb"
    dev_languages: Words = ()
    evaluate_every: Count | None = None
    patience: Count | None = None


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
        settings=SimilaritySettings,
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
