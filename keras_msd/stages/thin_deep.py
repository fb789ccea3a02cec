"""LEALLA: rank translations and imitate a multilingual teacher's vectors."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.checks import InputError, at_least, one_of
from keras_msd.layers.pooling import l2_normalize
from keras_msd.losses.distances import FeatureDistillation
from keras_msd.losses.similarities import AdditiveMarginSoftmax, LogitDistillation
from keras_msd.models.student import check_mergeable, merge_projection
from keras_msd.stages.stage import Stage

FEATURES = ("fd", "distillation_first", "synchronized")


class TeachThinDeep(Stage):
    """A student ranks translations and imitates a multilingual, wider teacher.

    The loss is `ams_weight * ams + feature_weight * feature + logit_weight * logit`. A
    term of weight 0 is neither computed nor logged. `ams` and `logit` compare cosines,
    so student and teacher may have different dimensions. `feature` compares vectors of
    a student of dimension d with the teacher's:

    - "fd": A dense layer d -> teacher_dim projects the encoder's output. It is dropped
      after training.
    - "distillation_first": The encoder's output has dimension teacher_dim and is
      compared directly. A dense layer teacher_dim -> d then makes the final vectors,
      for `ams` and `logit`. This layer has no bias, and the encoder's `projection` must
      be linear, so `trained_encoder` can merge both into one matrix.
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
        final_dim: Dimension d for "distillation_first", None for the encoder's
            `hidden_dim`. For the other features d is the encoder's dimension.
        reduction: Matrix for "synchronized", `(teacher_dim, d)`, from
            `reduce_dimensions`. The reduced vectors are scaled to length 1, because
            only their directions were fitted.
        margin: See `AdditiveMarginSoftmax`.
        scale: Factor of the cosines in `ams` and `logit`.
        temperature: See `LogitDistillation`.
        mask_duplicates: Whether rows with the same source sentence (`group`) are
            excluded as negatives of each other; False for the published equation.
        dims: "mean" or "sum", see `FeatureDistillation`.
        name: Name of the stage.
        **options: Other arguments of `Stage`, such as `chunk_size` for large batches.

    Raises:
        InputError: An argument is out of its range, `reduction` has the wrong shape, or
            the encoder's projection cannot be merged.

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
        encoder: Any,
        ams_weight: float = 1.0,
        feature_weight: float = 1e3,
        logit_weight: float = 1e-2,
        feature: str = "fd",
        teacher_dim: int = 768,
        final_dim: int | None = None,
        reduction: np.ndarray | None = None,
        margin: float = 0.3,
        scale: float = 100.0,
        temperature: float = 100.0,
        mask_duplicates: bool = True,
        dims: str = "mean",
        name: str | None = None,
        **options: Any,
    ) -> None:
        weights = {"ams": ams_weight, "feature": feature_weight, "logit": logit_weight}
        at_least(0, **{f"{term}_weight": weights[term] for term in weights})
        at_least(1, teacher_dim=teacher_dim)
        one_of(FEATURES, feature=feature)
        weights = {term: weight for term, weight in weights.items() if weight}
        if not weights:
            raise InputError(
                "`TeachThinDeep` needs a weight above 0. Received: ams_weight=0, "
                "feature_weight=0, logit_weight=0."
            )
        if feature == "distillation_first" and weights.keys() == {"feature"}:
            raise InputError(
                '`feature="distillation_first"` needs a weight for `ams` or `logit`: '
                "they train the dense layer that `trained_encoder` merges. Received: "
                "ams_weight=0, logit_weight=0."
            )
        for argument, given, only in (
            ("final_dim", final_dim, "distillation_first"),
            ("reduction", reduction, "synchronized"),
        ):
            if given is not None and feature != only:
                raise InputError(
                    f'`{argument}` belongs to `feature="{only}"`. Received: '
                    f'feature="{feature}" with `{argument}`. Leave it out.'
                )
        self.terms = tuple(weights)
        if self.terms == ("ams",):
            self.targets = ()
        super().__init__(encoder, dims, name, **weights | options)
        self.ams = AdditiveMarginSoftmax(margin, scale)
        self.feature_distance = FeatureDistillation(dims)
        self.logit_distance = LogitDistillation(temperature, scale)
        self.feature, self.teacher_dim = feature, teacher_dim
        self.mask_duplicates = mask_duplicates
        self.reduction = None if reduction is None else np.asarray(reduction, "float32")
        self.encoder = encoder
        self.dense = self._dense(final_dim)

    def trained_encoder(self) -> Any:
        """Return the encoder without training-only parts."""
        if self.feature != "distillation_first":
            return self.encoder
        return merge_projection(self.encoder, ops.convert_to_numpy(self.dense.kernel))

    def loss_terms(self, x: Any, y: Any, embeddings: Any) -> dict[str, Any]:
        """Return every term that has a weight.

        Raises:
            InputError: `mask_duplicates` is set and the batch has no `group`.
        """
        embedded = final = embeddings["source"], embeddings["target"]
        if self.feature == "distillation_first":
            final = tuple(self.dense(side) for side in embedded)
        terms = super().loss_terms(x, y, embeddings)
        if "ams" in self.terms:
            terms["ams"] = self.ams(self._groups(x, final), final)
        if not self.targets:
            return terms
        goals = y["teacher_source"], y["teacher_target"]
        if "logit" in self.terms:
            terms["logit"] = self.logit_distance(goals, final)
        if "feature" in self.terms:
            if self.feature == "fd":
                embedded = tuple(self.dense(side) for side in embedded)
            if self.feature == "synchronized":
                goals = tuple(l2_normalize(g @ self.reduction) for g in goals)
            terms["feature"] = self.feature_distance(goals, embedded)
        return terms

    def check_width(self, name: str, target: Any, embedding: Any) -> None:
        """Raise `InputError` unless a target has the teacher's dimension."""
        if tuple(target.shape)[1:] != (self.teacher_dim,):
            raise InputError(
                f"The target `{name}` must have the dimension `teacher_dim`. Received: "
                f"{tuple(target.shape)}, teacher_dim={self.teacher_dim}. Set "
                "`teacher_dim` to the teacher's dimension."
            )

    def _groups(self, x: Any, final: Any) -> Any:
        if not self.mask_duplicates:
            return final[0]
        instead = ", or set `mask_duplicates=False`"
        return self.group(x, "the term `ams`", instead)

    def _dense(self, final_dim: int | None) -> Any:
        width = self.network.output_shape[-1]
        if self.feature == "distillation_first":
            check_mergeable(self.encoder, self.teacher_dim)
            units, bias = final_dim or self.encoder.config.hidden_dim, False
        elif self.feature == "fd" and "feature" in self.terms:
            units, bias = self.teacher_dim, True
        else:
            self._check_reduction(width)
            return None
        layer = keras.layers.Dense(units, use_bias=bias, dtype="float32", name="dense")
        layer.build((None, width))
        return layer

    def _check_reduction(self, width: int) -> None:
        shape = (self.teacher_dim, width)
        given = None if self.reduction is None else self.reduction.shape
        if self.feature == "synchronized" and given != shape:
            raise InputError(
                '`feature="synchronized"` needs `reduction`, a matrix (teacher_dim, d) '
                f"= {shape}. Received: {given}. Make it with "
                "`starts.reduce_dimensions`."
            )
