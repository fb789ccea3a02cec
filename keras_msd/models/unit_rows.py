"""Vectors of length one, in NumPy."""

import numpy as np


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Scale the rows of `(n, dim)` to length one; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)
