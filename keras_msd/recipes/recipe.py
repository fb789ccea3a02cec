"""What a recipe may say: frozen pydantic models, one per section of the TOML file."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    create_model,
    model_validator,
)

from keras_msd.evaluate.sets import evaluation_set
from keras_msd.recipes.papers import About, Scale
from keras_msd.recipes.settings import (
    Count,
    EvaluateSettings,
    Fraction,
    Positive,
    Settings,
    Words,
)
from keras_msd.recipes.stages import STAGE_KINDS, StageKind

AssistantState = Literal["trained", "untrained"]  # after stage 1, before it
StudentStart = Literal["random", "standard_normal", "svd", "ordered", "ridge"]
VariantName = Annotated[str, Field(pattern=r"^[a-z0-9]+$")]
# What may be set of an assistant that exists.
OF_EXISTING = ("num_layers", "pooling", "normalize", "dropout")
OF_ALL_STUDENTS = ("kind", "dropout", "variants")  # no variant has another


class TeacherSettings(Settings):
    """`[teacher]`: `source`, `dim` and `pooling` as for `load_teacher`.

    A `multilingual` teacher is scored in all languages, and thin, deep students learn
    its vector of each side; otherwise that of the English side stands for both, and
    pairs without English are refused.
    """

    source: str = "default"
    dim: Count | None = None
    pooling: Literal["mean", "cls", "max"] | None = None
    multilingual: bool = False


class DataSettings(Settings):
    """`[data]`: the pairs to train on and the sets to score on.

    `languages` has `fr` for pairs of English and French, `de-fr` for German and French.
    `kind` "examples" takes the package's sentences of Tatoeba; "folder" reads
    `data_dir`.
    Limits count pairs after cleaning; an absent limit takes everything.
    `weights` are factors of the draws by corpus, 1 where it is not named.
    `dirty_rows` is how many rows of each file that cannot be read are skipped and
    counted before one stops the run; without it the first one does.
    `sts_train_rows` of the examples are for `regress_similarity`, `nli_rows` for
    `classify_inference`.
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
    seed: Annotated[int, Field(ge=0)] = 0
    sts_train_rows: Annotated[int, Field(ge=0)] = 0
    nli_rows: Count | None = None


class TokenizerSettings(Settings):
    """`[tokenizer]`: "train" on the pairs, or the "assistant"'s or "teacher"'s own.

    By default an assistant that exists keeps its tokenizer, and any other recipe trains
    one. "extended" is the assistant's with the pieces that one trained on the pairs has
    besides; closed forms then have the trained one. `vocabulary_size` is the size of a
    trained one; with `at_most` it may have fewer rows, where the pairs have no more
    pieces, with `case_fold` capitals and small letters share their pieces.
    """

    source: Literal["train", "assistant", "teacher", "extended"] = "train"
    # Not said where it is as before: results know their settings by a hash.
    at_most: bool = Field(default=False, exclude_if=lambda it: not it)
    case_fold: bool = Field(default=False, exclude_if=lambda it: not it)
    vocabulary_size: Annotated[int, Field(ge=8)] | None = None


class AssistantTrimSettings(Settings):
    """`[assistant.trim]`: a smaller vocabulary for an assistant that exists.

    Before any training it keeps at most `pieces` pieces: special ones, single
    characters, and the most frequent ones of the run's pairs. See `trim_vocabulary`.
    """

    pieces: Count


class AssistantSettings(Settings):
    """`[assistant]`: "new" with a shape and a start, or an encoder that exists.

    `source` of one that exists is whatever `load_encoder` takes. `num_layers` then
    keeps its first so many layers, `pooling`, `normalize` and `dropout` take the place
    of its own, and `trim` makes its vocabulary smaller; the rest of its shape is its
    own. "none" is for thin, deep students, which need no assistant.

    A new one has the defaults of `EncoderConfig`. With `num_layers = 0` there is no
    body: the word table is all. `start` of a new one: "random"; "ridge": closed-form
    word rows under a pre-norm body whose residuals begin at zero; "grow": the teacher's
    body with closed-form rows. "body" puts such a body on the word table of the encoder
    that `source` names, which has none.
    """

    source: str = "new"
    start: Literal["random", "ridge", "grow", "body"] | None = None
    num_layers: Annotated[int, Field(ge=0)] | None = None
    hidden_dim: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    bottleneck_dim: Count | None = None
    projection_dim: Count | None = None
    normalize_first: bool | None = None
    zero_residuals: bool | None = None
    embedding_layer_norm: bool | None = None
    layer_norm_epsilon: Positive | None = None
    dropout: Fraction | None = None
    pooling: Literal["mean", "cls", "max"] | None = None
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

    def changes(self) -> dict[str, Any]:
        """Return what is set of an encoder that exists, as fields of its config."""
        return self.model_dump(include=set(OF_EXISTING), exclude_none=True)

    @model_validator(mode="after")
    def _fits_its_source(self) -> "AssistantSettings":
        allowed = {"source", "trim", *OF_EXISTING}
        if self.exists and (more := [k for k, _ in _given(self) if k not in allowed]):
            raise ValueError(
                f"the encoder `{self.source}` has a shape of its own; received "
                f"{', '.join(f'`{key}`' for key in more)} beside it. Leave that out; "
                f"what may be set is {', '.join(f'`{it}`' for it in OF_EXISTING)} and "
                "`trim`"
            )
        if self.trim and not self.named:
            raise ValueError(
                "`trim` makes the vocabulary of an encoder that exists smaller; "
                f'received `source = "{self.source}"`. Give the encoder, or leave '
                "`trim` out"
            )
        return self

    @model_validator(mode="after")
    def _fits_its_start(self) -> "AssistantSettings":
        shape = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
        absent = [key for key in shape if getattr(self, key) is None]
        if self.num_layers == 0 and "hidden_dim" in absent:
            absent.remove("hidden_dim")  # without a body: the teacher's width
        made = self.source == "new" or self.start == "body"
        if made and self.start != "grow" and absent:
            raise ValueError(f"a new assistant needs {', '.join(absent)}")
        if self.start == "body" and not self.named:
            raise ValueError(
                '`start = "body"` needs a `source`, the encoder whose word table is '
                f'taken; received "{self.source}"'
            )
        identity = {
            "normalize_first": True,
            "zero_residuals": True,
            "embedding_layer_norm": False,
        }
        if made and self.start in ("ridge", "body"):
            for key, value in identity.items():
                if getattr(self, key) is not value:
                    raise ValueError(
                        f'`start = "{self.start}"` needs '
                        f"`{key} = {str(value).lower()}`, as "
                        "the body must begin as the identity"
                    )
        return self


class StudentStages(Settings):
    """`[student.stages]`: what one student's stages have differently, by their name.

    The fields are those of the table of stages, see `recipe_model`.
    """


class StudentSettings(Settings):
    """`[student]`: what is made of the assistant, or instead of one.

    `kind` "recurrent": bottleneck and recurrent unit; without `bottleneck_dim` the full
    table. `hidden_dim` may state the width that the student is meant to have; its
    layers are the assistant's, so any other width is an error before work begins.
    `layers` are those of the trained assistant or of the assistant before stage 1, and
    so is the `guide` that stages 2 and 3 imitate. `start` of its embedding block is
    "random", "standard_normal" as in the authors' code, the "svd" of the assistant's
    table, or that table "ordered": in the directions whose means over a sentence best
    find its translation (`starts.order_dimensions`).

    "thin_deep": no assistant; `row` of `models.ROWS`, and of its shape what
    `num_layers`, `hidden_dim`, `num_heads`, `intermediate_dim` and `dropout` change;
    without `row` those alone. `start` "ridge": closed-form word rows under a pre-norm
    body whose residuals begin at zero, with mean pooling and a linear dense layer.

    "none": the assistant is what the recipe is about.

    `[student.variants.<name>]` are further students; what one leaves out is shared.
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
    layers: AssistantState = "trained"
    guide: AssistantState = "trained"
    stages: StudentStages = StudentStages()
    variants: dict[VariantName, Settings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _starts_as_its_kind_can(self) -> "StudentSettings":
        thin_deep = ["svd", "ordered", "standard_normal"]
        others = {"recurrent": ["ridge"], "thin_deep": thin_deep}
        for name, student in self.each().items():
            if student.start in others.get(self.kind, ()):
                raise ValueError(
                    f'`start = "{student.start}"` of {name} is not for students of '
                    f'kind "{self.kind}"'
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

    def stage(self, name: str, shared: Any) -> Any:
        """Return the settings of a stage with this student's changes."""
        change = getattr(self.stages, name, None) or ()
        given = {key: value for key, value in change if value is not None}
        return shared.model_copy(update=given)


class StagesSettings(Settings):
    """`[stages]`: the stages, in the order in which they run; an absent one is skipped.

    The fields are those of the table of stages, see `recipe_model`.
    """

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def items(self) -> list[tuple[str, Any]]:
        """Return (name, settings) of all stages in order."""
        return list(self)


class StartsSettings(Settings):
    """`[starts]`: numbers of the closed forms; `closed_form` adds their score rows.

    These are of the teacher's width, of the students' tables, and of further `widths`.
    `body_weight` is that of a grown assistant's body beside its word branch,
    `branch_scale` the branch's share in the narrower table of a student.
    """

    closed_form: bool = False
    # Not said where it is as before: results know their settings by a hash.
    widths: Annotated[tuple[Count, ...], Field(strict=False)] = Field(
        default=(), exclude_if=lambda it: not it
    )
    ridge: Positive = 0.3
    body_weight: Positive = 0.5
    branch_scale: Positive = 1.0


class TrimSettings(Settings):
    """`[trim.<name>]`: a smaller vocabulary for every finished model.

    It has the pieces that the run's pairs use; `keep` and `min_count` are those of
    `trim_vocabulary`. The trimmed model is kept, with a score row beside the whole one.
    """

    keep: Count | Annotated[float, Field(gt=0, le=1)] | None = None
    min_count: Count = 1


class DistributeSettings(Settings):
    """`[distribute]`: what a stage is spread over, see `distribute.distribution`.

    "none" is one device. With "data_parallel" every device has an equal share of the
    rows of each batch, so that `batch_size` is a multiple of their number; it is that
    of the whole batch, and the loss is the same on any number of them.
    """

    strategy: Literal["none", "data_parallel"] = "none"


class Recipe(Settings):
    """One experiment at one scale, as `load_recipe` gives it.

    `precision` is what the stages compute in: "float32", "bfloat16", or "auto", which
    takes the faster one by a measurement when the run begins. Weights, losses and the
    optimizer's state are float32 in any case. `inverse_frequency` is the smoothing by
    which a trained word table's rows are weighted, see `starts.weigh_rows`;
    `matryoshka_dims` are prefixes of its vectors that a rotation makes good, see
    `starts.order_dimensions`.
    """

    recipe: About
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    # Not said where it is as before: results know their settings by a hash.
    distribute: DistributeSettings = Field(
        default=DistributeSettings(), exclude_if=lambda it: it.strategy == "none"
    )
    teacher: TeacherSettings
    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings(source="assistant")
    assistant: AssistantSettings = AssistantSettings(source="none")
    student: StudentSettings
    stages: StagesSettings
    starts: StartsSettings = StartsSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    inverse_frequency: Positive | None = None
    # Not said where it is as before: results know their settings by a hash.
    matryoshka_dims: Annotated[tuple[Count, ...], Field(strict=False)] = Field(
        default=(), exclude_if=lambda it: not it
    )
    trim: dict[VariantName, TrimSettings] | None = None
    budget: dict[
        Literal["teacher", "tokens", "closed_forms", "stages", "evaluation"], Positive
    ] = Field(default_factory=dict)
    scale: Scale

    @model_validator(mode="before")
    @classmethod
    def _tokenizer_follows_the_assistant(cls, values: Any) -> Any:
        assistant, tokenizer = (
            values.get(key, {}) for key in ("assistant", "tokenizer")
        )
        tables = isinstance(assistant, Mapping) and isinstance(tokenizer, Mapping)
        if not tables or "source" in tokenizer:
            return values
        source = assistant.get("source", "new" if assistant else "none")
        own = "train" if source in ("new", "none") else "assistant"
        return {**values, "tokenizer": {**tokenizer, "source": own}}

    @model_validator(mode="after")
    def _tokenizer_has_an_owner(self) -> "Recipe":
        source = self.assistant.source
        sources = {"new": ("train",), "none": ("train", "teacher")}
        allowed = sources.get(source, ("assistant", "extended"))
        if self.tokenizer.source not in allowed:
            choice = " or ".join(f'"{name}"' for name in allowed)
            raise ValueError(
                f"`tokenizer.source` must be {choice} when `assistant.source` is "
                f'"{source}"'
            )
        trained = self.tokenizer.source in ("train", "extended")
        if trained != (self.tokenizer.vocabulary_size is not None):
            rule = "needs" if trained else "has no"
            raise ValueError(
                f'`tokenizer.source = "{self.tokenizer.source}"` {rule} '
                "`tokenizer.vocabulary_size`, the size of a vocabulary that is trained"
            )
        if self.tokenizer.source == "extended" and self.student.kind != "none":
            raise ValueError(
                '`tokenizer.source = "extended"` is for recipes without a student, as '
                f'closed forms have another one; received kind "{self.student.kind}"'
            )
        return self

    @model_validator(mode="after")
    def _rows_are_all_there_is(self) -> "Recipe":
        of, table = self.assistant, ("none", 0, "ridge")
        found = self.student.kind, of.num_layers, of.start
        for name in ("inverse_frequency", "matryoshka_dims"):
            if getattr(self, name) and found != table:
                raise ValueError(
                    f"`{name}` is for a word table alone: `student.kind`, "
                    f"`assistant.num_layers` and `assistant.start` {table}; received "
                    f"{found}"
                )
        most = of.projection_dim or 0
        if max(self.matryoshka_dims, default=0) > most:
            raise ValueError(
                "`matryoshka_dims` must be at most `assistant.projection_dim`, the "
                f"matrix that is turned; received {self.matryoshka_dims} and {most}"
            )
        return self

    @model_validator(mode="after")
    def _stages_fit_the_student(self) -> "Recipe":
        student, stages = self.student.kind, self.stages
        alone = student == "none" and bool(stages["reduce_teacher"].widths)
        if (student == "thin_deep" or alone) != (self.assistant.source == "none"):
            raise ValueError(
                'an `[assistant]` is needed, unless `student.kind` is "thin_deep", '
                f'which has none; received kind "{student}", assistant '
                f'"{self.assistant.source}"'
            )
        apart = [kind.name for kind in STAGE_KINDS.values() if not kind.needs_assistant]
        others = [
            name for name in STAGE_KINDS if name not in apart and not stages[name].skip
        ]
        if self.assistant.source == "none" and others:
            raise ValueError(
                "without an assistant there are the stages "
                f"{', '.join(f'`{name}`' for name in apart)}; received "
                f"{', '.join(others)}"
            )
        for kind in STAGE_KINDS.values():
            self._check_stage(kind)
        return self

    def _check_stage(self, kind: type[StageKind]) -> None:
        settings, student = self.stages[kind.name], self.student.kind
        if kind.only_for and (student == kind.only_for) == settings.skip:
            raise ValueError(
                f"`stages.{kind.name}` is the stage of students of kind "
                f'"{kind.only_for}", and of no others; received kind "{student}"'
            )
        trained = getattr(settings, "of", None)  # of stages that may train either
        only = {"thin_deep": "student", "none": "assistant"}.get(student, trained)
        if trained not in (None, only) and not settings.skip:
            raise ValueError(
                f'`stages.{kind.name}.of` must be "{only}" for `student.kind = '
                f'"{student}"`'
            )
        across = any(evaluation_set(name).similarity for name in self.evaluate.sets)
        if getattr(settings, "scored", None) and not across:
            raise ValueError(
                f"`stages.{kind.name}.scored` is a curve of cross-lingual scores; "
                f"`evaluate.sets` has none: {', '.join(self.evaluate.sets)}"
            )
        used = [settings]
        if kind.trained(settings) == "student":
            students = self.student.each().values()
            used = [student.stage(kind.name, settings) for student in students]
        for each in used:
            budget = getattr(each, "token_budget", None)
            if budget and not each.skip and self.distribute.strategy != "none":
                raise ValueError(
                    f"`stages.{kind.name}.token_budget` has batches of any number of "
                    f"pairs, which devices cannot share equally; received {budget} with"
                    f' `distribute.strategy = "{self.distribute.strategy}"`. Leave one '
                    "of both out"
                )
            if budget and not each.skip and (terms := kind.compared(each)):
                raise ValueError(
                    f"`stages.{kind.name}.token_budget` is for stages whose terms each "
                    "see one pair at a time, as batches then have many short pairs or "
                    f"few long ones; received {budget}, and what may compare the pairs "
                    f"of a batch: {', '.join(terms)}. Leave it out, so that "
                    "`batch_size` counts, or leave out that term"
                )

    def settings(self) -> dict[str, Any]:
        """Return everything that was set or defaulted, without what is absent."""
        return self.model_dump(mode="json", exclude_none=True)


def _given(settings: Settings) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in settings if value is not None]


def recipe_model() -> type[Recipe]:
    """Return `Recipe` with the stages that are in their table now."""
    return _recipe_model(tuple(STAGE_KINDS.values()))


@lru_cache
def _recipe_model(kinds: tuple[type[StageKind], ...]) -> type[Recipe]:
    absent: dict[str, Any] = {it.name: (it.settings_class, it.absent()) for it in kinds}
    changes: dict[str, Any] = {
        kind.name: (_change(kind.settings_class) | None, None)
        for kind in kinds
        if kind.trains == "student"
    }
    stages = create_model("StagesSettings", __base__=StagesSettings, **absent)
    changed: Any = create_model("StudentStages", __base__=StudentStages, **changes)
    stages_of_variant = (changed | None, None)
    variant: Any = _change(StudentSettings, OF_ALL_STUDENTS, stages=stages_of_variant)
    variants: Any = (dict[VariantName, variant], Field(default_factory=dict))
    student = create_model(
        "StudentSettings",
        __base__=StudentSettings,
        stages=(changed, changed()),
        variants=variants,
    )
    return create_model(
        "Recipe", __base__=Recipe, student=(student, ...), stages=(stages, ...)
    )


def _change(
    settings: type[Settings], without: Collection[str] = (), **fields: Any
) -> Any:
    """Return a model of which every field may be absent, those of `without` always."""
    for name, field in settings.model_fields.items():
        kind: Any = field.annotation
        for rule in field.metadata:
            kind = Annotated[kind, rule]
        if name not in {*fields, *without}:
            fields[name] = (kind | None, None)
    return create_model(f"{settings.__name__}Change", __base__=Settings, **fields)
