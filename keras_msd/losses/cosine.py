"""Cosine similarity of every row with every row."""

from typing import Any

from keras import ops

SMALLEST_SQUARE = 1e-24  # a norm of 1e-12; shorter rows count as zero vectors


def unit_rows(vectors: Any) -> Any:
    """Scale rows to length one; a zero row stays zero and gets no gradient.

    Shapes: `vectors` `(n, d)` in and out.
    """
    square = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    # The inner maximum keeps the branch not taken finite: `where` differentiates both.
    inverse = ops.rsqrt(ops.maximum(square, SMALLEST_SQUARE))
    return vectors * ops.where(square > SMALLEST_SQUARE, inverse, 0.0)


def cosine_matrix(rows: Any, columns: Any) -> Any:
    """Return `cos(rows[i], columns[j])` at `[i, j]`; 0 where either is a zero vector.

    Shapes: `rows` `(n, d)`, `columns` `(m, d)`; returns `(n, m)`.
    """
    return ops.matmul(unit_rows(rows), ops.transpose(unit_rows(columns)))
