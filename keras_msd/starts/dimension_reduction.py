"""Dense layers between vectors of two dimensions, and a rotation for encoders."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.arrays import unit_rows
from keras_msd.checks import InputError, at_least
from keras_msd.choices import SIDES
from keras_msd.data.order import permutation
from keras_msd.losses import (
    AdditiveMarginSoftmax,
    Matryoshka,
    MultilingualContrastive,
    SimilarityDistribution,
)
from keras_msd.training.optimizer import make_optimizer

LEARNING_RATE, TEMPERATURE = 3e-3, 0.05  # of `order_dimensions`
RANK = 1e-6  # smaller eigenvalues, relative to the largest one, count as zero


def reduce_dimensions(
    source: Any,
    target: Any,
    dim: int,
    group: Any = None,
    steps: int = 5_000,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    margin: float = 0.3,
    scale: float = 100.0,
    seed: int = 0,
) -> np.ndarray:
    """Fit a matrix that reduces the teacher's vectors to `dim` dimensions.

    The teacher is frozen; only its vectors are used. The matrix is a linear layer
    without a bias. It starts at random and is trained to rank translations, with
    `AdditiveMarginSoftmax` (the paper does not name the loss). Only the directions of
    `vectors @ matrix` are fitted, not their lengths.

    Args:
        source: The teacher's vectors of the source side, `(n, width)`; an array or
            memory map, read one batch at a time.
        target: The teacher's vectors of the translations, `(n, width)`.
        dim: Dimension of the reduced vectors, from 1 to `width`.
        group: int `(n,)`, the same number for the same source sentence: such rows are
            not negatives of each other. None if all source sentences differ.
        steps: Number of training steps.
        batch_size: Pairs in a batch, at most n.
        learning_rate: Initial learning rate; it decays to 0.
        margin: See `AdditiveMarginSoftmax`.
        scale: See `AdditiveMarginSoftmax`.
        seed: Seed for the first matrix and the order of the pairs.

    Returns:
        The matrix, float32 `(width, dim)`.

    Raises:
        InputError: A number is out of its range, or the shapes of the arrays do not
            match.

    Source: Mao & Nakagawa 2023, section 3.2 and figure 1.

    Example:
        >>> rows = np.eye(8, 6, dtype="float32")
        >>> msd.starts.reduce_dimensions(rows, rows, 2, steps=2, batch_size=4).shape
        (6, 2)
    """
    lines = _lines(source, target, group, dim, steps, batch_size)
    loss = AdditiveMarginSoftmax(margin, scale)
    start = keras.initializers.GlorotUniform(seed)((np.shape(source)[1], dim))
    model = _Linear(start, lambda it: it, lambda x, made: loss(x["group"], made))
    batches = _Batches((source, target), lines, steps, batch_size, seed)
    return _trained(model, batches, learning_rate)


def whiten(vectors: np.ndarray, strength: float = 0.1) -> np.ndarray:
    """Find the matrix that evens out how much the directions of vectors vary.

    Few directions hold most of the variance of sentence embeddings, and so decide most
    of a cosine. The matrix is `(I + strength C / c)^(-1/2)` with the covariance C of
    the vectors and c the mean of its eigenvalues: a direction that varies as much as
    the mean is hardly changed, one that varies 20 times as much is divided by
    `sqrt(1 + 20 strength)`. The mean of the vectors is not removed.
    `models.merge_projection` makes the matrix part of an encoder.

    Args:
        vectors: An encoder's vectors of some thousand sentences in all of its
            languages, `(n, width)`; they are scaled to length one.
        strength: 0 changes nothing; the more, the nearer to whitening.

    Returns:
        The matrix, symmetric, float32 `(width, width)`.

    Raises:
        InputError: There are fewer than two vectors, they are not finite or all the
            same, or the strength is below 0.

    Source: ours; with a large strength whitening, Su et al. 2021 (arXiv:2103.15316).

    Example:
        >>> rows = np.array([[3.0, 4.0], [4.0, -3.0], [5.0, 0.0]])
        >>> matrix = msd.starts.whiten(rows, strength=1.0)
        >>> matrix.shape, bool(np.allclose(matrix, matrix.T))
        ((2, 2), True)
    """
    at_least(0, strength=strength)
    vectors = np.asarray(vectors, np.float64)
    if vectors.ndim != 2 or len(vectors) < 2 or not np.isfinite(vectors).all():
        raise InputError(
            "`vectors` must be finite numbers `(n, width)` of two sentences or more. "
            f"Received: shape {vectors.shape}, "
            f"{np.count_nonzero(~np.isfinite(vectors))} numbers that are not finite."
        )
    sizes, directions = np.linalg.eigh(np.cov(unit_rows(vectors), rowvar=False))
    if not (mean := sizes.mean()) > np.finfo(np.float64).eps:
        raise InputError(
            "`vectors` must differ. Received: the same direction in every row. Give "
            "vectors of different sentences."
        )
    scales = 1 / np.sqrt(1 + strength * np.maximum(sizes, 0) / mean)
    return ((directions * scales) @ directions.T).astype(np.float32)


def order_dimensions(
    source: np.ndarray,
    target: np.ndarray,
    dims: Sequence[int] = (32, 64, 128, 256),
    group: Any = None,
    steps: int = 400,
    batch_size: int = 1024,
) -> np.ndarray:
    """Find the rotation that moves most information into the leading dimensions.

    Use it for an encoder that was trained without `matryoshka_dims`. The matrix is
    orthogonal: it does not change cosines between whole vectors, but
    `encode(truncate_dim=m)` returns better vectors. `models.merge_projection` makes the
    matrix part of an encoder.

    The matrix starts as PCA, the eigenvectors of `sum v v'`. Training multiplies it by
    `(I + S)^-1 (I - S)` with a skew-symmetric S (Cayley transform). The losses, for
    each m in `dims`, are `MultilingualContrastive("softmax")` and
    `SimilarityDistribution`; their target is the whole source vectors. Directions that
    no vector uses come last, so vectors of rank r lose nothing in r dimensions.

    Args:
        source: The encoder's vectors of one side of training pairs, `(n, width)`.
        target: The encoder's vectors of the translations, `(n, width)`.
        dims: Numbers m of leading dimensions, each from 1 to `width`.
        group: int `(n,)`, the same number for the same source sentence: such rows are
            not negatives of each other. None if all source sentences differ.
        steps: Number of training steps.
        batch_size: Pairs in a batch, at most n.

    Returns:
        The matrix, float32 `(width, width)`. The new vectors are `vectors @ matrix`.

    Raises:
        InputError: A number is out of its range, or the shapes of the arrays do not
            match.

    Source: ours; losses on leading dimensions after Kusupati et al. 2022.

    Example:
        >>> rows = np.eye(8, 6, dtype="float32")
        >>> turned = msd.starts.order_dimensions(rows, rows, [2], steps=2, batch_size=4)
        >>> bool(np.allclose(turned @ turned.T, np.eye(6), atol=1e-6))
        True
    """
    lines = _lines(source, target, group, max(dims, default=1), steps, batch_size)
    sides = [unit_rows(np.asarray(side, np.float32)) for side in (source, target)]
    moments = sum(side.T @ side for side in sides).astype(np.float64)
    sizes, directions = np.linalg.eigh(moments)
    sizes, start = sizes[::-1], directions[:, ::-1]
    rank = int(np.count_nonzero(sizes > RANK * sizes[0]))
    kept = [side @ start[:, :rank].astype(np.float32) for side in sides]
    # The first `rank` dimensions are the whole vector, which no rotation changes.
    widths = [width for width in dims if width < rank]
    losses = (
        MultilingualContrastive("softmax", TEMPERATURE),
        SimilarityDistribution(TEMPERATURE),
    )
    ranking, others = (Matryoshka(loss, widths or [rank]) for loss in losses)

    def loss(x: Any, made: Any) -> Any:
        guide = x["source"]
        return ranking((guide, x["group"]), made) + others(guide, made)

    def rotation(skew: Any) -> Any:
        skew, unit = (skew - ops.transpose(skew)) / 2, ops.eye(rank)
        return ops.solve(unit + skew, unit - skew)

    model = _Linear(np.zeros((rank, rank)), rotation, loss)
    batches = _Batches(kept, lines, steps, batch_size, seed=0)
    skew = _trained(model, batches, LEARNING_RATE).astype(np.float64)
    skew, unit = (skew - skew.T) / 2, np.eye(rank)
    turned = start[:, :rank] @ np.linalg.solve(unit + skew, unit - skew)
    return np.hstack([turned, start[:, rank:]]).astype(np.float32)


def fit_dense(
    student: np.ndarray, teacher: np.ndarray, dim: int | None = None
) -> np.ndarray:
    """Fit the dense layer between a student and its teacher.

    A random layer has large gradients at first, which undo a good start of the student.

    Args:
        student: The student's vectors before training, `(n, d)`.
        teacher: The teacher's vectors of the same sentences, `(n, teacher_dim)`.
        dim: For "distillation_first", whose student has the teacher's width: dimension
            of the final vectors.

    Returns:
        Without `dim` the kernel `(d, teacher_dim)` that meets the teacher with least
        squares. With it, the `dim` principal directions of the student's own vectors,
        `(d, dim)`: of all such matrices they change the vectors' products least.

    Raises:
        InputError: The vectors are not of as many sentences, or not finite; or `dim` is
            not between 1 and d.

    Source: ours; Mao & Nakagawa 2023 do not say how the layer begins.

    Example:
        >>> rows = np.float32([[1, 0], [0, 1], [1, 1]])
        >>> kernel = msd.starts.fit_dense(rows, rows * 3)
        >>> bool(np.allclose(kernel, 3 * np.eye(2), atol=1e-6))
        True
    """
    student, teacher = _of_same_sentences(student, teacher)
    if dim is None:
        kernel = np.linalg.lstsq(student, teacher)[0]
    else:
        at_least(1, dim=dim)
        if dim > (width := student.shape[1]):
            raise InputError(
                "`dim` must be at most the dimension of the student's vectors. "
                f"Received: dim={dim}, dimension {width}."
            )
        kernel = np.linalg.eigh(student.T @ student)[1][:, : -dim - 1 : -1]
    return kernel.astype(np.float32)


def align_reduction(
    reduction: np.ndarray, student: np.ndarray, teacher: np.ndarray
) -> np.ndarray:
    """Rotate a reduction of the teacher towards the student's vectors.

    No cosine of the reduced vectors changes.

    Args:
        reduction: The matrix, `(teacher_dim, d)`.
        student: The student's vectors before training, `(n, d)`.
        teacher: The teacher's vectors of the same sentences, `(n, teacher_dim)`.

    Returns:
        The matrix times the rotation whose squared errors are the least.

    Raises:
        InputError: The vectors are not of as many sentences, or not finite.

    Source: Schönemann 1966 (orthogonal Procrustes problem).

    Example:
        >>> turn = np.float32([[0, 1], [-1, 0]])
        >>> rows = np.float32([[3, 4], [1, 0]])
        >>> found = msd.starts.align_reduction(np.eye(2), rows @ turn, rows)
        >>> bool(np.allclose(found, turn, atol=1e-6))
        True
    """
    student, teacher = _of_same_sentences(student, teacher)
    goals = unit_rows(teacher @ reduction)
    left, _, right = np.linalg.svd(goals.T @ student)
    return (reduction @ (left @ right)).astype(np.float32)


def _of_same_sentences(*vectors: np.ndarray) -> list[np.ndarray]:
    """Return the vectors in float64, or raise `InputError`."""
    found = [np.asarray(it, np.float64) for it in vectors]
    shapes = [it.shape for it in found]
    if {len(shape) for shape in shapes} != {2} or shapes[0][0] != shapes[1][0]:
        raise InputError(
            "`student` and `teacher` must be vectors of the same sentences, `(n, d)` "
            f"and `(n, teacher_dim)`. Received: shapes {shapes[0]} and {shapes[1]}."
        )
    if not all(np.isfinite(it).all() for it in found):
        raise InputError(
            "`student` and `teacher` must be finite. Received: NaN or inf."
        )
    return found


def _lines(
    source: Any, target: Any, group: Any, dim: int, steps: int, batch_size: int
) -> np.ndarray:
    """Check sizes and shapes, and return `group`, or one number per row."""
    at_least(1, dim=dim, steps=steps, batch_size=batch_size)
    shape = np.shape(source)
    lines = np.arange(shape[0]) if group is None else np.asarray(group)
    if len(shape) != 2 or np.shape(target) != shape or lines.shape != shape[:1]:
        raise InputError(
            "`source` and `target` must be (n, width), and `group` (n,). Received: "
            f"{shape}, {np.shape(target)}, {lines.shape}."
        )
    if dim > shape[1] or batch_size > shape[0]:
        raise InputError(
            "`dim` must be at most the dimension of the vectors, and `batch_size` at "
            f"most their number. Received: dim={dim}, batch_size={batch_size}, vectors "
            f"{shape}."
        )
    return lines


class _Linear(keras.Model):
    """A matrix, computed from a trained one, that is multiplied with both sides."""

    def __init__(
        self,
        start: Any,
        matrix: Callable[[Any], Any],
        loss: Callable[[Any, Any], Any],
    ) -> None:
        # The default name would start with `_`, which a scope's name must not.
        super().__init__(name="linear")
        self.trained = self.add_weight(shape=start.shape, initializer="zeros")
        self.trained.assign(start)
        self.matrix, self.difference = matrix, loss
        self.built = True

    def call(self, x: Any) -> tuple[Any, Any]:
        matrix = self.matrix(self.trained.value)
        source, target = (ops.matmul(x[side], matrix) for side in SIDES)
        return source, target

    def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
        return self.difference(x, y_pred)


def _trained(model: _Linear, batches: "_Batches", learning_rate: float) -> np.ndarray:
    optimizer = make_optimizer(learning_rate, batches.steps, warmup=0, weight_decay=0)
    model.compile(optimizer, jit_compile=False)
    model.fit(batches, shuffle=False, verbose=0)
    return ops.convert_to_numpy(model.trained)


class _Batches(keras.utils.PyDataset):
    """Batches in the order of seeded permutations, one after the other."""

    def __init__(
        self, sides: Any, lines: np.ndarray, steps: int, size: int, seed: int
    ) -> None:
        super().__init__()
        self.sides, self.lines = dict(zip(SIDES, sides, strict=True)), lines
        self.steps, self.size, self.seed = steps, size, seed

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray]]:
        each = len(self.lines) // self.size
        epoch, place = divmod(index, each)
        draws = np.arange(place * self.size, (place + 1) * self.size)
        rows = permutation(draws, len(self.lines), self.seed + epoch)
        group = np.unique(self.lines[rows], return_inverse=True)[1]
        vectors = {s: np.asarray(v[rows], "float32") for s, v in self.sides.items()}
        return (vectors | {"group": group.astype("int32")},)
