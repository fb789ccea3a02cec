"""What the sections of a recipe share: frozen models, kinds of numbers, training."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from keras_msd.checks import one_of
from keras_msd.losses.table import LOSSES

Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Words = Annotated[tuple[str, ...], Field(strict=False)]
Layers = Annotated[
    tuple[Literal["embedding", "body", "pooling", "projection"], ...],
    Field(strict=False),
]


class Settings(BaseModel):
    """A section: nothing changes after reading, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_taken_out(cls, values: Any) -> Any:
        """Leave tables to their defaults that `--set KEY={}` takes out."""
        if not isinstance(values, Mapping):
            return values
        tables = {name for name, it in cls.model_fields.items() if it.default_factory}
        return {
            key: value
            for key, value in values.items()
            if value is not None or key not in tables
        }


class LossSettings(Settings):
    """`[stages.<name>.losses.<term>]`: a term beside those that the stage has.

    `loss` is a name in `LOSSES`, made with `arguments`; `goals` names the targets that
    it gets, `grouped` whether `group` comes with them; see `LossTerm`.
    """

    loss: str
    goals: str | Words
    grouped: bool = False
    weight: NotNegative = 1.0
    arguments: dict[str, Any] = Field(default_factory=dict)

    @field_validator("loss")
    @classmethod
    def _is_known(cls, loss: str) -> str:
        one_of(LOSSES, loss=loss)
        return loss


class TrainingSettings(Settings):
    """`[stages.<name>]`: length, optimizer and terms of one stage.

    The stage ends after `epochs` or `steps`, whichever comes first. `warmup` is a share
    of the updates, `warmup_steps` their number, which counts where it is given.
    `frozen` names layers that keep their weights. `weights` are factors of the stage's
    terms, `losses` further terms. `bad_batches` is how many batches whose loss or
    gradients are not finite are skipped before the stage fails; without it none are.
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
    bad_batches: Count | None = None
    weights: dict[str, NotNegative] = Field(default_factory=dict)
    losses: dict[str, LossSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_a_length(self) -> "TrainingSettings":
        if not self.skip and self.epochs is None and self.steps is None:
            raise ValueError("a stage needs `epochs` or `steps`, unless it is skipped")
        return self


class PairStageSettings(TrainingSettings):
    """A stage that learns from parallel text.

    `corpora` limits it to those corpora, `pairs_per_language` to so many pairs, as a
    guide sees every sentence of its stage. `scored` is how often the encoder is scored
    on its way, for a curve; "last_tenth" scores it after nine tenths of the updates and
    at the end, for how much it still moves.

    With `token_budget` it is no longer `batch_size` that cuts batches: each has as many
    pairs of like length as fit into so many tokens, padding and both sides included.
    `epochs` and `steps` mean what they did, and an update's loss is the mean over its
    pairs: one among few long ones weighs more. No term may compare pairs of a batch.
    Under JAX each of the many shapes is compiled anew.
    """

    dims: Literal["mean", "sum"] = "mean"
    corpora: Words = ()
    pairs_per_language: Count | None = None
    scored: Count | Literal["last_tenth"] | None = None
    token_budget: Count | None = None
