"""The base class of losses; squared distances and classification of vector pairs."""

import re
from typing import Any, get_args

import keras
from keras import ops

from keras_msd.checks import InputError, one_of
from keras_msd.choices import Dims
from keras_msd.layers.pooling import l2_normalize


class Float32Loss(keras.losses.Loss):
    """Base class of losses that compute in float32 under every dtype policy.

    Args:
        settings: Arguments of the subclass, by name. They become attributes and are
            stored in the config.
        reduction: Reduction over the batch, as for every Keras loss.
        name: Name of the loss; default that of its class in snake case.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
    ) -> None:
        name = name or re.sub("(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
        super().__init__(name=name, reduction=reduction, dtype="float32")
        self._settings = tuple(settings)
        for setting, value in settings.items():
            setattr(self, setting, value)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that recreate this loss."""
        settings = {name: getattr(self, name) for name in self._settings}
        return super().get_config() | settings


def cosine_matrix(rows: Any, columns: Any) -> Any:
    """Return `cos(rows[i], columns[j])` at `[i, j]`; 0 if either is a zero vector.

    Shapes: `rows` `(n, d)`, `columns` `(m, d)`; returns `(n, m)`.
    """
    columns = ops.transpose(l2_normalize(columns))
    return ops.matmul(l2_normalize(rows), columns)


def pair_of(value: Any, name: str) -> tuple[Any, Any]:
    """Return the two sides of a loss's argument.

    Raises:
        InputError: `value` is not a pair; the error calls it `name`.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(
            f"`{name}` must be a pair: vectors of the sources and of the targets. "
            f"Received: {type(value).__name__}."
        )
    return value[0], value[1]


def _distance(goal: Any, vectors: Any, dims: str) -> Any:
    if goal.shape[-1] != vectors.shape[-1]:
        raise InputError(
            "Target vectors and embeddings must have the same dimension. Received: "
            f"y_true {tuple(goal.shape)}, y_pred {tuple(vectors.shape)}."
        )
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
        **options: `reduction` and `name`, as for every Keras loss.

    Source: Ding et al. 2022, eq. 2, 3, 4 and 6.

    Example:
        >>> guide, vectors = np.float32([[1, 0], [0, 1]]), np.float32([[1, 2], [0, 1]])
        >>> [float(msd.losses.EmbeddingMSE(d)(guide, vectors)) for d in ("mean", "sum")]
        [1.0, 2.0]
    """

    def __init__(self, dims: str = "mean", **options: Any) -> None:
        super().__init__({"dims": dims}, **options)
        one_of(get_args(Dims), dims=dims)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per vector.

        Raises:
            InputError: The vectors have different dimensions.
        """
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
        **options: `reduction` and `name`, as for every Keras loss.

    Raises:
        InputError: `dims` is unknown.

    Source: Mao & Nakagawa 2023, eq. 3.

    Example:
        >>> loss = msd.losses.FeatureDistillation(dims="sum")
        >>> ones, zeros = np.ones((2, 3), "float32"), np.zeros((2, 3), "float32")
        >>> float(loss((ones, ones), (ones, zeros)))
        3.0
    """

    def __init__(self, dims: str = "mean", **options: Any) -> None:
        super().__init__({"dims": dims}, **options)
        one_of(get_args(Dims), dims=dims)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: An argument is not a pair, or the vectors have different
                dimensions.
        """
        sides = zip(pair_of(y_true, "y_true"), pair_of(y_pred, "y_pred"), strict=True)
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
        **options: `reduction` and `name`, as for every Keras loss.

    Source: Reimers and Gurevych 2019, section 3 (regression objective).

    Example:
        >>> loss = msd.losses.CosineSimilarityMSE()
        >>> first, second = np.float32([[1, 0], [1, 0]]), np.float32([[2, 0], [0, 1]])
        >>> float(loss(np.float32([1, 0.5]), (first, second)))  # (0 + 0.25) / 2
        0.125
    """

    def __init__(self, **options: Any) -> None:
        super().__init__({}, **options)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per pair of sentences.

        Raises:
            InputError: `y_pred` is not a pair.
        """
        pair = pair_of(y_pred, "y_pred")
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
        **options: `reduction` and `name`, as for every Keras loss.

    Source: Reimers and Gurevych 2019, section 3 (classification objective).

    Example:
        >>> loss = msd.losses.SoftmaxClassification()
        >>> u, v = np.float32([[1, 0]]), np.float32([[1, 0]])
        >>> round(float(loss(np.int32([0]), (u, v, np.zeros((6, 2), "float32")))), 4)
        0.6931
    """

    def __init__(self, **options: Any) -> None:
        super().__init__({}, **options)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per pair of sentences."""
        first, second, matrix = y_pred
        both = ops.concatenate([first, second, ops.abs(first - second)], axis=-1)
        logs = ops.log_softmax(ops.matmul(both, matrix), axis=-1)
        right = ops.one_hot(ops.cast(y_true, "int32"), logs.shape[-1], dtype=logs.dtype)
        return -ops.sum(right * logs, axis=-1)
