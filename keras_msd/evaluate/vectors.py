"""Sentence vectors of length one, each distinct sentence encoded once."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from keras_msd.checks import InputError

DECIMALS = 10  # of a cosine: what differs only in the last bits is a tie


class SentenceEncoder(Protocol):
    """Anything that turns sentences into vectors."""

    def encode(self, texts: list[str], /) -> np.ndarray:
        """Return one vector a sentence: `(n, dim)`."""
        ...


def encoded(encoder: SentenceEncoder, sentences: list[str]) -> np.ndarray:
    """Return the vectors of `sentences`, `(n, dim)`, once they are checked.

    Raises:
        InputError: The vectors have a wrong shape, or hold NaN or infinity.
    """
    vectors = np.asarray(encoder.encode(sentences))
    if vectors.ndim != 2 or len(vectors) != len(sentences):
        raise InputError(
            "`encode` must return one vector a sentence. Received: shape "
            f"{vectors.shape} for {len(sentences)} sentences."
        )
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if broken.size:
        raise InputError(
            "Vectors must be finite. Received: NaN or infinity for "
            f"{broken.size} of {len(sentences)} sentences, the first "
            f"{sentences[broken[0]]!r:.60}. Train with a lower learning rate, or "
            "take an earlier stage's weights."
        )
    return vectors


class UnitVectors:
    """Vectors of length one for a set of sentences.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        sentences: The sentences; each distinct one is encoded once.

    Raises:
        InputError: The vectors have a wrong shape, or hold NaN or infinity.
    """

    def __init__(self, encoder: SentenceEncoder, sentences: Iterable[str]) -> None:
        distinct = list(dict.fromkeys(sentences))
        self._rows = {sentence: row for row, sentence in enumerate(distinct)}
        vectors = encoded(encoder, distinct).astype(np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        self._vectors = vectors / np.where(norms > 0, norms, 1.0)

    def __call__(self, sentences: Iterable[str]) -> np.ndarray:
        """Return float64 `(n, dim)`, rows of length one (a zero vector stays zero)."""
        return self._vectors[[self._rows[sentence] for sentence in sentences]]


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the cosine of each row pair `(n,)` of unit vectors `(n, dim)`."""
    return np.round(np.einsum("nd,nd->n", left, right), DECIMALS)


def cosine_matrix(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return all cosines `(n, m)` of unit vectors `(n, dim)` and `(m, dim)`."""
    return np.round(left @ right.T, DECIMALS)


def percent(share: float) -> float:
    """Return `share` x100, to four decimals."""
    return round(100 * float(share), 4)
