"""How close an artefact's vectors are to those of the encoder it was made from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError

TIE = 1e-6  # neighbours whose cosines differ by less are equally near
SHOWN = 200  # characters of a sentence that a card has room for


class ExportError(InputError):
    """An artefact that is not what its encoder is, or larger than it should be."""


def row_cosines(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return the cosine of each row of `(n, dim)` with the same row of another.

    Equal rows have cosine 1, also where both are all zeros; a row that is not finite
    has minus infinity.

    Raises:
        ExportError: The shapes differ.
    """
    if ours.shape != theirs.shape:
        raise ExportError(
            f"The artefact must give vectors of shape {ours.shape}. Received: "
            f"{theirs.shape}. Nothing was kept."
        )
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    finite = np.isfinite(ours).all(axis=1) & np.isfinite(theirs).all(axis=1)
    left, right = ours[finite], theirs[finite]
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    own = np.einsum("nd,nd->n", left, right) / np.where(norms > 0, norms, 1)
    own[(left == right).all(axis=1)] = 1
    cosine = np.full(len(ours), -np.inf)
    cosine[finite] = own
    return cosine


def neighbours_kept(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the share of rows whose nearest other row is the same in both.

    Args:
        ours: Vectors of distinct sentences, `(n, dim)`, n at least 1.
        theirs: Other vectors of the same sentences.

    Returns:
        From 0 to 1. A neighbour whose cosine was the largest to within 1e-6 is as
        good. One row alone has no neighbour and keeps it.
    """
    if len(ours) < 2:
        return 1.0
    before, after = _similarities(ours), _similarities(theirs)
    nearest = after.argmax(axis=1)
    rows = np.arange(len(nearest))
    kept = before[rows, nearest] >= before.max(axis=1) - TIE
    return float(kept.mean())


def parity(
    texts: Sequence[str], ours: np.ndarray, theirs: np.ndarray
) -> dict[str, Any]:
    """Compare an artefact with its encoder, sentence by sentence.

    Args:
        texts: Distinct sentences, one or more.
        ours: The encoder's vectors, `(n, dim)`.
        theirs: The artefact's.

    Returns:
        `{"sentences", "min_cosine", "mean_cosine", "worst", "largest_difference",
        "neighbours_kept", "length_change"}`: `worst` is the start of the sentence of
        the smallest cosine, `largest_difference` that of two components,
        `length_change` the largest share by which a vector is longer or shorter.

    Raises:
        ExportError: The shapes differ, or the artefact gives NaN or infinity.
    """
    cosine = row_cosines(ours, theirs)
    worst = int(np.argmin(cosine))
    if not np.isfinite(cosine[worst]):
        raise ExportError(
            "The artefact must give finite vectors. Received: NaN or infinity for "
            f"{texts[worst]!r:.60}. Nothing was kept; store more bits."
        )
    return {
        "sentences": len(texts),
        "min_cosine": round(float(cosine[worst]), 8),
        "mean_cosine": round(float(cosine.mean()), 8),
        "worst": texts[worst][:SHOWN],
        "largest_difference": round(float(np.abs(ours - theirs).max()), 8),
        "neighbours_kept": round(neighbours_kept(ours, theirs), 4),
        "length_change": round(_length_change(ours, theirs), 6),
    }


def _length_change(ours: np.ndarray, theirs: np.ndarray) -> float:
    before, after = (np.linalg.norm(one, axis=1) for one in (ours, theirs))
    real = before > 0  # the cosine judges a vector of zeros
    return float(np.abs(after[real] / before[real] - 1).max(initial=0))


def _similarities(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.asarray(vectors, np.float64) / np.where(norms > 0, norms, 1)
    similarities = units @ units.T
    np.fill_diagonal(similarities, -np.inf)
    return similarities
