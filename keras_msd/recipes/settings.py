"""What the sections of a recipe share: frozen models, kinds of numbers, training."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from keras_msd.checks import one_of
from keras_msd.evaluate.sets import (
    ALL,
    SETS,
    check_part,
    check_split,
    evaluation_set,
)
from keras_msd.evaluate.splits import WHOLE
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
    `buckets` is how many lengths batches are padded to at most, see `PairBatches`.
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
    buckets: Count | None = None
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
    pairs: one among few long ones weighs more. No term may compare pairs of a batch,
    and there are no `buckets`: XLA compiles each of the many shapes.
    """

    dims: Literal["mean", "sum"] = "mean"
    corpora: Words = ()
    pairs_per_language: Count | None = None
    scored: Count | Literal["last_tenth"] | None = None
    token_budget: Count | None = None

    @model_validator(mode="after")
    def _cuts_one_way(self) -> "PairStageSettings":
        if self.buckets is not None and self.token_budget is not None:
            raise ValueError(
                "`buckets` bounds the shapes of batches, which a `token_budget` does "
                f"not; received buckets={self.buckets}, "
                f"token_budget={self.token_budget}. Leave one out"
            )
        return self


# Keys that `[evaluate]` had, and what says the same.
FORMER = {
    "sts": "`sets`, with the name of the set",
    "split": "`splits`, by the name of the set",
    "retrieval": '`sets`, with "tatoeba", and `languages.tatoeba`',
    "un": '`sets`, with "un", and `languages.un`',
    "bucc": '`sets`, with "bucc2018", and `languages.bucc2018`',
}
Codes = Annotated[Words, BeforeValidator(lambda it: (ALL,) if it == ALL else it)]


class EvaluateSettings(Settings):
    """`[evaluate]`: what is scored, from the files of the data folder.

    `sets` names evaluation sets (`keras_msd.evaluate.SETS`) or row-aligned files
    `sts/<name>.<split>.<xx>.tsv.gz`; the first that compares the sentences of one
    language, too, gives the cross-lingual score. `languages` and `splits` say for some
    of them what is not as usual: the languages by default are those of the pairs, or
    the few that a set has; of Tatoeba also "all" that the folder has. What they say of
    sets that are not scored is left out.
    `part` is what all rows and curves are scored on: "all"; "choose", the half of each
    set that settings are chosen on; or "report", the other half, for the scores that
    are then said. With either half `regress_similarity` chooses its weights on "choose"
    of its dev set.
    `intermediate` is what rows before the last of a model get: all scores, only the
    cross-lingual one, or none: no such rows. Of each track their cross-lingual score,
    and that of curves, reads `intermediate_rows`: fewer are quicker. No final score
    does. With `branches` a word branch that is trained alone has a row of its own,
    beside that of its student. Without `artefacts` no encoder is timed or exported.
    """

    sets: Words = ("stsb",)
    languages: dict[str, Codes] = Field(default_factory=dict)
    splits: dict[str, str] = Field(default_factory=dict, validate_default=True)
    # Not said where it is as before: results know their settings by a hash.
    part: Literal["all", "choose", "report"] = Field(
        default=WHOLE, exclude_if=lambda part: part == WHOLE
    )
    intermediate: Literal["full", "cross_lingual", "none"] = "full"
    intermediate_rows: Annotated[int, Field(ge=2)] | None = None
    branches: bool | None = None
    neighbours: Annotated[int, Field(ge=0)] = 5
    artefacts: bool = True

    @model_validator(mode="before")
    @classmethod
    def _is_written_as_today(cls, values: Any) -> Any:
        for key, rule in FORMER.items():
            if key in values:
                raise ValueError(f"`{key}` is now said by {rule}")
        return values

    @field_validator("languages", "splits")
    @classmethod
    def _says_nothing_of_other_sets(
        cls, table: dict[str, Any], info: ValidationInfo
    ) -> dict[str, Any]:
        if "sets" not in info.data:  # they are wrong themselves, which is said
            return table
        key, sets = str(info.field_name), info.data["sets"]
        for name in table:
            one_of(dict.fromkeys([*SETS, *sets]), **{key: name})
        usual = {name: evaluation_set(name).splits[0] for name in sets}
        said = {name: value for name, value in table.items() if name in sets}
        return usual | said if key == "splits" else said

    @model_validator(mode="after")
    def _sets_are_known(self) -> "EvaluateSettings":
        records = [evaluation_set(name) for name in self.sets]
        across = any(record.similarity for record in records)
        if not across and (self.intermediate != "full" or not records):
            known = ", ".join(name for name in SETS if SETS[name].similarity)
            raise ValueError(
                f"`sets` must have one with a cross-lingual score, such as {known}, "
                'or `intermediate = "full"`; '
                f"received {', '.join(self.sets) or 'none'}"
            )
        for record in records:
            if self.languages.get(record.name) == (ALL,) and record.others is None:
                raise ValueError(
                    f'`languages.{record.name}` must name them: "{ALL}" is for sets '
                    "with other languages in their folder, such as tatoeba"
                )
            check_split(record, self.splits[record.name])
            check_part(record, self.part)
        return self
