"""A guide whose vectors go through a fixed matrix."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.files import digest
from keras_msd.models.unit_rows import unit_rows


class ReducedGuide:
    """A teacher with fewer numbers per vector: scored and imitated like any other.

    Args:
        guide: Has `encode(texts)`, `dim` and `fingerprint`.
        matrix: `(guide.dim, dim)`, as `starts.reduce_dimensions` returns it.

    Raises:
        InputError: The matrix does not fit the guide.
    """

    def __init__(self, guide: Any, matrix: np.ndarray) -> None:
        self.guide, self.matrix = guide, np.asarray(matrix, np.float32)
        if self.matrix.ndim != 2 or len(self.matrix) != guide.dim:
            raise InputError(
                "`matrix` must be (guide.dim, dim). Received: shape "
                f"{self.matrix.shape}, guide.dim={guide.dim}."
            )

    @property
    def dim(self) -> int:
        """Width of a sentence vector."""
        return self.matrix.shape[1]

    @property
    def fingerprint(self) -> str:
        """Hash of the guide and the matrix."""
        return digest(self.guide.fingerprint, self.matrix.tobytes())

    def encode(self, texts: Iterable[str], **options: Any) -> np.ndarray:
        """Return float32 `(n, dim)`, of length one; a zero vector stays zero.

        Args:
            texts: Sentences.
            **options: As the guide's `encode` takes them.
        """
        return unit_rows(self.guide.encode(texts, **options) @ self.matrix)
