"""Losses per row: squared distances and classification of vector pairs."""

from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError, one_of
from keras_msd.layers.pooling import l2_normalize
from keras_msd.losses.base import Float32Loss, pair_of


def _distance(goal: Any, vectors: Any, dims: str) -> Any:
    square = ops.square(vectors - goal)
    return (ops.mean if dims == "mean" else ops.sum)(square, axis=-1)


@keras.saving.register_keras_serializable(package="keras_msd")
class EmbeddingMSE(Float32Loss):
    """Mean squared error between embeddings and target vectors.

    With the default reduction, the loss of n vectors of dimension d is:

    - `dims="mean"`: `sum_ik (y_pred[i, k] - y_true[i, k])^2 / (n d)`, as in the
      authors' code;
    - `dims="sum"`: `sum_ik (y_pred[i, k] - y_true[i, k])^2 / n`, as in the paper.

    Computed in float32 under every dtype policy.

    Shapes: `y_true` and `y_pred` `(n, d)`; `call` returns `(n,)`. Or `(n, length, d)`
    with a `sample_weight` `(n, length)`; `call` returns `(n, length)`.

    Args:
        dims: "mean" or "sum": reduction over the d dimensions of a vector.
        reduction: Reduction over the batch, as for every Keras loss.
        name: Name of the loss.

    Source: Ding et al. 2022, eq. 2, 3, 4 and 6.

    Example:
        >>> guide, vectors = np.float32([[1, 0], [0, 1]]), np.float32([[1, 2], [0, 1]])
        >>> [float(msd.losses.EmbeddingMSE(d)(guide, vectors)) for d in ("mean", "sum")]
        [1.0, 2.0]
    """

    def __init__(
        self,
        dims: str = "mean",
        reduction: str | None = "sum_over_batch_size",
        name: str = "embedding_mse",
    ) -> None:
        super().__init__(reduction, name, dims=dims)
        one_of(("mean", "sum"), dims=dims)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per vector.

        Raises:
            InputError: The vectors have different dimensions.
        """
        if y_true.shape[-1] != y_pred.shape[-1]:
            raise InputError(
                "Target vectors and embeddings must have the same dimension. Received: "
                f"y_true {tuple(y_true.shape)}, y_pred {tuple(y_pred.shape)}."
            )
        return _distance(y_true, y_pred, self.dims)


@keras.saving.register_keras_serializable(package="keras_msd")
class FeatureDistillation(Float32Loss):
    """Squared distances to the teacher's vectors, summed over both sides.

    With `dims="sum"`, row i is `sum_k (source[i, k] - teacher_source[i, k])^2 + sum_k
    (target[i, k] - teacher_target[i, k])^2`, as in the paper. `dims="mean"` divides
    this by d. A dense layer, used only in training, must project the student's vectors
    to the teacher's dimension. Computed in float32 under every dtype policy.

    Shapes: `y_true` and `y_pred` are pairs of source and target vectors, all `(n, d)`;
    `call` returns `(n,)`.

    Args:
        dims: "mean" or "sum": reduction over the d dimensions of a vector.
        reduction: Reduction over the rows, as for every Keras loss.
        name: Name of the loss.

    Raises:
        InputError: `dims` is unknown.

    Source: Mao & Nakagawa 2023, eq. 3.

    Example:
        >>> loss = msd.losses.FeatureDistillation(dims="sum")
        >>> ones, zeros = np.ones((2, 3), "float32"), np.zeros((2, 3), "float32")
        >>> float(loss((ones, ones), (ones, zeros)))
        3.0
    """

    def __init__(
        self,
        dims: str = "mean",
        reduction: str | None = "sum_over_batch_size",
        name: str = "feature_distillation",
    ) -> None:
        super().__init__(reduction, name, dims=dims)
        one_of(("mean", "sum"), dims=dims)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: An argument is not a pair, or the vectors have different
                dimensions.
        """
        goals = pair_of(y_true, "y_true", "the teacher's source and target vectors")
        vectors = pair_of(y_pred, "y_pred", "source and target vectors")
        widths = [part.shape[-1] for part in (*goals, *vectors)]
        if len(set(widths)) > 1:
            raise InputError(
                "The teacher's and the student's vectors must have the same dimension. "
                f"Received: y_true {widths[0]} and {widths[1]}, y_pred {widths[2]} and "
                f"{widths[3]}."
            )
        sides = zip(goals, vectors, strict=True)
        return sum(_distance(goal, part, self.dims) for goal, part in sides)


@keras.saving.register_keras_serializable(package="keras_msd")
class CosineSimilarityMSE(Float32Loss):
    """Regression of cosines on gold similarities.

    With the default reduction the loss is `mean_i (cos(u_i, v_i) - y_i)^2`. The cosine
    is in [-1, 1]; scale the gold scores with `data.scale_gold`. A zero vector has
    cosine 0. Computed in float32 under every dtype policy.

    Shapes: `y_true` gold similarities `(n,)`; `y_pred` a pair of embeddings, `(n, d)`
    each; `call` returns `(n,)`.

    Args:
        reduction: Reduction over the batch, as for every Keras loss.
        name: Name of the loss.

    Source: Reimers and Gurevych 2019, section 3 (regression objective).

    Example:
        >>> loss = msd.losses.CosineSimilarityMSE()
        >>> first, second = np.float32([[1, 0], [1, 0]]), np.float32([[2, 0], [0, 1]])
        >>> float(loss(np.float32([1, 0.5]), (first, second)))  # (0 + 0.25) / 2
        0.125
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str = "cosine_similarity_mse",
    ) -> None:
        super().__init__(reduction, name)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per pair of sentences.

        Raises:
            InputError: `y_pred` is not a pair, or `y_true` is not one number per row.
        """
        pair = pair_of(y_pred, "y_pred", "embeddings of first and second sentences")
        if len(y_true.shape) != 1:
            raise InputError(
                "`y_true` must be one gold similarity per pair, `(n,)`. Received: "
                f"shape {tuple(y_true.shape)}."
            )
        first, second = (l2_normalize(vectors) for vectors in pair)
        return ops.square(ops.sum(first * second, axis=-1) - y_true)


@keras.saving.register_keras_serializable(package="keras_msd")
class SoftmaxClassification(Float32Loss):
    """Cross-entropy of a classifier on the embeddings of two sentences.

    Row i is `-log softmax([u_i; v_i; |u_i - v_i|] W)[y_i]`. There is no bias, as in the
    paper. W is trained, so it is part of `y_pred`. For this reason a recipe cannot use
    the loss in `losses`. Computed in float32 under every dtype policy.

    Shapes: `y_true` class ids from 0, `(n,)`; `y_pred` a triple of the embeddings u and
    v, `(n, d)` each, and W, `(3 d, classes)`; `call` returns `(n,)`.

    Args:
        reduction: Reduction over the batch, as for every Keras loss.
        name: Name of the loss.

    Source: Reimers and Gurevych 2019, section 3 (classification objective).

    Example:
        >>> loss = msd.losses.SoftmaxClassification()
        >>> u, v = np.float32([[1, 0]]), np.float32([[1, 0]])
        >>> round(float(loss(np.int32([0]), (u, v, np.zeros((6, 2), "float32")))), 4)
        0.6931
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str = "softmax_classification",
    ) -> None:
        super().__init__(reduction, name)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per pair of sentences.

        Raises:
            InputError: `y_pred` does not have three parts, or `y_true` is not one id
                per row.
        """
        if not isinstance(y_pred, tuple | list) or len(y_pred) != 3:
            raise InputError(
                "`y_pred` must be embeddings of first and second sentences and the "
                f"classifier's matrix. Received: {type(y_pred).__name__}."
            )
        if len(y_true.shape) != 1:
            raise InputError(
                "`y_true` must be one class per pair, `(n,)`. Received: shape "
                f"{tuple(y_true.shape)}."
            )
        first, second, matrix = y_pred
        both = ops.concatenate([first, second, ops.abs(first - second)], axis=-1)
        logs = ops.log_softmax(ops.matmul(both, matrix), axis=-1)
        right = ops.one_hot(ops.cast(y_true, "int32"), logs.shape[-1], dtype=logs.dtype)
        return -ops.sum(right * logs, axis=-1)
