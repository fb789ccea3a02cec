"""What a recipe may say of its students and of the stages of training."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from keras_msd.recipes.schema.settings import (
    Count,
    Fraction,
    NotNegative,
    Positive,
    Settings,
    Words,
)

Layers = Annotated[
    tuple[Literal["embedding", "body", "pooling", "projection"], ...],
    Field(strict=False),
]
Target = Literal["soft", "bool", "ce_soft", "ce_hard", "softmax", "none"]
Feature = Literal["fd", "distillation_first", "synchronized"]
GoldScale = Literal["over_5", "from_1"]
StudentStart = Literal["random", "svd", "ridge"]
StudentStage = Literal[
    "align_embedding",
    "teach_student",
    "contrastive_learning",
    "teach_thin_deep",
    "regress_similarity",
]


class StageChange(Settings):
    """`[student.stages.<name>]`: what one student's stage has differently."""

    skip: bool | None = None
    steps: Count | None = None
    target: Target | None = None
    contrastive_weight: NotNegative | None = None
    ams_weight: NotNegative | None = None
    feature_weight: NotNegative | None = None
    logit_weight: NotNegative | None = None
    feature: Feature | None = None


class VariantSettings(Settings):
    """`[student.variants.<name>]`: a further student; what it leaves out is shared."""

    unit_layers: Count | None = None
    repeats: Count | None = None
    bottleneck_dim: Count | None = None
    start: StudentStart | None = None
    layers: Literal["trained", "untrained"] | None = None
    row: Annotated[int, Field(ge=0)] | str | None = None
    hidden_dim: Count | None = None
    num_layers: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    stages: dict[StudentStage, StageChange] | None = None


class StudentSettings(Settings):
    """`[student]`: what is made of the assistant, or instead of one.

    `kind` "recurrent": bottleneck and recurrent unit; without `bottleneck_dim` the full
    table. `hidden_dim` may state the width that the student is meant to have; its
    layers are the assistant's, so any other width is an error before work begins.
    `layers` are those of the trained assistant or of the assistant before stage 1.
    `start` of its bottleneck is "random" or the "svd" of the assistant's table.

    "thin_deep": no assistant; `row` of `models.thin_deep.ROWS`, and of its shape what
    `num_layers`, `hidden_dim`, `num_heads`, `intermediate_dim` and `dropout` change;
    without `row` those alone. `start` "ridge": closed-form word rows under a pre-norm
    body whose residuals begin at zero, with mean pooling and a linear dense layer.

    "none": the assistant is what the recipe is about.
    """

    kind: Literal["recurrent", "thin_deep", "none"] = "recurrent"
    row: Annotated[int, Field(ge=0)] | str | None = None
    num_layers: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    dropout: Fraction | None = None
    unit_layers: Count = 3
    repeats: Count | None = None
    bottleneck_dim: Count | None = None
    hidden_dim: Count | None = None
    start: StudentStart = "random"
    layers: Literal["trained", "untrained"] = "trained"
    stages: dict[StudentStage, StageChange] = Field(default_factory=dict)
    variants: dict[Annotated[str, Field(pattern=r"^[a-z0-9]+$")], VariantSettings] = (
        Field(default_factory=dict)
    )

    @model_validator(mode="after")
    def _starts_as_its_kind_can(self) -> "StudentSettings":
        other = {"recurrent": "ridge", "thin_deep": "svd"}.get(self.kind)
        for name, student in self.each().items():
            if student.start == other:
                raise ValueError(
                    f'`start = "{other}"` of {name} is not for students of kind '
                    f'"{self.kind}"'
                )
        return self

    def each(self) -> dict[str, "StudentSettings"]:
        """Return every student by the name of its folder: `student`, `student_x`."""
        if self.kind == "none":
            return {}
        shared = self.model_copy(update={"variants": {}})
        others = {
            f"student_{name}": shared.model_copy(
                update={key: value for key, value in variant if value is not None}
            )
            for name, variant in self.variants.items()
        }
        return {"student": shared} | others

    def stage(self, name: StudentStage, shared: "Length") -> Any:
        """Return the settings of a stage with this student's changes."""
        change = self.stages.get(name, StageChange())
        return shared.model_copy(update=change.model_dump(exclude_none=True))


class Length(Settings):
    """`[stages.<name>]`: length and optimizer of one stage.

    The stage ends after `epochs` or `steps`, whichever comes first. `warmup` is a share
    of the updates, `warmup_steps` their number, which counts where it is given.
    `frozen` names layers that keep their weights.
    """

    skip: bool = False
    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Positive = 2e-5
    warmup: Fraction = 0.1
    warmup_steps: Count | None = None
    weight_decay: NotNegative = 0.01
    clip_norm: Positive = 1.0
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    frozen: Layers = ()

    @model_validator(mode="after")
    def _has_a_length(self) -> "Length":
        if not self.skip and self.epochs is None and self.steps is None:
            raise ValueError("a stage needs `epochs` or `steps`, unless it is skipped")
        return self


class StageSettings(Length):
    """A stage that learns from parallel text.

    `corpora` limits it to those corpora, `pairs_per_language` to so many pairs, as a
    guide sees every sentence of its stage. `scored` is how often the encoder is scored
    on its way, for a curve.
    """

    dims: Literal["mean", "sum"] = "mean"
    corpora: Words = ()
    pairs_per_language: Count | None = None
    scored: Count | None = None


class AlignSettings(StageSettings):
    """`[stages.align_embedding]`: `per_token` is the variant of `AlignEmbedding`."""

    per_token: bool = False


class ContrastiveSettings(StageSettings):
    """`[stages.contrastive_learning]`: target and weights of the terms.

    `target` "none" leaves the contrastive term out (the paper's "w/o CL").
    `branch_alone` trains a student's word branch alone, taken out and put back: its
    steps are cheap, so that batches can be large.
    """

    kd_weight: NotNegative = 1.0
    contrastive_weight: NotNegative | None = None
    target: Target = "soft"
    temperature: Positive = 0.05
    branch_alone: bool = False


class ThinDeepSettings(StageSettings):
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


class RegressSettings(Length):
    """`[stages.regress_similarity]`: the last stage, on STS scores.

    `of` is what it trains: the assistant, from which students are made afterwards, or
    every student. `sets` maps `sts/<set>.train.<xx>.tsv.gz` to the scale of its scores,
    see `data.scale_gold`; `languages` are by default English and those of the pairs. A
    set need not have all of them. Spearman on `dev_set`, mean of `dev_languages` (by
    default `languages`), chooses among the weights before training, after every
    `evaluate_every` updates (by default an epoch) and at the end; after `patience` such
    scores without a new best the stage ends.
    """

    of: Literal["assistant", "student"] = "student"
    batch_size: Annotated[int, Field(ge=1)] = 16
    sets: dict[str, GoldScale] = Field(default_factory=dict)
    languages: Words = ()
    dev_set: str = "stsb"
    dev_languages: Words = ()
    evaluate_every: Count | None = None
    patience: Count | None = None

    @model_validator(mode="after")
    def _has_a_set(self) -> "RegressSettings":
        if not self.skip and not self.sets:
            raise ValueError('`sets` needs a set and its scale, as in stsb = "over_5"')
        return self


SKIPPED = StageSettings(skip=True)


class StagesSettings(Settings):
    """`[stages]`: the stages, in the order in which they run; an absent one is skipped.

    `teach_thin_deep` is the one stage of thin, deep students.
    """

    teach_assistant: StageSettings = SKIPPED
    align_embedding: AlignSettings = AlignSettings(skip=True)
    teach_student: StageSettings = SKIPPED
    contrastive_learning: ContrastiveSettings = ContrastiveSettings(skip=True)
    reduce_teacher: ReductionSettings = ReductionSettings(skip=True)
    teach_thin_deep: ThinDeepSettings = ThinDeepSettings(skip=True)
    regress_similarity: RegressSettings = RegressSettings(skip=True)

    def items(self) -> list[tuple[str, Any]]:
        """Return (name, settings) of all stages in order."""
        return [(name, getattr(self, name)) for name in type(self).model_fields]
