"""Dimension reduction: a dense layer for teachers, a rotation for prefixes."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.arrays import unit_rows
from keras_msd.checks import InputError, above, at_least
from keras_msd.data.order import permutation
from keras_msd.losses.matryoshka import Matryoshka
from keras_msd.losses.similarities import (
    AdditiveMarginSoftmax,
    MultilingualContrastive,
    SimilarityDistribution,
)
from keras_msd.training.optimizer import make_optimizer

SIDES = ("source", "target")
RANK = 1e-6  # eigenvalues below this share of the largest are of no direction in use


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
    """Fit a dense layer to `dim` dimensions that keeps translations together.

    The teacher is frozen: only its vectors are read. The layer is linear, without a
    bias, starts at random and is trained with `AdditiveMarginSoftmax`; the paper does
    not name the loss. Only the directions of `vectors @ matrix` are fitted.

    Args:
        source: The teacher's vectors of the source side, `(n, width)`; an array or
            memory map, read a batch at a time.
        target: Those of the translations, `(n, width)`.
        dim: Numbers that are left, from 1 to `width`.
        group: int `(n,)`, equal where the source line is the same, so that such rows
            are not negatives of each other; None where every line occurs once.
        steps: Updates.
        batch_size: Pairs in a batch, at most n.
        learning_rate: At the start; it falls to 0.
        margin: See `AdditiveMarginSoftmax`.
        scale: See `AdditiveMarginSoftmax`.
        seed: Decides the first matrix and the order of pairs.

    Returns:
        float32 `(width, dim)`.

    Raises:
        InputError: A number is out of its range, or the arrays do not belong together.

    Source: Mao & Nakagawa 2023, section 3.2 and figure 1.

    Example:
        >>> rows = np.eye(8, 6, dtype="float32")
        >>> msd.starts.reduce_dimensions(rows, rows, 2, steps=2, batch_size=4).shape
        (6, 2)
    """
    at_least(1, dim=dim, steps=steps, batch_size=batch_size)
    lines = _lines(source, target, group, dim, batch_size)
    width = np.shape(source)[1]
    model = _Reduction(width, dim, AdditiveMarginSoftmax(margin, scale), seed)
    _train(
        model, _Batches((source, target), lines, steps, batch_size, seed), learning_rate
    )
    return ops.convert_to_numpy(model.kernel)


def order_dimensions(
    source: np.ndarray,
    target: np.ndarray,
    dims: Sequence[int] = (32, 64, 128, 256),
    group: Any = None,
    steps: int = 400,
    batch_size: int = 1024,
    learning_rate: float = 3e-3,
    temperature: float = 0.05,
    seed: int = 0,
) -> np.ndarray:
    """Find the rotation that moves most information into the leading dimensions.

    For an encoder that was trained without `matryoshka_dims`. The matrix is orthogonal:
    cosines of whole vectors, and all that is made of them, stay what they are, while
    `encode(truncate_dim=m)` gives better vectors. It begins as PCA, the eigenvectors of
    `sum v v'`, and goes on as `(I + S)^-1 (I - S)` of a skew-symmetric S (Cayley),
    trained with two losses of each prefix: `MultilingualContrastive("softmax")` and
    `SimilarityDistribution`, both with the whole source vectors as guides. Directions
    that no vector has come last, so that vectors of rank r lose nothing in r numbers.
    `models.merge_projection` makes the matrix part of an encoder.

    Args:
        source: The encoder's own vectors of one side of training pairs, `(n, width)`.
        target: Those of the translations, `(n, width)`.
        dims: Widths m of the prefixes, each from 1 to `width`.
        group: int `(n,)`, equal where the source line is the same, so that such rows
            are never in one another's way; None where every line occurs once.
        steps: Updates.
        batch_size: Pairs in a batch, at most n.
        learning_rate: At the start; it falls to 0.
        temperature: Of both losses.
        seed: Decides the order of pairs.

    Returns:
        float32 `(width, width)`; new vectors are `vectors @ matrix`.

    Raises:
        InputError: A number is out of its range, or the arrays do not belong together.

    Source: ours; the losses of prefixes after Kusupati et al. 2022.

    Example:
        >>> rows = np.eye(8, 6, dtype="float32")
        >>> turned = msd.starts.order_dimensions(rows, rows, [2], steps=2, batch_size=4)
        >>> bool(np.allclose(turned @ turned.T, np.eye(6), atol=1e-6))
        True
    """
    at_least(1, steps=steps, batch_size=batch_size)
    above(0, temperature=temperature)
    lines = _lines(source, target, group, max(dims, default=1), batch_size)
    sides = [unit_rows(np.asarray(side, np.float32)) for side in (source, target)]
    moments = sum(side.T @ side for side in sides).astype(np.float64)
    sizes, directions = np.linalg.eigh(moments)
    sizes, start = sizes[::-1], directions[:, ::-1]
    rank = int(np.count_nonzero(sizes > RANK * sizes[0]))
    kept = [side @ start[:, :rank].astype(np.float32) for side in sides]
    # A prefix that is as wide as the rank is the whole vector, which no rotation moves.
    widths = [width for width in dims if width < rank]
    ranking = MultilingualContrastive("softmax", temperature)
    losses = ranking, SimilarityDistribution(temperature)
    model = _Rotation(rank, [Matryoshka(loss, widths or [rank]) for loss in losses])
    _train(model, _Batches(kept, lines, steps, batch_size, seed), learning_rate)
    skew = ops.convert_to_numpy(model.skew).astype(np.float64)
    skew, unit = (skew - skew.T) / 2, np.eye(rank)
    turned = start[:, :rank] @ np.linalg.solve(unit + skew, unit - skew)
    return np.hstack([turned, start[:, rank:]]).astype(np.float32)


def _lines(
    source: Any, target: Any, group: Any, dim: int, batch_size: int
) -> np.ndarray:
    """Return numbers of the source lines, after a check that the arrays fit."""
    shape = np.shape(source)
    lines = np.arange(shape[0]) if group is None else np.asarray(group)
    if len(shape) != 2 or np.shape(target) != shape or lines.shape != shape[:1]:
        raise InputError(
            "`source` and `target` must be (n, width), and `group` (n,). Received: "
            f"{shape}, {np.shape(target)}, {lines.shape}."
        )
    if dim > shape[1] or batch_size > shape[0]:
        raise InputError(
            "`dim` must be at most the width of the vectors and `batch_size` at most "
            f"their number. Received: dim={dim}, batch_size={batch_size}, vectors "
            f"{shape}."
        )
    return lines


def _train(model: keras.Model, batches: "_Batches", learning_rate: float) -> None:
    optimizer = make_optimizer(learning_rate, batches.steps, warmup=0, weight_decay=0)
    model.compile(optimizer, jit_compile=False)
    model.fit(batches, shuffle=False, verbose=0)


class _Reduction(keras.Model):
    def __init__(self, width: int, dim: int, loss: Any, seed: int) -> None:
        # The class's own name begins with a sign that no scope may begin with.
        super().__init__(name="reduction")
        start = keras.initializers.GlorotUniform(seed=seed)
        self.kernel = self.add_weight(shape=(width, dim), initializer=start)
        self.ranking = loss
        self.built = True

    def call(self, x: Any) -> tuple[Any, Any]:
        source, target = (ops.matmul(x[side], self.kernel) for side in SIDES)
        return source, target

    def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
        return self.ranking(x["group"], y_pred)


class _Rotation(keras.Model):
    def __init__(self, dim: int, losses: Sequence[Any]) -> None:
        super().__init__(name="rotation")
        self.skew = self.add_weight(shape=(dim, dim), initializer="zeros")
        self.terms, self.dim = losses, dim
        self.built = True

    def call(self, x: Any) -> tuple[Any, Any]:
        skew, unit = (self.skew - ops.transpose(self.skew)) / 2, ops.eye(self.dim)
        matrix = ops.solve(unit + skew, unit - skew)
        source, target = (ops.matmul(x[side], matrix) for side in SIDES)
        return source, target

    def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
        ranking, others = self.terms
        guide = x["source"]
        return ranking((guide, x["group"]), y_pred) + others(guide, y_pred)


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
