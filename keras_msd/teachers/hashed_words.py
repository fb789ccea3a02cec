"""A teacher without weights: sentences with the same words have the same vector."""

import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from keras_msd.files import digest
from keras_msd.models.unit_rows import unit_rows

SOURCE = "hashed-words"


class HashedWords:
    """Maps a sentence to the direction of the sum of its words' random vectors.

    For smoke runs and tests: no download, no time, and graded similarity. Case and
    punctuation do not count.

    Args:
        dim: Width of a vector.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.fingerprint = digest(SOURCE, str(dim))
        self._row = lru_cache(maxsize=100_000)(self._word)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return float32 `(n, dim)`, rows of length one; zeros without any word."""
        texts = list(texts)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                vectors[row] += self._row(word)
        return unit_rows(vectors)

    def _word(self, word: str) -> np.ndarray:
        seed = int(digest(SOURCE, word)[:16], 16)
        return np.random.default_rng(seed).standard_normal(self.dim, np.float32)
