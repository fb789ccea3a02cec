"""What a recipe can set of a stage: the settings that several stages share.

Keras is imported where it is used, as recipes are listed without it.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from keras_msd.checks import InputError, explained, one_of
from keras_msd.choices import (
    CLIP_NORM,
    SCHEDULE,
    WARMUP,
    WEIGHT_DECAY,
    Dims,
    IntegerScheme,
    Schedule,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import numpy as np

Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]  # of a whole, never all of it
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
    """A section of a recipe: frozen, and unknown keys are errors."""

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

    @field_validator("loss")
    @classmethod
    def _is_known(cls, loss: str) -> str:
        from keras_msd.losses import LOSSES

        one_of(LOSSES, loss=loss)
        return loss

    @model_validator(mode="after")
    def _has_arguments_of_its_loss(self) -> "LossSettings":
        self.make()
        return self

    def make(self) -> Any:
        """Return the loss."""
        from keras_msd.losses import loss_class

        with explained(
            lambda error: f"`arguments` do not fit `{self.loss}`: {error}", TypeError
        ):
            return loss_class(self.loss)(**self.arguments)


class TrainingSettings(Settings):
    """`[stages.<name>]`: length, optimizer and terms of one stage.

    The stage ends after `epochs` or `steps`, whichever comes first. `warmup` is a share
    of the training steps; `warmup_steps` is their number and takes precedence. `frozen`
    names layers that keep their weights. `weights` are factors of the stage's terms,
    `losses` are further terms. `buckets` is the largest number of batch shapes where
    XLA compiles the step once for each, see `PairBatches`; elsewhere there is none.
    """

    skip: bool = False
    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Positive = 2e-5
    warmup: Share = WARMUP
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

    @property
    def compared(self) -> set[str]:
        """The targets in `losses`, but for terms of weight 0."""
        used = (
            it.targets
            for name, it in self.losses.items()
            if self.weights.get(name, it.weight)
        )
        return set().union(*used)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the stage's class that only this stage has."""
        return {}

    def unused(self) -> tuple[str, ...]:
        """Return the fields that these settings make no use of."""
        return ()

    def student_dim(self, teacher_dim: int) -> int | None:
        """Return the dimension that a new student needs for this stage, if it says.

        Args:
            teacher_dim: Dimension of the teacher's vectors.
        """
        return None

    def training_steps(self, name: str, rows: int, what: str = "pairs") -> int:
        """Return the number of training steps for so many rows.

        Args:
            name: Name of the stage, for errors.
            rows: Number of rows; an epoch has the full batches of them.
            what: What the rows are, for errors.

        Raises:
            InputError: The rows do not fill a batch, or the steps are too few for
                `warmup_steps`.
        """
        if rows < self.batch_size:
            raise InputError(
                f"`stages.{name}.batch_size` must be at most what the stage trains on. "
                f"Received: batch_size={self.batch_size}, {rows} {what}. Lower it, or "
                "give more."
            )
        limits = [] if self.steps is None else [self.steps]
        if self.epochs is not None:
            limits.append(self.epochs * (rows // self.batch_size))
        steps = min(limits)
        if self.warmup_steps is not None and self.warmup_steps >= steps:
            raise InputError(
                f"`stages.{name}.warmup_steps` must be below the stage's training "
                f"steps. Received: warmup_steps={self.warmup_steps}, {steps} steps. "
                "Lower it, or train longer."
            )
        return steps

    def optimizer(self, steps: int) -> "keras.optimizers.Optimizer":
        """Return the optimizer of a stage of so many training steps."""
        from keras_msd.training.optimizer import make_optimizer

        warmup = self.warmup
        if self.warmup_steps is not None:
            # Half a step more, as the optimizer rounds the product down.
            warmup = (self.warmup_steps + 0.5) / steps
        names = {"learning_rate", "weight_decay", "clip_norm", "schedule"}
        return make_optimizer(
            steps=steps, warmup=warmup, **self.model_dump(include=names)
        )


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


class RowSettings(TrainingSettings):
    """A stage that learns from labelled pairs of sentences.

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


class TeacherVectors(NamedTuple):
    """What an extra step is made from.

    Attributes:
        source: The teacher's vectors of the stage's source sentences, `(n, dim)`; only
            indexing by rows and `shape` are defined.
        target: The same of the translations.
        group: int `(n,)`, one number for each distinct source sentence.
        dim: Dimension of the encoder that the stage trains.
        seed: Seed of the step.
    """

    source: Any
    target: Any
    group: "np.ndarray"
    dim: int
    seed: int


class StudentVectors(NamedTuple):
    """What the encoder that a stage trains makes of the same pairs before training.

    Attributes:
        encoder: The encoder.
        of: Function of row numbers int `(n,)` that returns its vectors of the source
            sentences, then of the translations, `(2n, dim)`.
    """

    encoder: Any
    of: "Callable[[np.ndarray], np.ndarray]"


class ReductionSettings(Settings):
    """Arguments of `reduce_dimensions`, the dense layer after the frozen teacher."""

    steps: Count | None = None
    batch_size: Annotated[int, Field(ge=2)] | None = None
    learning_rate: Positive | None = None
    margin: NotNegative | None = None
    scale: Positive | None = None

    def matrix(self, vectors: TeacherVectors) -> "np.ndarray":
        """Return the matrix that reduces the teacher's vectors."""
        from keras_msd.starts.dimension_reduction import reduce_dimensions

        source, target, group, dim, seed = vectors
        own = {*ReductionSettings.model_fields}
        options = self.model_dump(include=own, exclude_none=True)
        return reduce_dimensions(source, target, dim, group, seed=seed, **options)
