"""Embedding tables by linear algebra: ridge regression and SVD."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least

BLOCK = 8_192  # sentences in a block of the Gram matrix
TILE = 16_384  # rows that LAPACK factorises at once; it crashes above 32,768


class BothSides:
    """Target vectors for `fit_ridge`: of all sources, then of all translations.

    Both sentences of a pair have the source's vector as target, so every vector occurs
    twice. Vectors are read when they are needed.

    Args:
        rows: Function of `start` and `stop` that returns the vectors of these source
            sentences, float32 `(stop - start, dim)`.
        count: Number of pairs.
        dim: Dimension of a vector.
    """

    def __init__(self, rows: Any, count: int, dim: int) -> None:
        self._rows, self._count = rows, count
        self.shape = (2 * count, dim)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(len(self))
        middle = self._count
        spans = (start, min(stop, middle)), (max(start - middle, 0), stop - middle)
        return np.concatenate([self._rows(a, b) for a, b in spans if a < b])


def fit_ridge(
    token_lists: Iterable[Sequence[int]],
    vectors: Any,
    vocabulary_size: int,
    ridge: float = 0.3,
) -> np.ndarray:
    """Fit token embeddings whose sums approximate the sentences' target vectors.

    Minimises `sum_i || (1 / sqrt(n_i)) sum_{k in tokens_i} W_k - v_i ||^2 + ridge
    ||W||^2` with the normal equations and a Cholesky factorisation. A token that never
    occurs gets a row of zeros.

    Args:
        token_lists: Token ids of each sentence, without special tokens.
        vectors: One target vector per sentence, float32 `(n, dim)`: an array, a memory
            map or a store, read in slices.
        vocabulary_size: Number of rows of the table.
        ridge: Weight of the penalty.

    Returns:
        The embedding table W, float32 `(vocabulary_size, dim)`.

    Raises:
        InputError: `ridge` is not positive, or the numbers of sentences and vectors
            differ.

    Source: Hoerl & Kennard 1970, with the loss of Reimers & Gurevych 2020, eq. 1.

    Example:
        >>> vectors = np.float32([[1, 0], [0, 1], [1, 1]])
        >>> table = msd.starts.fit_ridge([[0], [1], [0, 1]], vectors, 3, ridge=1e-3)
        >>> table.round(1)
        array([[1.1, 0.1],
               [0.1, 1.1],
               [0. , 0. ]], dtype=float32)
    """
    at_least(1e-9, ridge=ridge)
    gram = np.zeros((vocabulary_size, vocabulary_size), np.float32)
    right = np.zeros((vocabulary_size, vectors.shape[1]), np.float32)
    seen = 0
    for block in in_chunks(token_lists, BLOCK):
        goals = np.asarray(vectors[seen : seen + len(block)], np.float32)
        if len(goals) < len(block):
            raise _unequal(f"{len(vectors)} vectors and more token lists")
        counts = _counts(block, vocabulary_size)
        product = (counts.T @ counts).tocsr()  # no dense copy of the Gram matrix
        rows = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
        gram[rows, product.indices] += product.data
        right += counts.T @ goals
        seen += len(block)
    if seen != len(vectors):
        raise _unequal(f"{seen} token lists, {len(vectors)} vectors")
    gram[np.diag_indices_from(gram)] += ridge
    _solve(gram, right)
    return right


def _unequal(lengths: str) -> InputError:
    return InputError(
        f"`token_lists` and `vectors` must have the same length. Received: {lengths}."
    )


def _counts(block: list[Sequence[int]], vocabulary_size: int) -> Any:
    """Return a sparse matrix: token counts divided by the square root of the length."""
    from scipy import sparse

    lengths = np.array([len(tokens) for tokens in block])
    columns = np.concatenate([np.asarray(tokens, np.int64) for tokens in block])
    values = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix(
        (values.astype(np.float32), columns, bounds), (len(block), vocabulary_size)
    )


def _solve(gram: np.ndarray, right: np.ndarray) -> None:
    """Solve `gram @ x = right` in place by tiles of a Cholesky factorisation.

    Args:
        gram: `(n, n)`, positive definite; its lower half is overwritten by the factor.
        right: `(n, dim)`; is overwritten by `x`.
    """
    from scipy import linalg

    triangular = partial(linalg.solve_triangular, lower=True, check_finite=False)
    tiles = [slice(start, start + TILE) for start in range(0, len(gram), TILE)]
    for index, tile in enumerate(tiles):
        factor = linalg.cholesky(gram[tile, tile], lower=True, check_finite=False)
        gram[tile, tile] = factor
        right[tile] = triangular(factor, right[tile])
        for later in tiles[index + 1 :]:
            gram[later, tile] = triangular(factor, gram[later, tile].T).T
            right[later] -= gram[later, tile] @ right[tile]
            for other in tiles[index + 1 :]:
                if other.start <= later.start:
                    gram[later, other] -= gram[later, tile] @ gram[other, tile].T
    for index, tile in reversed([*enumerate(tiles)]):
        for later in tiles[index + 1 :]:
            right[tile] -= gram[later, tile].T @ right[later]
        right[tile] = triangular(gram[tile, tile], right[tile], trans=1)


def bottleneck(
    table: np.ndarray, bottleneck_dim: int, frequencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Factorise `table` into smaller token embeddings and a projection.

    The factors minimise `sum_k f_k ||table_k - word_k projection||^2`, where `f` is the
    square root of the frequencies plus one. So frequent tokens lose least, and rare
    tokens still count.

    Args:
        table: `(rows, dim)`.
        bottleneck_dim: Dimension B of the smaller embeddings, at most `dim`.
        frequencies: Count of each token, `(rows,)`.

    Returns:
        `word` float32 `(rows, B)`, and `projection` float32 `(B, dim)` with orthonormal
        rows.

    Source: Eckart & Young 1936, with weighted rows.

    Example:
        >>> table = np.float32([[1, 1, 0], [2, 2, 0], [0, 0, 3]])
        >>> word, projection = msd.starts.bottleneck(table, 2, np.array([5, 1, 2]))
        >>> word.shape, np.allclose(word @ projection, table, atol=1e-5)
        ((3, 2), True)
    """
    covariance = (table.T * row_weights(frequencies)) @ table.astype(np.float64)
    _, vectors = np.linalg.eigh(covariance)
    projection = vectors[:, ::-1][:, :bottleneck_dim].T.astype(np.float32)
    return (table @ projection.T).astype(np.float32), np.ascontiguousarray(projection)


def join_tables(
    table: np.ndarray,
    branch_table: np.ndarray,
    bottleneck_dim: int,
    frequencies: np.ndarray,
    branch_scale: float = 1.0,
) -> dict[str, np.ndarray]:
    """Factorise two tables of one vocabulary into one table and two projections.

    One projection is for the transformer layers, the other for the bag-of-words branch.

    Args:
        table: Input embeddings of the transformer layers, `(vocabulary_size,
            hidden_dim)`.
        branch_table: Embeddings of the branch, `(vocabulary_size, dim)`.
        bottleneck_dim: Dimension of the shared table.
        frequencies: Count of each token, `(vocabulary_size,)`.
        branch_scale: Norm of the branch's table relative to the other one. At 1 both
            count alike in the factorisation. Increase it for a small `bottleneck_dim`,
            because the transformer layers can adapt to a poorer input.

    Returns:
        Weights by path: the shared table, the projection of the embedding block and the
        projection of the branch.

    Example:
        >>> body, branch = np.eye(4, dtype="float32"), np.eye(4, 6, dtype="float32")
        >>> joined = msd.starts.join_tables(body, branch, 2, np.ones(4))
        >>> {path: values.shape for path, values in joined.items()}
        {'embedding/word': (4, 2), 'embedding/projection': (2, 4),
        'word_branch/projection': (2, 6)}
    """
    body, branch = (float(np.linalg.norm(part)) for part in (table, branch_table))
    scale = branch_scale * body / max(branch, 1e-12)
    joined = np.concatenate([table, scale * branch_table], axis=1)
    word, projection = bottleneck(joined, bottleneck_dim, frequencies)
    width = table.shape[1]
    return {
        "embedding/word": word,
        "embedding/projection": np.ascontiguousarray(projection[:, :width]),
        "word_branch/projection": np.ascontiguousarray(projection[:, width:]) / scale,
    }


def word_rows(weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return projected token embeddings, `(vocabulary_size, hidden_dim)`."""
    rows = weights["embedding/word"]
    if "embedding/projection" in weights:
        rows = rows @ weights["embedding/projection"]
    return rows


def mean_rows(table: np.ndarray, token_lists: Iterable[Sequence[int]]) -> np.ndarray:
    """Return the mean of each sentence's token embeddings, `(n, dim)`."""
    return np.stack([table[np.asarray(ids)].mean(axis=0) for ids in token_lists])


def row_weights(frequencies: np.ndarray) -> np.ndarray:
    """Return a positive weight per row that grows with its frequency."""
    return np.sqrt(frequencies.astype(np.float64) + 1.0)


def token_frequencies(
    token_lists: Iterable[Sequence[int]], vocabulary_size: int
) -> np.ndarray:
    """Count the occurrences of each token id: int64 `(vocabulary_size,)`.

    Example:
        >>> msd.starts.token_frequencies([[0, 2, 2], [2]], vocabulary_size=4)
        array([1, 0, 3, 0])
    """
    counts = np.zeros(vocabulary_size, np.int64)
    for tokens in token_lists:
        np.add.at(counts, np.asarray(tokens, np.int64), 1)
    return counts
