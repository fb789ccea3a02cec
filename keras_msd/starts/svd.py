"""A narrow word table from a wide one, by a frequency-weighted SVD."""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_msd.checks import InputError


def bottleneck(
    table: np.ndarray, bottleneck_dim: int, frequencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Factorise `table` into rows of width B and a projection.

    The pair minimises `sum_k f_k ||table_k - word_k projection||^2` with `f` the square
    roots of the frequencies plus one, so that frequent pieces lose least and none is
    given up.

    Args:
        table: `(rows, dim)`.
        bottleneck_dim: B, at most `dim`.
        frequencies: `(rows,)`, how often each piece occurs.

    Returns:
        `word` float32 `(rows, B)` and `projection` float32 `(B, dim)`, whose rows are
        orthonormal.

    Raises:
        InputError: B is larger than `dim`, or the lengths differ.

    Source: Eckart & Young 1936, with rows weighted.
    """
    rows, dim = table.shape
    if not 1 <= bottleneck_dim <= dim or frequencies.shape != (rows,):
        raise InputError(
            "`bottleneck_dim` must be between 1 and the table's width, and "
            f"`frequencies` one number per row. Received: {bottleneck_dim=}, table "
            f"{table.shape}, frequencies {frequencies.shape}."
        )
    weights = np.sqrt(frequencies.astype(np.float64) + 1.0)
    covariance = (table.T * weights) @ table.astype(np.float64)
    _, vectors = np.linalg.eigh(covariance)
    projection = vectors[:, ::-1][:, :bottleneck_dim].T.astype(np.float32)
    return (table @ projection.T).astype(np.float32), np.ascontiguousarray(projection)


def token_frequencies(
    token_lists: Iterable[Sequence[int]], vocabulary_size: int
) -> np.ndarray:
    """Count how often each id occurs: int64 `(vocabulary_size,)`."""
    counts = np.zeros(vocabulary_size, np.int64)
    for tokens in token_lists:
        np.add.at(counts, np.asarray(tokens, np.int64), 1)
    return counts
