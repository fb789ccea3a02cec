"""Cosine similarity of every row with every row."""

from typing import Any

from keras import ops

from keras_msd.layers.l2_normalize import l2_normalize


def cosine_matrix(rows: Any, columns: Any) -> Any:
    """Return `cos(rows[i], columns[j])` at `[i, j]`; 0 where either is a zero vector.

    Shapes: `rows` `(n, d)`, `columns` `(m, d)`; returns `(n, m)`.
    """
    columns = ops.transpose(l2_normalize(columns))
    return ops.matmul(l2_normalize(rows), columns)
