"""Losses of stages; `LOSSES` knows them by the names that recipes use."""

import re
from collections.abc import Sequence
from typing import Any, get_args

import keras
from keras import ops

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.choices import Dims, Target
from keras_msd.layers import l2_normalize

__all__ = [
    "LOSSES",
    "AdditiveMarginSoftmax",
    "CosineSimilarityMSE",
    "EmbeddingMSE",
    "FeatureDistillation",
    "LogitDistillation",
    "Matryoshka",
    "MultilingualContrastive",
    "SimilarityDistribution",
    "SoftmaxClassification",
    "loss_class",
]

EXCLUDED = -1e9  # a logit with probability 0 in float32


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
        checks.one_of(get_args(Dims), dims=dims)

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
        square = ops.square(y_pred - y_true)
        return (ops.mean if self.dims == "mean" else ops.sum)(square, axis=-1)


@keras.saving.register_keras_serializable(package="keras_msd")
class FeatureDistillation(EmbeddingMSE):
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

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: An argument is not a pair, or the vectors have different
                dimensions.
        """
        one = super().call
        return sum(map(one, pair_of(y_true, "y_true"), pair_of(y_pred, "y_pred")))


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


def same_line(rows: Any, group: Any = None) -> Any:
    """Return which rows of a batch have the same source sentence, bool `(n, n)`.

    Args:
        rows: Anything with n rows.
        group: `(n,)`, the same number for the same source sentence; None if all source
            sentences differ.
    """
    if group is None:
        group = ops.arange(ops.shape(rows)[0])
    return ops.equal(ops.expand_dims(group, 1), ops.expand_dims(group, 0))


def without_duplicates(logits: Any, group: Any = None) -> Any:
    """Mask the logits between different rows with the same source sentence.

    Shapes: `logits` `(n, n)` in and out; `group` as for `same_line`.
    """
    if group is None:
        return logits
    others = ops.logical_and(same_line(group, group), ops.logical_not(same_line(group)))
    return ops.where(others, EXCLUDED, logits)


@keras.saving.register_keras_serializable(package="keras_msd")
class MultilingualContrastive(Float32Loss):
    """Multilingual contrastive learning on the n x n similarities of a batch.

    `S[i, j]` is the cosine between the embeddings of source i and target j. `T[i, j]`
    is the cosine between the teacher's vectors i and j. The loss of row i is:

    | `target` | row i | equation |
    |---|---|---|
    | "soft" | `mean_j (T[i, j] - S[i, j])^2` | 5 |
    | "bool" | `mean_j (same[i, j] - S[i, j])^2` | 8 |
    | "ce_soft" | `-sum_j T[i, j] log softmax_j(S[i, :] / temperature)[j]` | 9 |
    | "ce_hard" | `-log softmax_j(S[i, :] / temperature)[i]` | the authors' code |
    | "softmax" | `-sum_j (Q[i, j] L[i, j] + Q'[i, j] L'[i, j]) / 2` | ours |

    In "softmax", `Q[i, :]` is `softmax(T[i, :] / goal_temperature)` and `L` is the
    log-softmax of `S / temperature` over j. `Q'` and `L'` are computed in the same way
    from the transposed matrices. Near neighbours contribute most to this loss. In
    "soft" and "ce_soft", the many unrelated sentences do.

    `same[i, j]` is 1 if i and j have the same source sentence. Such rows are not
    negatives of each other: their teacher's vectors are equal in T ("soft", "ce_soft",
    "softmax"), `group` marks them ("bool"), or they are left out of the softmax
    ("ce_hard"). The paper's equation 9 is the sum over i, not the mean; use
    `reduction="sum"` for it. A zero vector has cosine 0 with every vector. Computed in
    float32 under every dtype policy.

    Shapes: `y_true` the teacher's vectors `(n, d)`, or a pair of these and `group`;
    `y_pred` a pair of source and target embeddings, `(n, e)` each; `call` returns
    `(n,)`. `group` `(n,)` has the same number for the same source sentence; without it,
    all source sentences count as different. Next to `group`, the vectors may themselves
    be a pair, of the sources and of the targets, if the teacher reads both languages.

    Args:
        target: Target of the similarities, as in the table.
        temperature: Divides the student's cosines in the cross-entropies, above 0.
        goal_temperature: Divides the teacher's cosines in "softmax"; default
            `temperature`. Set it if the teacher's cosines have a narrower range than
            usual: those of e5 are between 0.7 and 1.
        **options: `reduction` and `name`, as for every Keras loss.

    Raises:
        InputError: An argument is out of its range, or `goal_temperature` is given for
            another target.

    Source: Ding et al. 2022, eq. 5, 8 and 9.

    Example:
        >>> loss = msd.losses.MultilingualContrastive("soft")
        >>> guide, rows = np.ones((2, 4), "float32"), np.eye(2, dtype="float32")
        >>> round(float(loss(guide, (rows, rows))), 4)  # (1 - 1)^2 and (1 - 0)^2
        0.5
    """

    def __init__(
        self,
        target: str = "soft",
        temperature: float = 0.05,
        goal_temperature: float | None = None,
        **options: Any,
    ) -> None:
        temperatures: dict[str, Any] = {
            "temperature": temperature,
            "goal_temperature": goal_temperature,
        }
        super().__init__({"target": target, **temperatures}, **options)
        checks.one_of(get_args(Target), target=target)
        checks.above(0, **temperatures)
        if goal_temperature is not None and target != "softmax":
            raise InputError(
                'Only target="softmax" uses `goal_temperature`. Received: '
                f"target={target!r}, goal_temperature={goal_temperature}."
            )

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: `y_pred` is not a pair.
        """
        source, target = pair_of(y_pred, "y_pred")
        guide, group = y_true if isinstance(y_true, tuple | list) else (y_true, None)
        sides = guide if isinstance(guide, tuple | list) else (guide, guide)
        similarity = cosine_matrix(source, target)
        if self.target in ("soft", "bool"):
            goal = (
                cosine_matrix(*sides)
                if self.target == "soft"
                else ops.cast(same_line(sides[0], group), similarity.dtype)
            )
            return ops.mean(ops.square(goal - similarity), axis=-1)
        logits = similarity / self.temperature
        if self.target == "ce_soft":
            goal = cosine_matrix(*sides)
            return -ops.sum(goal * ops.log_softmax(logits, axis=-1), axis=-1)
        if self.target == "softmax":
            goal = cosine_matrix(*sides) / (self.goal_temperature or self.temperature)
            there, back = (
                ops.softmax(given, axis=-1) * ops.log_softmax(found, axis=-1)
                for given, found in (
                    (goal, logits),
                    (ops.transpose(goal), ops.transpose(logits)),
                )
            )
            return -ops.sum(there + back, axis=-1) / 2
        # Differences from the row's own logit first: the others cancel in float32.
        behind = logits - ops.expand_dims(ops.diagonal(logits), 1)
        return ops.logsumexp(without_duplicates(behind, group), axis=-1)


@keras.saving.register_keras_serializable(package="keras_msd")
class LogitDistillation(Float32Loss):
    """Squared differences between the teacher's and the student's scaled cosines.

    Row i is `mean_j (scale (T[i, j] - S[i, j]) / temperature)^2`. `T[i, j]` is the
    teacher's cosine between source i and target j, so the teacher must read both
    languages. `S[i, j]` is the student's. The paper's equation has no scale
    (`scale=1`). But with the paper's temperature of 100 and weight of 0.01, the term
    would then be below 4e-6 and have no effect. Computed in float32 under every dtype
    policy.

    Shapes: `y_true` a pair of the teacher's source and target vectors, `(n, d)` each;
    `y_pred` a pair of source and target embeddings, `(n, e)` each; `call` returns
    `(n,)`.

    Args:
        temperature: Divides the scaled cosines, above 0.
        scale: Factor of the cosines, above 0.
        **options: `reduction` and `name`, as for every Keras loss.

    Raises:
        InputError: `temperature` or `scale` is not above 0.

    Source: Mao & Nakagawa 2023, eq. 4.

    Example:
        >>> loss = msd.losses.LogitDistillation(temperature=1.0, scale=2.0)
        >>> teacher, rows = np.ones((2, 4), "float32"), np.eye(2, dtype="float32")
        >>> float(loss((teacher, teacher), (rows, rows)))  # (2 - 2)^2 and (2 - 0)^2
        2.0
    """

    def __init__(
        self,
        temperature: float = 100.0,
        scale: float = 100.0,
        **options: Any,
    ) -> None:
        super().__init__({"temperature": temperature, "scale": scale}, **options)
        checks.above(0, temperature=temperature, scale=scale)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: An argument is not a pair.
        """
        goals, embeddings = pair_of(y_true, "y_true"), pair_of(y_pred, "y_pred")
        difference = cosine_matrix(*goals) - cosine_matrix(*embeddings)
        factor = self.scale / self.temperature
        return ops.mean(ops.square(factor * difference), axis=-1)


@keras.saving.register_keras_serializable(package="keras_msd")
class SimilarityDistribution(Float32Loss):
    """Cross-entropy between the teacher's and the student's similarity distributions.

    `T[i, j]` is the cosine between the teacher's vectors i and j. `Q[i, :]` is the
    softmax of `T[i, :] / goal_temperature` over all rows except i. `P[i, :]` is the
    softmax of the embeddings' cosines on one side, divided by `temperature`. Row i is
    the mean over both sides of `-sum_j Q[i, j] log P[i, j]`. A contrastive term mainly
    teaches which sentence is the translation; this term teaches how similar the other
    sentences are.

    With `across`, each sentence is compared with the sentences of both sides: i and j
    run over all 2n sentences, and the translation of the sentence is also excluded. A
    zero vector has cosine 0 with every vector. Computed in float32 under every dtype
    policy.

    Shapes: `y_true` the teacher's vectors `(n, d)`, or a pair of its vectors of the
    sources and of the targets, if it reads both languages; `y_pred` a pair of source
    and target embeddings, `(n, e)` each; `call` returns `(n,)`.

    Args:
        temperature: Divides the student's cosines, above 0.
        across: Whether to compare each sentence with the sentences of both sides
            instead of only its own side.
        goal_temperature: Divides the teacher's cosines, above 0; by default
            `temperature`.
        **options: `reduction` and `name`, as for every Keras loss.

    Raises:
        InputError: A temperature is not above 0.

    Source: ours, after Fang et al. 2021 (SEED), with the batch in place of a queue.

    Example:
        >>> loss = msd.losses.SimilarityDistribution(temperature=0.1)
        >>> guide = np.array([[1, 0], [1, 1], [0, 1]], "float32")
        >>> bool(loss(guide, (guide, guide)) < loss(guide, (guide, guide[[1, 0, 2]])))
        True
    """

    def __init__(
        self,
        temperature: float = 0.05,
        across: bool = False,
        goal_temperature: float | None = None,
        **options: Any,
    ) -> None:
        temperatures: dict[str, Any] = {
            "temperature": temperature,
            "goal_temperature": goal_temperature,
        }
        super().__init__({"across": across, **temperatures}, **options)
        checks.above(0, **temperatures)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: `y_pred` is not a pair.
        """
        sides: Any = pair_of(y_pred, "y_pred")
        guides: Any = y_true if isinstance(y_true, tuple | list) else (y_true, y_true)
        lines = ops.arange(ops.shape(sides[0])[0])
        if self.across:
            guides, sides = (ops.concatenate(guides),), (ops.concatenate(sides),)
            lines = ops.concatenate((lines, lines))
        own = same_line(lines, lines)

        def of_others(rows: Any, temperature: float) -> Any:
            return ops.where(own, EXCLUDED, cosine_matrix(rows, rows) / temperature)

        values = []
        for guide, side in zip(guides, sides, strict=True):
            goal = of_others(guide, self.goal_temperature or self.temperature)
            found = of_others(side, self.temperature)
            shares = ops.softmax(goal, axis=-1)
            values.append(-ops.sum(shares * ops.log_softmax(found, axis=-1), axis=-1))
        return ops.mean(ops.reshape(ops.concatenate(values), (2, -1)), axis=0)


@keras.saving.register_keras_serializable(package="keras_msd")
class AdditiveMarginSoftmax(Float32Loss):
    """Translation ranking in both directions, with a margin on the correct pairs.

    `S[i, j]` is the cosine between source i and target j, and `L = scale (S - margin
    I)`. Row i is `-log softmax_j(L[i, :])[i] - log softmax_j(L[:, i])[i]`, the sum of
    both directions. The paper's equation has no scale (`scale=1`). But without a scale,
    even perfect vectors have a loss of `2 log(1 + (n - 1) e^(margin - 1))`, and
    training has almost no effect.

    Rows with the same source sentence are translations of each other. With `group`,
    they are left out of each other's softmax. Without it, they are negatives, as in the
    paper. A zero vector has cosine 0 with every vector. Computed in float32 under every
    dtype policy.

    Shapes: `y_true` is `group` `(n,)`, the same number for the same source sentence, or
    the teacher's vectors `(n, d)`, which are ignored, or a pair of these and `group`;
    `y_pred` a pair of source and target embeddings, `(n, e)` each; `call` returns
    `(n,)`.

    Args:
        margin: Subtracted from the cosine of a correct pair, 0 or more.
        scale: Factor of the cosines after the margin is subtracted, above 0.
        **options: `reduction` and `name`, as for every Keras loss.

    Raises:
        InputError: `margin` or `scale` is out of its range.

    Source: Mao & Nakagawa 2023, eq. 1 and 2; Yang et al. 2019; margin and scale as in
        LaBSE's published configuration (Feng et al. 2022).

    Example:
        >>> loss = msd.losses.AdditiveMarginSoftmax(margin=0.3, scale=10.0)
        >>> rows = np.eye(2, dtype="float32")
        >>> right, wrong = loss(rows, (rows, rows)), loss(rows, (rows, rows[::-1]))
        >>> bool(right < wrong)
        True
    """

    def __init__(
        self, margin: float = 0.3, scale: float = 100.0, **options: Any
    ) -> None:
        super().__init__({"margin": margin, "scale": scale}, **options)
        checks.at_least(0, margin=margin)
        checks.above(0, scale=scale)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: `y_pred` is not a pair.
        """
        source, target = pair_of(y_pred, "y_pred")
        group = y_true[1] if isinstance(y_true, tuple | list) else y_true
        known = group if len(group.shape) == 1 else None
        similarity = cosine_matrix(source, target)
        right = same_line(similarity)
        logits = ops.where(right, similarity - self.margin, similarity) * self.scale
        goal = ops.diagonal(logits)
        logits = without_duplicates(logits, known)
        forward = ops.logsumexp(logits - ops.expand_dims(goal, 1), axis=1)
        backward = ops.logsumexp(logits - ops.expand_dims(goal, 0), axis=0)
        return forward + backward


@keras.saving.register_keras_serializable(package="keras_msd")
class Matryoshka(Float32Loss):
    """A loss summed over whole embeddings and their leading dimensions.

    It trains the vectors that `encode(truncate_dim=m)` returns. Row i is `loss(d)[i] +
    sum_m loss(m)[i]`, where `loss(m)` is the loss of the first m dimensions of all
    embeddings. Target vectors are not shortened, so the loss must not compare them with
    embeddings dimension by dimension, as `EmbeddingMSE` does. Computed in float32 under
    every dtype policy.

    Shapes: `y_true` as for the loss; `y_pred` a pair of source and target embeddings,
    `(n, d)` each; `call` returns `(n,)`.

    Args:
        loss: A loss whose `call` returns a number per row, or its name in `LOSSES`.
        dims: Numbers m of leading dimensions, each once. The full dimension d is always
            included, also if you do not list it.
        **options: `reduction` and `name`, as for every Keras loss.

    Raises:
        InputError: `dims` is empty, or a number is below 1 or given twice.

    Source: Kusupati et al. 2022, eq. 1, with all weights 1.

    Example:
        >>> soft = msd.losses.MultilingualContrastive("soft")
        >>> loss = msd.losses.Matryoshka(soft, dims=[1])
        >>> guide, rows = np.eye(2, dtype="float32"), np.float32([[1, 0], [1, 1]])
        >>> apart = [float(soft(guide, (it, it))) for it in (rows, rows[:, :1])]
        >>> abs(float(loss(guide, (rows, rows))) - sum(apart)) < 1e-6
        True
    """

    def __init__(
        self,
        loss: keras.losses.Loss | str,
        dims: Sequence[int],
        **options: Any,
    ) -> None:
        super().__init__({"dims": tuple(dims)}, **options)
        self.loss = loss_class(loss)() if isinstance(loss, str) else loss
        if not dims or len(set(dims)) < len(dims) or min(dims) < 1:
            raise InputError(
                "`dims` must list numbers of leading dimensions, each once, such as "
                f"(64, 128). Received: {self.dims}."
            )

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one number per row of the batch.

        Raises:
            InputError: A number in `dims` is larger than the embeddings' dimension.
        """
        whole = min(part.shape[-1] for part in y_pred)
        if max(self.dims) > whole:
            raise InputError(
                f"`dims` must be at most the embeddings' dimension, {whole}. Received: "
                f"{max(self.dims)}. Remove it from `dims`."
            )
        widths = {whole, *self.dims}
        prefixes = ([part[:, :width] for part in y_pred] for width in sorted(widths))
        return sum(self.loss.call(y_true, prefix) for prefix in prefixes)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that recreate this loss."""
        loss = keras.saving.serialize_keras_object(self.loss)
        return super().get_config() | {"loss": loss}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Matryoshka":
        """Make a loss from its config."""
        loss = keras.saving.deserialize_keras_object(config["loss"])
        return cls(**config | {"loss": loss})


# Add your own under its name.
LOSSES: dict[str, type] = {
    "additive_margin_softmax": AdditiveMarginSoftmax,
    "cosine_similarity_mse": CosineSimilarityMSE,
    "embedding_mse": EmbeddingMSE,
    "feature_distillation": FeatureDistillation,
    "logit_distillation": LogitDistillation,
    "multilingual_contrastive": MultilingualContrastive,
    "similarity_distribution": SimilarityDistribution,
}


def loss_class(name: str) -> Any:
    """Return the loss class that `LOSSES` lists under `name`.

    Raises:
        InputError: No loss has that name.

    Example:
        >>> msd.losses.loss_class("embedding_mse")(dims="sum").dims
        'sum'
    """
    checks.one_of(LOSSES, loss=name)
    return LOSSES[name]
