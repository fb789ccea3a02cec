"""What a recipe can set: one frozen model for each section of the TOML file."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from keras_msd.checks import one_of
from keras_msd.choices import (
    MAX_LENGTH,
    Pooling,
    Precision,
    Scale,
    Strategy,
    TableStart,
    UnitFrom,
)
from keras_msd.evaluate.parts import WHOLE, Part
from keras_msd.evaluate.sets import (
    ALL,
    SETS,
    check_part,
    check_split,
    evaluation_set,
)
from keras_msd.stages.settings import (
    Count,
    Counts,
    Fraction,
    Positive,
    ReductionSettings,
    Settings,
    Share,
    Size,
    Words,
)

if TYPE_CHECKING:
    from keras_msd.stages.stage import StageRecord

AssistantState = Literal["trained", "untrained"]  # after stage 1, before it
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+$")]
Codes = Annotated[Words, BeforeValidator(lambda it: (ALL,) if it == ALL else it)]
# What can be changed in an assistant that exists.
OF_EXISTING = ("num_layers", "pooling", "normalize", "dropout")
OF_SOURCE = ("vocabulary", "average", "trim")  # of an encoder that exists


class TableRow(Settings):
    """`[recipe.rows.<model>]`: the row of a paper's table that a model reproduces.

    `table` names one or more tables or figures, separated by semicolons.
    """

    table: str
    row: str


class About(Settings):
    """`[recipe]`: which experiment this is.

    `citation` is the paper that the recipe reproduces, empty for a recipe of your own;
    `table` and `row` say what of it. `rows` gives the same for several models, by their
    names. `ours` gives the reason for each setting, by its dotted key, that differs
    from the paper at the `paper` scale too; `{value}` is replaced by the setting.
    `seed` decides every random draw except the choice of pairs, which `data.seed`
    decides.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    title: str
    citation: str = ""
    table: str = ""
    row: str = ""
    cost: str = ""
    seed: Size = 0
    scales: Annotated[tuple[Scale, ...], Field(strict=False, min_length=1)] = ("smoke",)
    default_scale: Scale = "smoke"
    rows: dict[str, TableRow] = Field(default_factory=dict)
    ours: dict[str, str] = Field(default_factory=dict)


class TeacherSettings(Settings):
    """`[teacher]`: `source`, `dim`, `pooling`, `prompt` as for `load_teacher`.

    A `multilingual` teacher is scored in all languages, and thin, deep students learn
    its embedding of each side. Otherwise the embedding of the English side stands for
    both, and pairs without English are refused.
    """

    source: str = "default"
    dim: Count | None = None
    pooling: Pooling | None = None
    prompt: str | None = None
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
    `max_words` replaces that of `Cleaning`.
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
    max_words: Count | None = None
    max_length: Annotated[int, Field(ge=4)] = MAX_LENGTH
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


class AverageSettings(Settings):
    """`[assistant.average]`: see `models.average_weights`.

    `source` is loaded with `load_encoder`, and each weight becomes
    `(1 - share) * assistant + share * source`.
    """

    source: str
    share: Fraction


class AssistantSettings(Settings):
    """`[assistant]`: a new encoder with a shape and a start, or an encoder that exists.

    `source` "new" makes one; "none" is for thin, deep students, which need no
    assistant. Anything else is loaded with `load_encoder`: `num_layers` then keeps its
    first layers, `pooling`, `normalize` and `dropout` replace its own, `vocabulary`
    names an encoder whose tokens it gets (see `restore_vocabulary`), its weights are
    averaged with those of the encoder that `average` names, and `trim` makes its
    vocabulary smaller.

    A new assistant has the defaults of `EncoderConfig`; with `num_layers = 0` it is a
    word table alone. `start` of a new one: "random"; "ridge": closed-form word rows
    under a pre-norm body whose residuals begin at zero.
    """

    source: str = "new"
    start: Literal["random", "ridge"] | None = None
    num_layers: Size | None = None
    hidden_dim: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    bottleneck_dim: Count | None = None
    projection_dim: Count | None = None
    dropout: Share | None = None
    pooling: Pooling | None = None
    normalize: bool | None = None
    vocabulary: str | None = None
    average: AverageSettings | None = None
    trim: AssistantTrimSettings | None = None

    @property
    def exists(self) -> bool:
        """Whether `source` names an encoder that exists."""
        return self.source not in ("new", "none")

    @model_validator(mode="after")
    def _fits_its_source(self) -> "AssistantSettings":
        keys = self.model_dump(exclude_none=True).keys()
        shape = [key for key in keys if key not in ("source", *OF_EXISTING, *OF_SOURCE)]
        if self.exists and shape:
            raise ValueError(
                f"the encoder `{self.source}` has a shape of its own; received "
                f"{', '.join(f'`{key}`' for key in shape)} beside it. Leave that out; "
                "what may be set is "
                f"{', '.join(f'`{it}`' for it in (*OF_EXISTING, *OF_SOURCE))}"
            )
        if not self.exists and any(getattr(self, name) for name in OF_SOURCE):
            raise ValueError(
                f"{', '.join(f'`{it}`' for it in OF_SOURCE)} change an encoder that "
                f'exists; received `source = "{self.source}"`. Give the encoder, or '
                "leave them out"
            )
        needed = ["num_layers", "hidden_dim", "num_heads", "intermediate_dim"]
        if self.num_layers == 0:  # without a body it has the teacher's dimension
            needed.remove("hidden_dim")
        absent = [key for key in needed if getattr(self, key) is None]
        if self.source == "new" and absent:
            raise ValueError(f"a new assistant needs {', '.join(absent)}")
        return self


# Of each kind of students, the starts that it can have, and the keys that it has not.
STARTS = {
    "recurrent": ("random", "standard_normal", "svd", "ordered"),
    "thin_deep": ("random", "ridge"),
}
UNUSED = {
    "recurrent": ("row", "num_layers", "dropout"),
    "thin_deep": ("repeats", "bottleneck_dim", "max_length", "refit"),
}


class StudentSettings(Settings):
    """`[student]`: what is made of the assistant, or instead of one.

    `kind` "recurrent": a bottleneck and a recurrent unit; without `bottleneck_dim` the
    full table. `layers` are copied from the assistant after stage 1 ("trained") or
    before it, and so is the `guide` that stages 2 and 3 imitate. `unit_from` says which
    of its layers: the "first", the "last", "spread" evenly, or "measured": those that
    `starts.choose_layers` keeps with 512 training sentences; they run once unless
    `repeats` says otherwise. With `num_heads` or `intermediate_dim` these layers first
    lose heads or neurons, as 960 training sentences of all languages alike decide
    (`starts.prune_width`). `max_length` is the longest sentence in tokens, by default
    the assistant's. `start` of the embedding block: "random", "standard_normal" as in
    the authors' code, the "svd" of the assistant's table, or that table "ordered": in
    the directions whose means over a sentence best find its translation
    (`starts.order_dimensions`). `refit` sentences of all languages alike then adapt
    layers that run once to that block (`starts.refit_layers`).

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
    dropout: Share | None = None
    unit_layers: Count = 3
    repeats: Count | None = None
    bottleneck_dim: Count | None = None
    hidden_dim: Count | None = None
    start: Literal[TableStart, "svd", "ordered", "ridge"] = "random"
    refit: Count | None = None
    layers: AssistantState = "trained"
    unit_from: UnitFrom | Literal["measured"] = "first"
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

    @property
    def pruned(self) -> dict[str, int]:
        """How many heads and neurons stay in a layer of the assistant, if given."""
        names = {"num_heads", "intermediate_dim"} if self.kind == "recurrent" else set()
        return self.model_dump(include=names, exclude_none=True)

    @property
    def measured(self) -> bool:
        """Whether `starts.choose_layers` says which layers the student keeps."""
        return self.kind == "recurrent" and self.unit_from == "measured"

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
        for key in UNUSED.get(self.kind, ()):
            if getattr(self, key) is not None:
                raise ValueError(f'`{key}` is not for students of kind "{self.kind}"')
        if self.kind != "none" and self.start not in STARTS[self.kind]:
            raise ValueError(
                f'`start = "{self.start}"` is not for students of kind "{self.kind}"'
            )
        return self


class StartsSettings(Settings):
    """`[starts]`: numbers of the closed forms; `closed_form` adds their score rows.

    Closed forms are scored at the teacher's dimension, at the dimensions of the
    students' tables, and at further `widths`.
    """

    closed_form: bool = False
    widths: Counts = ()
    ridge: Positive = 0.3


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
    cross-lingual one, or none; with none, `sets` may be empty. Without `artefacts` no
    encoder is timed or exported.
    """

    sets: Words = ("stsb",)
    languages: dict[str, Codes] = Field(default_factory=dict)
    splits: dict[str, str] = Field(default_factory=dict, validate_default=True)
    part: Part = WHOLE
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
        needed = "full" if records else "none"
        if not across and self.intermediate != needed:
            known = ", ".join(name for name in SETS if SETS[name].similarity)
            raise ValueError(
                f"`sets` must have one with a cross-lingual score, such as {known}, "
                f'or `intermediate = "{needed}"`; '
                f"received {', '.join(self.sets) or 'none'}"
            )
        for record in records:
            check_split(record, self.splits[record.name])
            check_part(record, self.part)
        return self


class ScoredReductionSettings(ReductionSettings):
    """`[reduction]`: dimensions to which the frozen teacher is reduced and scored.

    One dense layer after the teacher is trained on all pairs for each of `widths`. The
    other settings are arguments of `starts.reduce_dimensions`.
    """

    widths: Counts = ()


class DistributeSettings(Settings):
    """`[distribute]`: which devices train a stage, see `distribute.distribution`.

    With "data_parallel" every device gets an equal share of the rows of each batch, so
    that `batch_size` must be a multiple of their number. The loss is that of the whole
    batch on any number of devices.
    """

    strategy: Strategy = "none"


def stage_records() -> "Mapping[str, StageRecord]":
    """Return `STAGES`; Keras, which its modules need, is not needed before."""
    from keras_msd.stages.table import STAGES

    return STAGES


class Recipe(Settings):
    """One experiment at one scale, as `load_recipe` returns it.

    `precision` is what the stages compute in: "float32", "bfloat16", or "auto", which
    measures which is faster when the run begins; by default float32 on a CPU and
    "auto" on a GPU or TPU. Weights, losses and the optimizer's state are always
    float32. `deterministic` asks for kernels that always add in the same order; by
    default they are used on a CPU. `inverse_frequency` is the smoothing by which the
    rows of a trained word table are weighted, see `starts.weigh_rows`;
    `matryoshka_dims` are the prefixes that a rotation of its embeddings makes good, see
    `starts.order_dimensions`.
    `stages` has the settings of each stage in `STAGES`, by its name; one that is absent
    is skipped.
    """

    recipe: About
    precision: Literal[Precision, "auto"] = "float32"
    deterministic: bool | None = None
    distribute: DistributeSettings = DistributeSettings()
    teacher: TeacherSettings
    guides: dict[Name, GuideSettings] = Field(default_factory=dict)
    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    assistant: AssistantSettings = AssistantSettings(source="none")
    student: StudentSettings
    stages: dict[str, Any]
    starts: StartsSettings = StartsSettings()
    reduction: ScoredReductionSettings = ScoredReductionSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    inverse_frequency: Positive | None = None
    matryoshka_dims: Counts = ()
    scale: Scale

    def settings(self) -> dict[str, Any]:
        """Return everything that was set or has a default, as plain data."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def tokenizer_source(self) -> Literal["train", "assistant", "teacher"]:
        """Whose tokenizer the run has: a new one, or the assistant's or teacher's."""
        if self.tokenizer.vocabulary_size is not None:
            return "train"
        return "assistant" if self.assistant.exists else "teacher"

    def stages_of(self, student: StudentSettings | None = None) -> dict[str, Any]:
        """Return the settings of a student's stages, or the assistant's, in order."""
        trained = ["student" if student else "assistant"]
        if student or self.student.kind == "none":
            trained.append("last")
        found = {
            name: student.stage(name, settings) if student else settings
            for name, settings in self.stages.items()
            if stage_records()[name].trains in trained
        }
        return {name: settings for name, settings in found.items() if not settings.skip}

    def stages_in_use(self) -> Iterator[tuple[str, Any]]:
        """Yield name and settings of the stages, once for each student that has one.

        Those of the assistant come first.
        """
        for student in (None, *self.student.each().values()):
            yield from self.stages_of(student).items()

    @property
    def fits_table(self) -> bool:
        """Whether the recipe asks for the step `ridge`, a closed-form word table."""
        return self.starts.closed_form or self.begins_at_table

    @property
    def begins_at_table(self) -> bool:
        """Whether the assistant or a student begins with a closed-form word table."""
        begun = {str(student.start) for student in self.student.each().values()}
        if self.assistant.source == "new":
            begun.add(str(self.assistant.start))
        return "ridge" in begun

    @model_validator(mode="after")
    def _tokenizer_has_an_owner(self) -> "Recipe":
        source, trained = self.assistant.source, self.tokenizer_source == "train"
        if source != "none" and trained == self.assistant.exists:
            rule = "has no" if trained else "needs"
            raise ValueError(
                f'a recipe with `assistant.source = "{source}"` {rule} '
                "`tokenizer.vocabulary_size`, the size of a vocabulary that is trained"
            )
        return self

    @model_validator(mode="after")
    def _guides_are_targets_of_their_own(self) -> "Recipe":
        own = "teacher", "assistant", "embedding"  # what targets of stages begin with
        for name in self.guides:
            if name.startswith(own):
                raise ValueError(
                    f"`guides.{name}` must have a name that is no target of a stage: "
                    f"none that begins with {', '.join(own)}"
                )
        return self

    @model_validator(mode="after")
    def _stages_fit_the_student(self) -> "Recipe":
        kind, source = self.student.kind, self.assistant.source
        used = {name: it for name, it in self.stages.items() if not it.skip}
        alone = kind == "none" and bool(self.reduction.widths)
        if (kind == "thin_deep" or alone) != (source == "none"):
            raise ValueError(
                'an `[assistant]` is needed, unless `student.kind` is "thin_deep", '
                f'which has none; received kind "{kind}", assistant "{source}"'
            )
        of_assistant = [name for name in used if stage_records()[name].needs_assistant]
        if source == "none" and of_assistant:
            raise ValueError(
                "without an assistant there are no stages that need one; received "
                f"{', '.join(of_assistant)}"
            )
        for name, spec in stage_records().items():
            if spec.only_for and (kind == spec.only_for) != (name in used):
                raise ValueError(
                    f"`stages.{name}` is the stage of students of kind "
                    f'"{spec.only_for}", and of no others; received kind "{kind}"'
                )
        across = any(evaluation_set(it).similarity for it in self.evaluate.sets)
        for name, settings in used.items():
            if getattr(settings, "scored", None) and not across:
                raise ValueError(
                    f"`stages.{name}.scored` is a curve of cross-lingual scores; "
                    f"`evaluate.sets` has none: {', '.join(self.evaluate.sets)}"
                )
        return self
