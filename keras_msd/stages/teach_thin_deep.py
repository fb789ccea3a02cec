"""LEALLA: rank translations and imitate a multilingual teacher's vectors."""

from typing import Any, get_args

import keras
import numpy as np
from keras import ops

from keras_msd.checks import InputError, at_least, one_of
from keras_msd.choices import DenseStart, Feature
from keras_msd.layers import l2_normalize
from keras_msd.losses import (
    AdditiveMarginSoftmax,
    FeatureDistillation,
    LogitDistillation,
)
from keras_msd.models.encoder import Encoder
from keras_msd.models.student import check_mergeable, merge_projection
from keras_msd.stages.settings import (
    Count,
    NotNegative,
    PairStageSettings,
    Positive,
    ReductionSettings,
    StudentVectors,
    TeacherVectors,
)
from keras_msd.stages.stage import (
    TEACHER,
    ExtraStep,
    Stage,
    StageRecord,
    both_sides,
    input_of,
)
from keras_msd.starts.dimension_reduction import align_reduction, fit_dense
from keras_msd.training.chunks import Tensor, Tensors

FITTED_PAIRS = 8_192  # that decide a fitted start
OF_STEPS = {"reduction", "dense_start"}  # a step makes an array of them


class ThinDeepSettings(PairStageSettings):
    """`[stages.teach_thin_deep]`: arguments of `TeachThinDeep`.

    A term of weight 0 is left out. `chunk_size` is the number of pairs whose
    activations are in memory at a time; the gradients are those of the whole batch.
    `reduction` describes the dense layer after the teacher of "synchronized" students.
    `dense_start` is "random", or "fitted": see `starts.fit_dense` and
    `starts.align_reduction`. What is not set has the default of `TeachThinDeep`.
    """

    ams_weight: NotNegative | None = None
    feature_weight: NotNegative | None = None
    logit_weight: NotNegative | None = None
    feature: Feature = "fd"
    dense_start: DenseStart | None = None  # "random"
    margin: NotNegative | None = None
    scale: Positive | None = None
    temperature: Positive | None = None
    chunk_size: Count | None = None
    reduction: ReductionSettings = ReductionSettings()

    def arguments(self) -> dict[str, Any]:
        """Return its fields, but for those of which a step makes an array."""
        given = super().arguments()
        return {key: given[key] for key in given if key not in OF_STEPS}

    def unused(self) -> tuple[str, ...]:
        """Return `reduction` unless the student is synchronized."""
        return () if self.feature == "synchronized" else ("reduction",)

    def student_dim(self, teacher_dim: int) -> int | None:
        """Return the teacher's dimension if the student's output is compared first."""
        return teacher_dim if self.feature == "distillation_first" else None


class TeachThinDeep(Stage):
    """A student ranks translations and imitates a multilingual, wider teacher.

    The loss is `ams_weight * ams + feature_weight * feature + logit_weight * logit`. A
    term of weight 0 is neither computed nor logged. `ams` and `logit` compare cosines,
    so student and teacher may have different dimensions. `feature` compares vectors of
    a student of dimension d with the teacher's:

    - "fd": A dense layer d -> teacher_dim projects the encoder's output. It is dropped
      after training.
    - "distillation_first": The encoder's output has dimension teacher_dim and is
      compared directly. A dense layer teacher_dim -> d, the encoder's `hidden_dim`,
      then makes the final vectors, for `ams` and `logit`. This layer has no bias, and
      the encoder's `projection` must be linear, so `trained_encoder` can merge both
      into one matrix.
    - "synchronized": The encoder's output is compared with the teacher's vectors times
      a fixed matrix teacher_dim -> d.

    The encoder is trained in place; `trained_encoder` returns it, merged for
    "distillation_first". `ams` and `logit` need batches with a fixed number of pairs,
    not a token budget.

    Targets: `teacher_source` and `teacher_target` `(n, teacher_dim)`, vectors of the
        source side and of the translation; none if only `ams` has a weight.
    Terms: `ams`, `feature`, `logit`.

    Args:
        encoder: The student.
        ams_weight: Weight of `AdditiveMarginSoftmax` (alpha).
        feature_weight: Weight of `FeatureDistillation` (beta); 1e4 for the paper's
            large model.
        logit_weight: Weight of `LogitDistillation` (gamma).
        feature: "fd", "distillation_first" or "synchronized", as above.
        teacher_dim: Dimension of the teacher's vectors.
        reduction: Matrix for "synchronized" alone, `(teacher_dim, d)`, from
            `reduce_dimensions`. The reduced vectors are scaled to length 1, because
            only their directions were fitted.
        margin: See `AdditiveMarginSoftmax`.
        scale: Factor of the cosines in `ams` and `logit`.
        temperature: See `LogitDistillation`.
        mask_duplicates: Whether rows with the same source sentence (`group`) are
            excluded as negatives of each other; False for the published equation.
        dims: "mean" or "sum", see `FeatureDistillation`.
        dense: First kernel of the dense layer, from `starts.fit_dense`: for "fd"
            `(d, teacher_dim)`, for "distillation_first" `(teacher_dim, hidden_dim)`.
            Random by default.
        name: Name of the stage.
        **options: Other arguments of `Stage`, such as `chunk_size` for large batches.

    Raises:
        InputError: An argument is out of its range, `reduction` or `dense` has the
            wrong shape, or the encoder's projection cannot be merged.

    Source: Mao & Nakagawa 2023, eq. 1 to 5 and section 4.2.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> stage = msd.stages.TeachThinDeep(encoder, logit_weight=0, teacher_dim=16)
        >>> stage.terms, stage.dense.units
        (('ams', 'feature'), 16)
    """

    terms: tuple[str, ...] = ("ams", "feature", "logit")
    targets: tuple[str, ...] = ("teacher_source", "teacher_target")

    def __init__(
        self,
        encoder: Encoder | keras.Model,
        ams_weight: float = 1.0,
        feature_weight: float = 1e3,
        logit_weight: float = 1e-2,
        feature: str = "fd",
        teacher_dim: int = 768,
        reduction: np.ndarray | None = None,
        margin: float = 0.3,
        scale: float = 100.0,
        temperature: float = 100.0,
        mask_duplicates: bool = True,
        dims: str = "mean",
        dense: np.ndarray | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        weights = {"ams": ams_weight, "feature": feature_weight, "logit": logit_weight}
        at_least(0, **{f"{term}_weight": weights[term] for term in weights})
        at_least(1, teacher_dim=teacher_dim)
        one_of(get_args(Feature), feature=feature)
        weights = {term: weight for term, weight in weights.items() if weight}
        # "distillation_first" merges a dense layer that `feature` does not train.
        alone = {"feature"} if feature == "distillation_first" else set()
        if weights.keys() <= alone:
            raise InputError(
                "`TeachThinDeep` needs a weight above 0, and of `ams` or `logit` for "
                f"distillation_first. Received: {feature=}, {ams_weight=}, "
                f"{feature_weight=}, {logit_weight=}."
            )
        self.terms = tuple(weights)
        if self.terms == ("ams",):
            self.targets = ()
        super().__init__(encoder, dims, name, **weights | options)
        self.ams = AdditiveMarginSoftmax(margin, scale)
        self.feature_distance = FeatureDistillation(dims)
        self.logit_distance = LogitDistillation(temperature, scale)
        self.feature, self.teacher_dim = feature, teacher_dim
        self.mask_duplicates, self.encoder = mask_duplicates, encoder
        width = self.network.output_shape[-1]
        wanted = (teacher_dim, width) if feature == "synchronized" else None
        received = None if reduction is None else np.shape(reduction)
        if received != wanted:
            raise InputError(
                f"`reduction` must have the shape {wanted} for {feature=}. Received: "
                f"{received}. `starts.reduce_dimensions` makes it for synchronized."
            )
        self.reduction = None if reduction is None else np.asarray(reduction, "float32")
        self.dense = self._dense(width)
        if dense is not None:
            self._begin_dense(dense)

    def trained_encoder(self) -> Encoder | keras.Model:
        """Return the encoder without training-only parts."""
        if self.feature != "distillation_first":
            return self.encoder
        return merge_projection(self.encoder, ops.convert_to_numpy(self.dense.kernel))

    def loss_terms(
        self, x: Tensors, y: Tensors, embeddings: Tensors
    ) -> dict[str, Tensor]:
        """Return every term that has a weight."""
        given = dense = embeddings["source"], embeddings["target"]
        if self.dense is not None:
            dense = tuple(self.dense(side) for side in given)
        # `final` is ranked, `embedded` is compared with the teacher's vectors.
        first = self.feature == "distillation_first"
        final, embedded = (dense, given) if first else (given, dense)
        terms = super().loss_terms(x, y, embeddings)
        if "ams" in self.terms:
            group = input_of(x, "group") if self.mask_duplicates else final[0]
            terms["ams"] = self.ams(group, final)
        if not self.targets:
            return terms
        goals = y["teacher_source"], y["teacher_target"]
        if "logit" in self.terms:
            terms["logit"] = self.logit_distance(goals, final)
        if "feature" in self.terms:
            if self.feature == "synchronized":
                goals = tuple(l2_normalize(g @ self.reduction) for g in goals)
            terms["feature"] = self.feature_distance(goals, embedded)
        return terms

    def target_shape(self, target: Tensor, embedding: Tensor) -> tuple[int, ...]:
        """Return `(teacher_dim,)`."""
        return (self.teacher_dim,)

    def _dense(self, width: int) -> Any:
        if self.feature == "distillation_first":
            check_mergeable(self.encoder, self.teacher_dim)
            units, bias = self.encoder.config.hidden_dim, False
        elif self.feature == "fd" and "feature" in self.terms:
            units, bias = self.teacher_dim, True
        else:
            return None
        layer = keras.layers.Dense(units, use_bias=bias, dtype="float32", name="dense")
        layer.build((None, width))
        return layer

    def _begin_dense(self, kernel: np.ndarray) -> None:
        wanted = None if self.dense is None else tuple(self.dense.kernel.shape)
        if np.shape(kernel) != wanted:
            raise InputError(
                f"`dense` must have the shape {wanted} for feature={self.feature!r}. "
                f"Received: {np.shape(kernel)}. `starts.fit_dense` makes it."
            )
        self.dense.kernel.assign(kernel)


def extra_step(settings: ThinDeepSettings) -> ExtraStep | None:
    """Return the step that fits a dense layer, of the teacher or after the student."""
    fitted = settings.dense_start == "fitted"

    def vectors(
        teacher: TeacherVectors, student: StudentVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the student's and the teacher's vectors of some pairs."""
        draw = np.random.default_rng(teacher.seed)
        rows = np.sort(draw.permutation(len(teacher.group))[:FITTED_PAIRS])
        goals = np.concatenate([teacher.source[rows], teacher.target[rows]])
        return student.of(rows), goals

    def reduction(teacher: TeacherVectors, student: StudentVectors) -> np.ndarray:
        matrix = settings.reduction.matrix(teacher)
        return align_reduction(matrix, *vectors(teacher, student)) if fitted else matrix

    def dense(teacher: TeacherVectors, student: StudentVectors) -> np.ndarray:
        first = settings.feature == "distillation_first"
        dim = student.encoder.config.hidden_dim if first else None
        return fit_dense(*vectors(teacher, student), dim)

    if settings.feature == "synchronized":
        return ExtraStep("reduction", reduction)
    used = settings.feature == "distillation_first" or settings.feature_weight != 0
    return ExtraStep("dense", dense) if fitted and used else None


RECORD = StageRecord(
    TeachThinDeep,
    ThinDeepSettings,
    both_sides("teacher", TEACHER),
    needs_assistant=False,
    needs_teacher_dim=True,
    extra_step=extra_step,
    only_for="thin_deep",
)
