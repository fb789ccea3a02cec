"""What a recipe can set: one frozen model for each section of the TOML file."""

from typing import Annotated, Any, ClassVar, Literal

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

Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Words = Annotated[tuple[str, ...], Field(strict=False)]
Counts = Annotated[tuple[Count, ...], Field(strict=False)]
Layers = Annotated[
    tuple[Literal["embedding", "body", "pooling", "projection"], ...],
    Field(strict=False),
]
Pooling = Literal["mean", "cls", "max"]
Scale = Literal["smoke", "demo", "lab", "backbone", "paper"]
Target = Literal["soft", "bool", "ce_soft", "ce_hard", "softmax", "none"]
Feature = Literal["fd", "distillation_first", "synchronized"]
AssistantState = Literal["trained", "untrained"]  # after stage 1, before it
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+$")]
Codes = Annotated[Words, BeforeValidator(lambda it: (ALL,) if it == ALL else it)]
# What can be changed in an assistant that exists.
OF_EXISTING = ("num_layers", "pooling", "normalize", "dropout")
LAST_TENTH = "last_tenth"


class Settings(BaseModel):
    """A section: it never changes after reading, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def with_values(self, changes: dict[str, Any]) -> Any:
        """Return these settings with other values."""
        return type(self).model_validate(self.model_dump() | changes)


class PublishedRow(Settings):
    """`[recipe.rows.<model>]`: the row of a paper's table that a model reproduces.

    `table` names one or more tables or figures, separated by semicolons. `printed_as`
    is the paper's name of the row where `row` adds something to it, and "none" for a
    row that no paper has. `columns` limits the comparison to some columns. `expected`
    holds published scores x100; by default they come from the paper's file.
    """

    table: str
    row: str
    printed_as: str | None = None
    columns: Words = ()
    expected: dict[str, float] = Field(default_factory=dict)


class About(Settings):
    """`[recipe]`: which experiment this is.

    `citation` names the file in `recipes/published/` with the paper's title and scores;
    `paper` is the title where there is no such file. `expected` holds the published
    scores x100 of the first student, or of the assistant where there is no student:
    those of `row` in `table`. `rows` gives the same for several models, by their names.
    `printed_on` names the evaluation sets of the published scores, each with the number
    of languages that its average covers. `ours` gives the reason for each setting, by
    its dotted key, that differs from the paper at the `paper` scale too; `{value}` is
    replaced by the setting. `seed` decides every random draw except the choice of
    pairs, which `data.seed` decides.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    title: str
    citation: str = ""
    paper: str = ""
    table: str = ""
    row: str = ""
    cost: str = ""
    seed: Size = 0
    scales: Annotated[tuple[Scale, ...], Field(strict=False, min_length=1)] = ("smoke",)
    default_scale: Scale = "smoke"
    expected: dict[str, float] = Field(default_factory=dict)
    rows: dict[str, PublishedRow] = Field(default_factory=dict)
    printed_on: dict[str, int] = Field(default_factory=dict)
    ours: dict[str, str] = Field(default_factory=dict)


class TeacherSettings(Settings):
    """`[teacher]`: `source`, `dim`, `pooling`, `prefix` as for `load_teacher`.

    A `multilingual` teacher is scored in all languages, and thin, deep students learn
    its embedding of each side. Otherwise the embedding of the English side stands for
    both, and pairs without English are refused.
    """

    source: str = "default"
    dim: Count | None = None
    pooling: Pooling | None = None
    prefix: str | None = None
    multilingual: bool = False


OF_TARGET = "_target"  # ends the name of a guide's vectors of translations


class GuideSettings(Settings):
    """`[guides.<name>]`: a further teacher, for `goals` of loss terms.

    A stage whose terms name it gets its vectors of the English side as the target
    `<name>`, with `multilingual` those of the translations as `<name>_target`. With
    several `sources` it is a `JointTeacher` with `weights`, standardised over `center`
    training sentences where that is set.
    """

    sources: Annotated[Words, Field(min_length=1)]
    weights: Annotated[tuple[Positive, ...], Field(strict=False)] = ()
    center: Annotated[int, Field(ge=2)] | None = None
    multilingual: bool = False


class DataSettings(Settings):
    """`[data]`: the pairs to train on and the sets to score on.

    `languages` has `fr` for pairs of English and French, `de-fr` for German and French.
    `kind` "examples" takes the package's sentences of Tatoeba; "folder" reads
    `data_dir`. Limits count pairs after cleaning; without a limit all are taken.
    `weights` are sampling factors by corpus, 1 for a corpus that is not named.
    `dirty_rows` is the number of malformed rows that are skipped in each file before
    the run stops; by default the first one stops it. `sts_train_rows` of the examples
    are for `regress_similarity`, `nli_rows` for `classify_inference`.
    """

    kind: Literal["examples", "folder"]
    languages: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    corpora: Words = ()
    pairs_per_language: Count | None = None
    pairs_per_file: Count | None = None
    max_characters: Count = 250
    max_length: Annotated[int, Field(ge=4)] = 128
    temperature: Positive = float("inf")
    weights: dict[str, Positive] | None = None
    dirty_rows: Count | None = None
    seed: Size = 0
    sts_train_rows: Size = 0
    nli_rows: Count | None = None


class TokenizerSettings(Settings):
    """`[tokenizer]`: a tokenizer of `vocabulary_size` pieces, trained on the pairs.

    Without this size the run has the tokenizer of its assistant, which must exist; or
    that of the teacher, for students that have no assistant. With `case_fold` upper and
    lower case share pieces.
    """

    case_fold: bool = False
    vocabulary_size: Annotated[int, Field(ge=8)] | None = None


class AssistantTrimSettings(Settings):
    """`[assistant.trim]`: a smaller vocabulary for an assistant that exists.

    Before any training the assistant keeps at most `pieces` pieces: special ones,
    single characters, and the most frequent ones of the run's pairs. See
    `trim_vocabulary`.
    """

    pieces: Count


class AssistantSettings(Settings):
    """`[assistant]`: a new encoder with a shape and a start, or an encoder that exists.

    `source` "new" makes one; "none" is for thin, deep students, which need no
    assistant. Anything else is loaded with `load_encoder`: `num_layers` then keeps its
    first layers, `pooling`, `normalize` and `dropout` replace its own, and `trim` makes
    its vocabulary smaller.

    A new assistant has the defaults of `EncoderConfig`; with `num_layers = 0` it is a
    word table alone. `start` of a new one: "random"; "ridge": closed-form word rows
    under a pre-norm body whose residuals begin at zero; "grow": the teacher's body with
    closed-form rows; "body": such a body on the word table of the encoder that `source`
    names, which has no body itself.
    """

    source: str = "new"
    start: Literal["random", "ridge", "grow", "body"] | None = None
    num_layers: Size | None = None
    hidden_dim: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    bottleneck_dim: Count | None = None
    projection_dim: Count | None = None
    dropout: Fraction | None = None
    pooling: Pooling | None = None
    normalize: bool | None = None
    word_branch: bool | None = None
    trim: AssistantTrimSettings | None = None

    @property
    def named(self) -> bool:
        """Whether `source` names an encoder that exists."""
        return self.source not in ("new", "none")

    @property
    def exists(self) -> bool:
        """Whether the assistant is that encoder, and not a new body on its table."""
        return self.named and self.start != "body"

    @model_validator(mode="after")
    def _fits_its_source(self) -> "AssistantSettings":
        given = self.model_dump(exclude_none=True).keys()
        shape = [key for key in given if key not in ("source", "trim", *OF_EXISTING)]
        if self.exists and shape:
            raise ValueError(
                f"the encoder `{self.source}` has a shape of its own; received "
                f"{', '.join(f'`{key}`' for key in shape)} beside it. Leave that out; "
                f"what may be set is {', '.join(f'`{it}`' for it in OF_EXISTING)} and "
                "`trim`"
            )
        if not self.named and (self.trim or self.start == "body"):
            raise ValueError(
                '`trim` and `start = "body"` take the vocabulary of an encoder that '
                f'exists; received `source = "{self.source}"`. Give the encoder, or '
                "leave them out"
            )
        return self

    @model_validator(mode="after")
    def _fits_its_start(self) -> "AssistantSettings":
        if self.exists or self.source == "none" or self.start == "grow":
            return self
        shape = ["num_layers", "num_heads", "intermediate_dim"]
        if self.num_layers != 0:  # without a body it has the teacher's dimension
            shape.insert(1, "hidden_dim")
        if absent := [key for key in shape if getattr(self, key) is None]:
            raise ValueError(f"a new assistant needs {', '.join(absent)}")
        return self


class StudentSettings(Settings):
    """`[student]`: what is made of the assistant, or instead of one.

    `kind` "recurrent": a bottleneck and a recurrent unit; without `bottleneck_dim` the
    full table. `layers` are copied from the assistant after stage 1 ("trained") or
    before it, and so is the `guide` that stages 2 and 3 imitate. `unit_from` says which
    of its layers: the "first", the "last" or "spread" evenly. `max_length` is the
    longest sentence in tokens, by default the assistant's. `start` of the embedding
    block: "random", "standard_normal" as in the authors' code, the "svd" of the
    assistant's table, or that table "ordered": in the directions whose means over a
    sentence best find its translation (`starts.order_dimensions`).

    "thin_deep": no assistant; a `row` of `models.ROWS`, changed by `num_layers`,
    `hidden_dim`, `num_heads`, `intermediate_dim` and `dropout`, or these alone. `start`
    "ridge": closed-form word rows under a pre-norm body whose residuals begin at zero,
    with mean pooling and a linear dense layer.

    "none": the recipe is about the assistant.

    `[student.stages.<name>]` changes a stage for all students, and
    `[student.variants.<name>]` adds a student: what it leaves out is as in `[student]`.
    """

    kind: Literal["recurrent", "thin_deep", "none"] = "recurrent"
    row: Size | str | None = None
    num_layers: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    dropout: Fraction | None = None
    unit_layers: Count = 3
    repeats: Count | None = None
    bottleneck_dim: Count | None = None
    hidden_dim: Count | None = None
    start: Literal["random", "standard_normal", "svd", "ordered", "ridge"] = "random"
    layers: AssistantState = "trained"
    unit_from: Literal["first", "last", "spread"] = "first"
    max_length: Count | None = None
    guide: AssistantState = "trained"
    stages: dict[str, dict[str, Any]] = Field(default_factory=dict)
    variants: dict[Name, dict[str, Any]] = Field(default_factory=dict)

    def each(self) -> dict[str, "StudentSettings"]:
        """Return every student by the name of its folder: `student`, `student_x`."""
        if self.kind == "none":
            return {}
        shared = self.model_copy(update={"variants": {}})
        return {"student": shared} | {
            f"student_{name}": shared.with_values(changes)
            for name, changes in self.variants.items()
        }

    def stage(self, name: str, shared: Any) -> Any:
        """Return the settings of a stage with this student's changes."""
        return shared.with_values(self.stages.get(name, {}))

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "StudentSettings":
        if self.kind == "recurrent" and self.hidden_dim is not None:
            raise ValueError(
                "`hidden_dim` is the assistant's, whose layers are copied; a student "
                "gets smaller by `bottleneck_dim` and `unit_layers`"
            )
        thin_deep = self.start in ("random", "ridge")
        recurrent = self.start != "ridge"
        if not {"thin_deep": thin_deep, "recurrent": recurrent}.get(self.kind, True):
            raise ValueError(
                f'`start = "{self.start}"` is not for students of kind "{self.kind}"'
            )
        return self


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
    warmup: Fraction = 0.1
    warmup_steps: Count | None = None
    weight_decay: NotNegative = 0.01
    clip_norm: Positive = 1.0
    schedule: Literal["linear", "cosine", "constant"] = "linear"
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

    dims: Literal["mean", "sum"] = "mean"
    corpora: Words = ()
    pairs_per_language: Count | None = None
    scored: Count | Literal["last_tenth"] | None = None
    quantize: Literal["int8", "int4_table", "int4"] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return `dims`, `quantize` and the fields of a subclass that are set."""
        own = type(self).model_fields.keys() - PairStageSettings.model_fields.keys()
        return self.model_dump(include={"dims", "quantize", *own}, exclude_none=True)


class AlignSettings(PairStageSettings):
    """`[stages.align_embedding]`: `per_token` is the variant of `AlignEmbedding`."""

    per_token: bool = False


class SimilaritySettings(PairStageSettings):
    """`[stages.pretrain_assistant]`: arguments of `ContrastiveLearning`.

    `target` "none" leaves the contrastive term out (the paper's "w/o CL"). What is not
    set has the default of `ContrastiveLearning`.
    """

    kd_weight: NotNegative | None = None
    contrastive_weight: NotNegative | None = None
    target: Target = "soft"
    temperature: Positive | None = None
    goal_temperature: Positive | None = None
    matryoshka_dims: Counts | None = None

    def arguments(self) -> dict[str, Any]:
        """Return its fields; without the contrastive term those of the others."""
        given = super().arguments()
        given.pop("branch_alone", None)
        if self.target != "none":
            return given
        kept = "dims", "quantize", "kd_weight", "matryoshka_dims"
        return {key: given[key] for key in kept if key in given} | {"contrastive": None}


class ContrastiveSettings(SimilaritySettings):
    """`[stages.contrastive_learning]`: as `pretrain_assistant`, and `branch_alone`.

    `branch_alone` trains a student's word branch alone, taken out and put back: its
    training steps are cheap, so that batches can be large.
    """

    branch_alone: bool = False


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

    `sets` names the sets; `languages` are by default
    English and those of the pairs. A set need not have all of them.
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

    sets: dict[str, Literal["over_5", "from_1"]] = Field(default_factory=dict)
    dev_set: str = "stsb"
    dev_languages: Words = ()
    evaluate_every: Count | None = None
    patience: Count | None = None


class StartsSettings(Settings):
    """`[starts]`: numbers of the closed forms; `closed_form` adds their score rows.

    Closed forms are scored at the teacher's dimension, at the dimensions of the
    students' tables, and at further `widths`. `body_weight` is the weight of a grown
    assistant's body relative to its word branch; `branch_scale` is the branch's share
    in the narrower table of a student.
    """

    closed_form: bool = False
    widths: Counts = ()
    ridge: Positive = 0.3
    body_weight: Positive = 0.5
    branch_scale: Positive = 1.0


class EvaluateSettings(Settings):
    """`[evaluate]`: what is scored, from the files of the data folder.

    `sets` names evaluation sets (`keras_msd.evaluate.SETS`) or row-aligned files
    `sts/<name>.<split>.<xx>.tsv.gz`; the first similarity set gives the cross-lingual
    score. `languages` and `splits` change the usual ones of a set; the usual languages
    are those of the pairs, or the few that a set has. For Tatoeba "all" takes every
    language in the folder.
    `part` is "all", "choose" (the tuning half) or "report" (the reporting half),
    for all scores and curves. With either half `regress_similarity` selects its
    checkpoint on the tuning half of its dev set.
    `intermediate` says which scores a model gets before its last stage: all, only the
    cross-lingual one, or none. Without `artefacts` no encoder is timed or exported.
    """

    sets: Words = ("stsb",)
    languages: dict[str, Codes] = Field(default_factory=dict)
    splits: dict[str, str] = Field(default_factory=dict, validate_default=True)
    part: Literal["all", "choose", "report"] = WHOLE
    intermediate: Literal["full", "cross_lingual", "none"] = "full"
    artefacts: bool = True

    @field_validator("languages", "splits")
    @classmethod
    def _without_other_sets(
        cls, table: dict[str, Any], info: ValidationInfo
    ) -> dict[str, Any]:
        if "sets" not in info.data:  # `sets` has an error of its own
            return table
        sets = info.data["sets"]
        for name in table:
            one_of(dict.fromkeys([*SETS, *sets]), **{str(info.field_name): name})
        found = {name: value for name, value in table.items() if name in sets}
        if info.field_name == "languages":
            return found
        return {name: evaluation_set(name).splits[0] for name in sets} | found

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
            check_split(record, self.splits[record.name])
            check_part(record, self.part)
        return self


class TrimSettings(Settings):
    """`[trim.<name>]`: a smaller vocabulary for every finished model.

    It has the pieces that the run's pairs use; `keep` and `min_count` are those of
    `trim_vocabulary`. The trimmed model is kept and scored next to the whole one.
    """

    keep: Count | Annotated[float, Field(gt=0, le=1)] | None = None
    min_count: Count = 1


class DistributeSettings(Settings):
    """`[distribute]`: which devices train a stage, see `distribute.distribution`.

    With "data_parallel" every device gets an equal share of the rows of each batch, so
    that `batch_size` must be a multiple of their number. The loss is that of the whole
    batch on any number of devices.
    """

    strategy: Literal["none", "data_parallel"] = "none"
