"""A word table by ridge regression: each piece gets the row that explains its texts."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from keras_msd.checks import InputError, at_least


class Rows(Protocol):
    """Goal vectors that are read in slices: an array, a memory map, a store."""

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, dim)`."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> np.ndarray: ...


BLOCK = 8_192  # sentences in a block of the Gram matrix


def fit_ridge(
    token_lists: Iterable[Sequence[int]],
    vectors: Rows,
    vocabulary_size: int,
    ridge: float = 0.3,
) -> np.ndarray:
    """Fit a table whose rows, added up, give a sentence's vector.

    Minimises `sum_i || (1 / sqrt(n_i)) sum_{k in tokens_i} W_k - v_i ||^2 + ridge
    ||W||^2` by the normal equations and a Cholesky factorisation. A piece that never
    occurs gets a zero row.

    Args:
        token_lists: Token ids of each sentence, special tokens left out.
        vectors: `(n, dim)` float32, one goal per sentence; read in slices.
        vocabulary_size: Rows of the table.
        ridge: Weight of the penalty.

    Returns:
        float32 `(vocabulary_size, dim)`.

    Raises:
        InputError: `ridge` is not positive, or the counts differ.

    Source: Hoerl & Kennard 1970, on the goal of Reimers & Gurevych 2020, eq. 1.
    """
    from scipy import linalg

    at_least(1e-9, ridge=ridge)
    gram = np.zeros((vocabulary_size, vocabulary_size), np.float32)
    right = np.zeros((vocabulary_size, vectors.shape[1]), np.float32)
    seen = 0
    for block in _blocks(token_lists):
        goals = np.asarray(vectors[seen : seen + len(block)], np.float32)
        if len(goals) < len(block):
            raise InputError(
                "`token_lists` and `vectors` must be as long as each other. Received: "
                f"{len(vectors)} vectors and more token lists."
            )
        counts = _counts(block, vocabulary_size)
        _add_products(gram, counts)
        right += counts.T @ goals
        seen += len(block)
    if seen != len(vectors):
        raise InputError(
            "`token_lists` and `vectors` must be as long as each other. Received: "
            f"{seen} token lists, {len(vectors)} vectors."
        )
    used = np.flatnonzero(gram.diagonal())
    if len(used) < vocabulary_size:
        gram, right = gram[np.ix_(used, used)], right[used]
    gram[np.diag_indices_from(gram)] += ridge
    factor = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    table = np.zeros((vocabulary_size, vectors.shape[1]), np.float32)
    table[used] = linalg.cho_solve(factor, right, check_finite=False)
    return table


def _blocks(token_lists: Iterable[Sequence[int]]) -> Iterable[list[Sequence[int]]]:
    block: list[Sequence[int]] = []
    for tokens in token_lists:
        block.append(tokens)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _counts(block: list[Sequence[int]], vocabulary_size: int) -> Any:
    """Return the sparse matrix of piece counts over the root of the length."""
    from scipy import sparse

    lengths = np.array([len(tokens) for tokens in block])
    columns = np.concatenate([np.asarray(tokens, np.int64) for tokens in block])
    values = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix(
        (values.astype(np.float32), columns, bounds), (len(block), vocabulary_size)
    )


def _add_products(gram: np.ndarray, counts: Any) -> None:
    """Add `counts.T @ counts` to `gram` without a dense copy of it."""
    product = (counts.T @ counts).tocsr()
    rows = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
    gram[rows, product.indices] += product.data
