"""What a recipe may say: frozen pydantic models, one per section of the TOML file."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from keras_msd.recipes.schema.settings import Count, Fraction, Positive, Settings, Words
from keras_msd.recipes.schema.training import StagesSettings, StudentSettings

STS2017 = "sts2017"  # the set whose files are tracks, not row-aligned translations
Scale = Literal["smoke", "demo", "lab", "paper"]
Scales = Annotated[tuple[Scale, ...], Field(strict=False, min_length=1)]


class PaperRow(Settings):
    """`[recipe.rows.<model>]`: the paper's row that one of a recipe's models is.

    `table` names one or more tables or figures, with semicolons; `x` is the place on a
    figure's axis; `expected` holds published scores x100.
    """

    table: str
    row: str
    x: float | None = None
    expected: dict[str, float] = Field(default_factory=dict)


class About(Settings):
    """`[recipe]`: which experiment this is.

    `expected` holds published scores x100 of the first student, or of the assistant
    where there is none; `rows`, by the names of models, says it of several. `seed`
    decides every random draw but the choice of pairs, which is `data.seed`'s.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    title: str
    paper: str = ""
    table: str = ""
    row: str = ""
    cost: str = ""
    seed: Annotated[int, Field(ge=0)] = 0
    scales: Scales = ("smoke",)
    default_scale: Scale = "smoke"
    expected: dict[str, float] = Field(default_factory=dict)
    rows: dict[str, PaperRow] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _default_is_offered(self) -> "About":
        if self.default_scale not in self.scales:
            raise ValueError("`default_scale` must be one of `scales`")
        return self


class TeacherSettings(Settings):
    """`[teacher]`: `source` as for `load_teacher`, or "hashed-words" of width `dim`.

    A `multilingual` teacher is scored in all languages, and thin, deep students learn
    its vector of each side; otherwise that of the English side stands for both.
    """

    source: str = "default"
    dim: Count | None = None
    multilingual: bool = False


class DataSettings(Settings):
    """`[data]`: the pairs to train on and the sets to score on.

    `kind` "made" writes the made corpus into the run; "folder" reads `data_dir`.
    Limits count pairs after cleaning; an absent limit takes everything.
    `sts_train_rows` of a made STS set are for `regress_similarity`.
    """

    kind: Literal["made", "folder"]
    languages: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    corpora: Words = ()
    pairs_per_language: Count | None = None
    pairs_per_file: Count | None = None
    max_characters: Count = 250
    max_length: Annotated[int, Field(ge=4)] = 128
    temperature: Positive = float("inf")
    seed: Annotated[int, Field(ge=0)] = 0
    sts_train_rows: Annotated[int, Field(ge=0)] = 0


class TokenizerSettings(Settings):
    """`[tokenizer]`: "train" on the pairs, or the "assistant"'s or "teacher"'s own."""

    source: Literal["train", "assistant", "teacher"] = "train"
    vocabulary_size: Annotated[int, Field(ge=8)] | None = None

    @model_validator(mode="after")
    def _size_belongs_to_training(self) -> "TokenizerSettings":
        if (self.source == "train") != (self.vocabulary_size is not None):
            raise ValueError(
                '`vocabulary_size` goes with `source = "train"`, and only with it'
            )
        return self


class AssistantSettings(Settings):
    """`[assistant]`: "new" with a shape and a start, or an encoder that exists.

    "none" is for thin, deep students, which need no assistant.

    `start` of a new one: "random"; "ridge": closed-form word rows under a pre-norm body
    whose residuals begin at zero; "grow": the teacher's body with closed-form rows.
    """

    source: str = "new"
    start: Literal["random", "ridge", "grow"] = "random"
    num_layers: Count | None = None
    hidden_dim: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    bottleneck_dim: Count | None = None
    projection_dim: Count | None = None
    normalize_first: bool = False
    zero_residuals: bool = False
    embedding_layer_norm: bool = True
    layer_norm_epsilon: Positive = 1e-12
    dropout: Fraction = 0.1
    pooling: Literal["mean", "cls", "max"] = "mean"
    normalize: bool = True
    word_branch: bool = False

    @model_validator(mode="after")
    def _fits_its_start(self) -> "AssistantSettings":
        shape = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
        absent = [key for key in shape if getattr(self, key) is None]
        if self.source == "new" and self.start != "grow" and absent:
            raise ValueError(f"a new assistant needs {', '.join(absent)}")
        identity = {
            "normalize_first": True,
            "zero_residuals": True,
            "embedding_layer_norm": False,
        }
        if self.source == "new" and self.start == "ridge":
            for key, value in identity.items():
                if getattr(self, key) is not value:
                    raise ValueError(
                        f'`start = "ridge"` needs `{key} = {str(value).lower()}`, as '
                        "the body must begin as the identity"
                    )
        return self


class StartsSettings(Settings):
    """`[starts]`: numbers of the closed forms; `closed_form` adds their score rows.

    `body_weight` is that of a grown assistant's body beside its word branch,
    `branch_scale` the branch's share in the narrower table of a student.
    """

    closed_form: bool = False
    ridge: Positive = 0.3
    body_weight: Positive = 0.5
    branch_scale: Positive = 1.0


class EvaluateSettings(Settings):
    """`[evaluate]`: what is scored, from the files of the data folder.

    `languages` of the STS set `sts` (by default those of the pairs), three-letter codes
    for `retrieval` (none: no such score, and none of the other languages in
    `tatoeba/`), two-letter codes for the United Nations corpus in `un/` and for mining
    in `bucc2018/` (none: no such scores). `intermediate` is what rows before the last
    of a model get: all scores, only the cross-lingual one, or none: no such rows.
    Without `artefacts` no encoder is timed or exported.
    """

    sts: str = "stsb"
    split: str = "dev"
    languages: Words = ()
    retrieval: Words = ()
    un: Words = ()
    bucc: Words = ()
    intermediate: Literal["full", "cross_lingual", "none"] = "full"
    neighbours: Annotated[int, Field(ge=0)] = 5
    artefacts: bool = True

    @model_validator(mode="after")
    def _sts2017_is_a_test_set(self) -> "EvaluateSettings":
        if self.sts == STS2017 and self.split != "test":
            raise ValueError(f'`sts = "{STS2017}"` has only `split = "test"`')
        return self


class Recipe(Settings):
    """One experiment at one scale, as `load_recipe` gives it."""

    recipe: About
    teacher: TeacherSettings
    data: DataSettings
    tokenizer: TokenizerSettings
    assistant: AssistantSettings = AssistantSettings(source="none")
    student: StudentSettings
    stages: StagesSettings
    starts: StartsSettings = StartsSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    budget: dict[
        Literal["teacher", "tokens", "closed_forms", "stages", "evaluation"], Positive
    ] = Field(default_factory=dict)
    scale: Scale

    @model_validator(mode="after")
    def _tokenizer_has_an_owner(self) -> "Recipe":
        source = self.assistant.source
        allowed = {"new": ("train",), "none": ("train", "teacher")}
        if self.tokenizer.source not in allowed.get(source, ("assistant",)):
            wanted = " or ".join(f'"{n}"' for n in allowed.get(source, ("assistant",)))
            raise ValueError(
                f"`tokenizer.source` must be {wanted} when `assistant.source` is "
                f'"{source}"'
            )
        return self

    @model_validator(mode="after")
    def _stages_fit_the_student(self) -> "Recipe":
        kind, stages = self.student.kind, self.stages
        alone = kind == "none" and bool(stages.reduce_teacher.widths)
        if (kind == "thin_deep" or alone) != (self.assistant.source == "none"):
            raise ValueError(
                'an `[assistant]` is needed, unless `student.kind` is "thin_deep", '
                f'which has none; received kind "{kind}", assistant '
                f'"{self.assistant.source}"'
            )
        apart = ("teach_thin_deep", "reduce_teacher", "regress_similarity")
        others = [n for n, own in stages.items() if n not in apart and not own.skip]
        if self.assistant.source == "none" and others:
            raise ValueError(
                "without an assistant there are the stages "
                f"{', '.join(f'`{name}`' for name in apart)}; received "
                f"{', '.join(others)}"
            )
        if (kind == "thin_deep") == stages.teach_thin_deep.skip:
            raise ValueError(
                "`stages.teach_thin_deep` is the stage of students of kind "
                f'"thin_deep", and of no others; received kind "{kind}"'
            )
        regress = stages.regress_similarity
        model = {"thin_deep": "student", "none": "assistant"}.get(kind, regress.of)
        if not regress.skip and model != regress.of:
            raise ValueError(
                f'`stages.regress_similarity.of` must be "{model}" for `student.kind = '
                f'"{kind}"`'
            )
        return self

    def settings(self) -> dict[str, Any]:
        """Return everything that was set or defaulted, without what is absent."""
        return self.model_dump(mode="json", exclude_none=True)
