"""What a recipe may say of its students and of the four stages."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from keras_msd.recipes.settings import (
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
StudentStage = Literal["align_embedding", "teach_student", "contrastive_learning"]


class StageChange(Settings):
    """`[student.stages.<name>]`: what one student's stage has differently."""

    skip: bool | None = None
    steps: Count | None = None
    target: Target | None = None


class VariantSettings(Settings):
    """`[student.variants.<name>]`: a further student; what it leaves out is shared."""

    unit_layers: Count | None = None
    repeats: Count | None = None
    bottleneck_dim: Count | None = None
    start: Literal["random", "svd"] | None = None
    layers: Literal["trained", "untrained"] | None = None
    stages: dict[StudentStage, StageChange] | None = None


class StudentSettings(Settings):
    """`[student]`: bottleneck and recurrent unit; no `bottleneck_dim`: the full table.

    `hidden_dim` may state the width that the student is meant to have; its layers are
    the assistant's, so any other width is an error before work begins. `layers` are
    those of the trained assistant or of the assistant before stage 1.
    """

    unit_layers: Count = 3
    repeats: Count | None = None
    bottleneck_dim: Count | None = None
    hidden_dim: Count | None = None
    start: Literal["random", "svd"] = "random"
    layers: Literal["trained", "untrained"] = "trained"
    stages: dict[StudentStage, StageChange] = Field(default_factory=dict)
    variants: dict[Annotated[str, Field(pattern=r"^[a-z0-9]+$")], VariantSettings] = (
        Field(default_factory=dict)
    )

    def each(self) -> dict[str, "StudentSettings"]:
        """Return every student by the name of its folder: `student`, `student_x`."""
        shared = self.model_copy(update={"variants": {}})
        others = {
            f"student_{name}": shared.model_copy(
                update={key: value for key, value in variant if value is not None}
            )
            for name, variant in self.variants.items()
        }
        return {"student": shared} | others

    def stage(self, name: StudentStage, shared: "StageSettings") -> "StageSettings":
        """Return the settings of a stage with this student's changes."""
        change = self.stages.get(name, StageChange())
        return shared.model_copy(update=change.model_dump(exclude_none=True))


class StageSettings(Settings):
    """`[stages.<name>]`: length, optimizer and terms of one stage.

    The stage ends after `epochs` or `steps`, whichever comes first. `corpora` limits it
    to those corpora, `pairs_per_language` to so many pairs, as a guide sees every
    sentence of its stage; `frozen` names layers that keep their weights.
    """

    skip: bool = False
    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Positive = 2e-5
    warmup: Fraction = 0.1
    weight_decay: NotNegative = 0.01
    clip_norm: Positive = 1.0
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    dims: Literal["mean", "sum"] = "mean"
    corpora: Words = ()
    pairs_per_language: Count | None = None
    frozen: Layers = ()

    @model_validator(mode="after")
    def _has_a_length(self) -> "StageSettings":
        if not self.skip and self.epochs is None and self.steps is None:
            raise ValueError("a stage needs `epochs` or `steps`, unless it is skipped")
        return self


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


class StagesSettings(Settings):
    """`[stages]`: the four stages, in the order in which they run."""

    teach_assistant: StageSettings
    align_embedding: AlignSettings
    teach_student: StageSettings
    contrastive_learning: ContrastiveSettings

    def items(self) -> list[tuple[str, StageSettings]]:
        """Return (name, settings) of all stages in order."""
        return [(name, getattr(self, name)) for name in type(self).model_fields]
