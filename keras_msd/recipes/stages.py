"""The stages that recipes may have: for each one class, which says all about it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from keras_msd import stages
from keras_msd.checks import InputError
from keras_msd.data.readers.inference import CLASSES
from keras_msd.losses.table import LOSSES
from keras_msd.recipes.settings import (
    Count,
    NotNegative,
    PairStageSettings,
    Positive,
    Settings,
    TrainingSettings,
    Words,
)

Target = Literal["soft", "bool", "ce_soft", "ce_hard", "softmax", "none"]
Feature = Literal["fd", "distillation_first", "synchronized"]
GoldScale = Literal["over_5", "from_1"]
Trained = Literal["assistant", "student", "teacher"]
Guides = Mapping[str, tuple[Any, str]]


class AlignSettings(PairStageSettings):
    """`[stages.align_embedding]`: `per_token` is the variant of `AlignEmbedding`."""

    per_token: bool = False


class SimilaritySettings(PairStageSettings):
    """`[stages.pretrain_assistant]`: target and weights of `ContrastiveLearning`.

    `target` "none" leaves the contrastive term out (the paper's "w/o CL").
    `goal_temperature` divides the teacher's cosines in "softmax".
    `matryoshka_dims` are widths of prefixes that get the terms of both sides, too.
    """

    kd_weight: NotNegative = 1.0
    contrastive_weight: NotNegative | None = None
    target: Target = "soft"
    temperature: Positive = 0.05
    goal_temperature: Positive | None = None
    matryoshka_dims: Annotated[tuple[Count, ...], Field(strict=False)] = Field(
        default=(), exclude_if=lambda it: not it
    )

    @model_validator(mode="after")
    def _goals_are_of_softmax(self) -> "SimilaritySettings":
        if self.goal_temperature is not None and self.target != "softmax":
            raise ValueError(
                '`goal_temperature` is for `target = "softmax"`; received '
                f'"{self.target}"'
            )
        return self


class ContrastiveSettings(SimilaritySettings):
    """`[stages.contrastive_learning]`: as those of `pretrain_assistant`, and one more.

    `branch_alone` trains a student's word branch alone, taken out and put back: its
    steps are cheap, so that batches can be large.
    """

    branch_alone: bool = False


class ThinDeepSettings(PairStageSettings):
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


class RowSettings(TrainingSettings):
    """What stages on sets of sentence pairs share.

    `of` is what it trains: the assistant, from which students are made afterwards, or
    every student. `sets` names the sets; `languages` are by default English and those
    of the pairs. A set need not have all of them.
    """

    needed: ClassVar[str]  # of `sets`, in words

    of: Literal["assistant", "student"] = "student"
    batch_size: Annotated[int, Field(ge=1)] = 16
    sets: Any = ()
    languages: Words = ()

    @model_validator(mode="after")
    def _has_a_set(self) -> "RowSettings":
        if not self.skip and not self.sets:
            raise ValueError(f"`sets` needs {self.needed}")
        return self


class InferenceSettings(RowSettings):
    """`[stages.classify_inference]`: before `regress_similarity`, on NLI labels.

    `sets` names files `nli/<set>.train.<xx>.tsv.gz` (or .jsonl.gz, .tsv, .jsonl), which
    `data.read_inference` reads; `classes` are the labels in them.
    """

    needed = 'a set, as in sets = ["snli"]'

    sets: Words = ()
    classes: Annotated[tuple[str, ...], Field(strict=False, min_length=2)] = CLASSES


class RegressSettings(RowSettings):
    """`[stages.regress_similarity]`: the last stage, on STS scores.

    `sets` maps `sts/<set>.train.<xx>.tsv.gz` to the scale of its scores, see
    `data.scale_gold`. Spearman on `dev_set`, mean of `dev_languages` (by default
    `languages`), chooses among the weights before training, after every
    `evaluate_every` updates (by default an epoch) and at the end; after `patience` such
    scores without a new best the stage ends.
    """

    needed = 'a set and its scale, as in stsb = "over_5"'

    sets: dict[str, GoldScale] = Field(default_factory=dict)
    dev_set: str = "stsb"
    dev_languages: Words = ()
    evaluate_every: Count | None = None
    patience: Count | None = None


class StageKind:
    """A stage that recipes may have, as `[stages.<name>]`. A subclass is one stage.

    One is made for each step that trains. A stage of your own is a subclass in
    `STAGE_KINDS`, under its name, before a recipe that has it is loaded.

    Class attributes:
        name: What recipes call it.
        title: What the stage does, in a sentence.
        settings: The model of its section; a `PairStageSettings` for one that learns
            from parallel text.
        trains: What it trains. A setting `of` of its own decides where there is one.
        only_for: The one kind of students that has it, and must have it.
        needs_assistant: Whether there must be an assistant.
        short: What it is called in the names of score rows, by default its name.
        said_if_absent: Whether recipes that do not have it list it as skipped.
        loss_words: How its loss is computed, for the report.

    Args:
        run: The `Run`.
        settings: The stage's, those of its student.
        encoder: What is trained.
        assistant: Step that left the assistant, for stages that imitate it.
        reduction: Step that left the dense layer of a reduced teacher, or None.

    Example:
        >>> from keras_msd.recipes.stages import STAGE_KINDS
        >>> STAGE_KINDS["teach_student"].title
        "The student learns the assistant's vectors."
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings_class: ClassVar[type[Any]] = PairStageSettings
    trains: ClassVar[Trained] = "student"
    only_for: ClassVar[str | None] = None
    needs_assistant: ClassVar[bool] = True
    short: ClassVar[str] = ""
    said_if_absent: ClassVar[bool] = True
    loss_words: ClassVar[str] = ""

    def __init__(
        self,
        run: Any,
        settings: Any,
        encoder: Any,
        assistant: str | None = None,
        reduction: str | None = None,
    ) -> None:
        self.run, self.settings, self.encoder = run, settings, encoder
        self.assistant, self.reduction = assistant, reduction

    @classmethod
    def stage_class(cls) -> Any:
        """Return its class, a `keras_msd.stages.Stage`."""
        raise NotImplementedError(f"{cls.__name__} must define `stage_class`.")

    def guides(self) -> Guides:
        """Return the guide and the side of each target."""
        return {}

    def arguments(self) -> Mapping[str, Any]:
        """Return the arguments of its class beside those that every stage takes.

        Here the settings that only this stage has.
        """
        return _own(self.settings, type(self.settings))

    @classmethod
    def compares(cls, settings: Any) -> Collection[str]:
        """Return its own terms that compare the rows of a batch with each other.

        Only a stage with none may have a `token_budget`.
        """
        return ["its own"]

    def data(self) -> Any:
        """Return the `Data` that it trains on."""
        from keras_msd.recipes.pair_data import pair_data

        return pair_data(self)

    def watch(self, steps: int, history: dict[str, Any]) -> Any | None:
        """Return a callback that scores the encoder on its way, None if nothing does.

        Args:
            steps: Updates of the stage.
            history: Gets the scores.
        """
        from keras_msd.recipes.pair_data import ScoreCurve

        scored = getattr(self.settings, "scored", None)
        return ScoreCurve(self, steps, history) if scored else None

    @classmethod
    def files(cls, run: Any, settings: Any) -> list[Path]:
        """Return the files that it reads besides corpora."""
        return []

    @classmethod
    def check_files(cls, run: Any, settings: Any) -> None:
        """Check what is there before any work, where there is a data folder.

        Raises:
            InputError: Something is missing.
        """
        from keras_msd.recipes.pair_data import check_corpora_of

        check_corpora_of(run, cls.name, settings)

    @classmethod
    def check_rows(cls, run: Any, settings: Any) -> None:
        """Check what is there once there are pairs.

        Raises:
            InputError: There is too little for a batch or for the warm-up.
        """
        from keras_msd.recipes.pair_data import check_updates

        check_updates(run, cls.name, settings)

    @classmethod
    def reads_pairs(cls) -> bool:
        """Tell whether it learns from parallel text."""
        return issubclass(cls.settings_class, PairStageSettings | ReductionSettings)

    @classmethod
    def absent(cls) -> Any:
        """Return the field of `[stages]` for recipes that do not have the stage."""
        skipped = cls.settings_class.model_validate({"skip": True})
        said = None if cls.said_if_absent else lambda given: given == skipped
        return Field(default=skipped, exclude_if=said)

    @classmethod
    def compared(cls, settings: Any) -> list[str]:
        """Return all terms with such settings that may compare rows of a batch."""
        added = settings.losses.items()
        by_row = {name for name, it in added if LOSSES[it.loss].by_row}
        return [
            *cls.compares(settings),
            *(name for name, _ in added if name not in by_row),
        ]

    @classmethod
    def trained(cls, settings: Any) -> str:
        """Return what the stage trains with such settings."""
        return getattr(settings, "of", cls.trains)


def _own(settings: Any, model: type[Any]) -> dict[str, Any]:
    """Return the settings that `model` has beside those of every stage on pairs."""
    names = model.model_fields.keys() - PairStageSettings.model_fields
    return {name: getattr(settings, name) for name in sorted(names)}


SQUARED = "squared errors are means over the batch and over the dimensions"
CONTRASTIVE = f"{SQUARED}; the contrastive term is a mean over the batch"


class _Contrastive(StageKind):
    """The stages of `ContrastiveLearning`, with the teacher as a guide."""

    settings_class = SimilaritySettings
    loss_words = CONTRASTIVE

    @classmethod
    def stage_class(cls) -> Any:
        return stages.ContrastiveLearning

    def guides(self) -> Guides:
        return {"teacher": (self.run.teacher, "source")}

    def arguments(self) -> Mapping[str, Any]:
        if self.settings.target == "none":
            kept = {"kd_weight", "matryoshka_dims"}
            return self.settings.model_dump(include=kept) | {"contrastive": None}
        return _own(self.settings, SimilaritySettings)


class _PretrainAssistant(_Contrastive):
    """Before stage 1, on the teacher's similarities."""

    name = "pretrain_assistant"
    title = "The assistant imitates the teacher's vectors and similarities."
    trains = "assistant"
    short = "pre-training"


class _TeachAssistant(StageKind):
    """Stage 1."""

    name = "teach_assistant"
    title = "The assistant learns the teacher's vectors in both languages."
    trains = "assistant"
    short = "stage 1"
    loss_words = SQUARED

    @classmethod
    def stage_class(cls) -> Any:
        return stages.TeachAssistant

    def guides(self) -> Guides:
        return {"teacher": (self.run.teacher, "source")}

    @classmethod
    def compares(cls, settings: Any) -> Collection[str]:
        return []


class _Imitation(StageKind):
    """The stages in which a student imitates an assistant."""

    loss_words = SQUARED

    def guide(self) -> Any:
        """Return the assistant.

        Raises:
            InputError: There is none.
        """
        if self.assistant is None:
            raise InputError(
                f"The stage `{self.name}` imitates an assistant. Received: none. Give "
                "the recipe an `[assistant]`, or leave the stage out."
            )
        return self.run.encoder(self.assistant)

    def guides(self) -> Guides:
        guide = self.guide()
        return {f"assistant_{side}": (guide, side) for side in ("source", "target")}

    @classmethod
    def compares(cls, settings: Any) -> Collection[str]:
        return []


class _AlignEmbedding(_Imitation):
    """Stage 2."""

    name = "align_embedding"
    title = "The student's embedding block learns the assistant's."
    settings_class = AlignSettings

    @classmethod
    def stage_class(cls) -> Any:
        return stages.AlignEmbedding

    def guides(self) -> Guides:
        guide = self.guide().embedding_guide(per_token=self.settings.per_token)
        return {f"embedding_{side}": (guide, side) for side in ("source", "target")}


class _TeachStudent(_Imitation):
    """Stage 3."""

    name = "teach_student"
    title = "The student learns the assistant's vectors."

    @classmethod
    def stage_class(cls) -> Any:
        return stages.TeachStudent


class _ContrastiveLearning(_Contrastive):
    """Stage 4."""

    name = "contrastive_learning"
    title = "The student imitates the teacher's similarities across languages."
    settings_class = ContrastiveSettings

    @classmethod
    def compares(cls, settings: Any) -> Collection[str]:
        return [] if settings.target == "none" else ["contrastive"]


class _BothSides(StageKind):
    """The stages of thin, deep students: a teacher of both sides, no assistant."""

    needs_assistant = False

    def guides(self) -> Guides:
        # What only knows English stands for both sides with its English vector.
        teacher, other = self.run.teacher, self.run.target_side
        return {
            "teacher_source": (teacher, "source"),
            "teacher_target": (teacher, other),
        }


class _ReduceTeacher(_BothSides):
    """No stage of an encoder: `steps.starts.reduce_teacher` fits it."""

    name = "reduce_teacher"
    title = "A dense layer takes the teacher's vectors to fewer dimensions."
    settings_class = ReductionSettings
    trains = "teacher"


class _TeachThinDeep(_BothSides):
    """LEALLA's stage."""

    name = "teach_thin_deep"
    title = "A thin, deep student ranks translations and imitates the teacher."
    settings_class = ThinDeepSettings
    only_for = "thin_deep"
    loss_words = (
        f"{SQUARED}; AMS is a mean over the batch of the sum of both directions, the "
        "logit term a mean over all pairs of a batch"
    )

    @classmethod
    def stage_class(cls) -> Any:
        return stages.TeachThinDeep

    def arguments(self) -> Mapping[str, Any]:
        arguments = {**super().arguments(), "teacher_dim": self.run.teacher.dim}
        if self.reduction:
            import numpy as np

            matrix = self.run.folder.step(self.reduction) / "reduction.npy"
            arguments["reduction"] = np.load(matrix)
        return arguments

    @classmethod
    def compares(cls, settings: Any) -> Collection[str]:
        terms = "ams", "logit"
        return [term for term in terms if getattr(settings, f"{term}_weight")]


class _OnRows(StageKind):
    """The stages on sets of sentence pairs, which need no guide."""

    needs_assistant = False

    @classmethod
    def check_files(cls, run: Any, settings: Any) -> None:
        cls.check_rows(run, settings)


class _ClassifyInference(_OnRows):
    """Fine-tuning on labels."""

    name = "classify_inference"
    title = "The embeddings of two sentences tell whether one entails the other."
    settings_class = InferenceSettings
    short = "NLI"
    said_if_absent = False
    loss_words = "the cross-entropy of the classes is a mean over the batch"

    @classmethod
    def stage_class(cls) -> Any:
        return stages.ClassifyInference

    def arguments(self) -> Mapping[str, Any]:
        return {"classes": len(self.settings.classes)}

    def data(self) -> Any:
        from keras_msd.recipes.row_data import inference_data

        return inference_data(self)

    def watch(self, steps: int, history: dict[str, Any]) -> None:
        return None

    @classmethod
    def files(cls, run: Any, settings: Any) -> list[Path]:
        from keras_msd.recipes.row_data import inference_files

        return inference_files(run, settings)

    @classmethod
    def check_rows(cls, run: Any, settings: Any) -> None:
        from keras_msd.recipes.row_data import check_inference

        check_inference(run, cls.name, settings)


class _RegressSimilarity(_OnRows):
    """Fine-tuning on scores."""

    name = "regress_similarity"
    title = "The cosine of two sentences becomes their gold similarity."
    settings_class = RegressSettings
    short = "STS"
    loss_words = (
        "cosine and gold score are compared by the mean of squares over the batch"
    )

    @classmethod
    def stage_class(cls) -> Any:
        return stages.RegressSimilarity

    def arguments(self) -> Mapping[str, Any]:
        return {}

    def data(self) -> Any:
        from keras_msd.recipes.row_data import scored_data

        return scored_data(self)

    def watch(self, steps: int, history: dict[str, Any]) -> Any:
        from keras_msd.recipes.row_data import DevelopmentScores

        return DevelopmentScores(self, history)

    @classmethod
    def files(cls, run: Any, settings: Any) -> list[Path]:
        from keras_msd.recipes.row_data import regression_files

        return regression_files(run, settings)

    @classmethod
    def check_rows(cls, run: Any, settings: Any) -> None:
        from keras_msd.recipes.row_data import check_regression

        check_regression(run, cls.name, settings)


# In the order in which they run.
STAGE_KINDS: dict[str, type[StageKind]] = {
    "pretrain_assistant": _PretrainAssistant,
    "teach_assistant": _TeachAssistant,
    "align_embedding": _AlignEmbedding,
    "teach_student": _TeachStudent,
    "contrastive_learning": _ContrastiveLearning,
    "reduce_teacher": _ReduceTeacher,
    "teach_thin_deep": _TeachThinDeep,
    "classify_inference": _ClassifyInference,
    "regress_similarity": _RegressSimilarity,
}
