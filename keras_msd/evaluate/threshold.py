"""Calibrate the cosine above which two sentences count as translations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pydantic

from keras_msd import checks
from keras_msd.checks import InputError, at_least, findings
from keras_msd.evaluate.bitext import cuts
from keras_msd.evaluate.nearest import top_k
from keras_msd.evaluate.vectors import (
    SentenceEncoder,
    SentenceVectors,
    by_cosine,
    percent,
    similarities,
)

PRECISION = 0.95


class Threshold(pydantic.BaseModel):
    """Result of `calibrate_threshold`, as stored in cards."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    cosine: float | None
    precision: float | None
    recall: float | None
    pairs: int
    asked: float
    set: str | None


def calibrate_threshold(
    encoder: SentenceEncoder,
    pairs: Iterable[Sequence[str]],
    precision: float = PRECISION,
    name: str | None = None,
) -> dict[str, Any]:
    """Find the cosine above which two sentences in different languages mean the same.

    Each distinct sentence of both sides is a query for the other side. Its translations
    are the correct answers. The nearest other sentence is a wrong answer. The threshold
    is the lowest cosine at which a share of at least `precision` of the answers at or
    above it are correct. It is halfway to the next lower cosine.

    The threshold is valid for collections of about this size, because wrong answers are
    nearer in a larger collection.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        pairs: One or more translations that the encoder was not trained on, `(source,
            target, ...)`; duplicates count once.
        precision: Required share of correct answers, above 0 and at most 1.
        name: Name of the set, for cards.

    Returns:
        `{"cosine", "precision", "recall", "pairs", "asked", "set"}`. `cosine` is the
        threshold, None if no threshold is precise enough. `precision` and `recall` are
        x100, at the threshold. `pairs` is the number of distinct pairs, `asked` the
        required precision x100, `set` the name.

    Raises:
        InputError: There is no pair, `precision` is out of range, the vectors are not
            finite, or the encoder's are not compared by cosine.

    Source: thresholds halfway between scores as in the BUCC shared task (Zweigenbaum et
    al. 2018), but tuned for recall at a given precision instead of F1.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> pairs = [("Radio", "Radio"), ("It rains.", "It rains.")]
        >>> found = msd.evaluate.calibrate_threshold(encoder, pairs)
        >>> found["precision"], found["recall"], found["pairs"]
        (100.0, 100.0, 2)
    """
    if not 0 < precision <= 1:
        raise InputError(
            "`precision` must be above 0 and at most 1. Received: "
            f"precision={precision}."
        )
    known = list(dict.fromkeys((pair[0], pair[1]) for pair in pairs))
    sources = list(dict.fromkeys(source for source, _ in known))
    targets = list(dict.fromkeys(target for _, target in known))
    at_least(1, pairs=len(known))
    by_cosine(encoder, "`calibrate_threshold`")
    vectors = SentenceVectors(encoder.encode, checks.sentences(sources + targets))
    left, right = vectors(sources), vectors(targets)
    row = {text: row for row, text in enumerate(sources)}
    column = {text: row for row, text in enumerate(targets)}
    gold = np.array([(row[source], column[target]) for source, target in known])
    true = similarities(left[gold[:, 0]], right[gold[:, 1]])
    wrong = _wrong(left, right, gold)
    wrong_back = _wrong(right, left, gold[:, ::-1])
    scores = np.concatenate([true, true, wrong, wrong_back])
    is_true = np.arange(len(scores)) < 2 * len(true)
    order = np.argsort(-scores, kind="stable")
    thresholds, right_ones, kept = cuts(scores[order], is_true[order])
    found: dict[str, Any] = {"cosine": None, "precision": None, "recall": None}
    precise = np.flatnonzero(right_ones >= precision * kept)
    if precise.size:
        cut = precise[-1]
        found = {
            "cosine": float(thresholds[cut]),
            "precision": percent(right_ones[cut] / kept[cut]),
            "recall": percent(right_ones[cut] / (2 * len(true))),
        }
    return found | {"pairs": len(known), "asked": percent(precision), "set": name}


def checked(threshold: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a stored threshold; raise `InputError` if it is not a valid one."""
    if threshold is None:
        return None
    try:
        return Threshold.model_validate(dict(threshold)).model_dump()
    except pydantic.ValidationError as error:
        wrong = " ".join(findings(error, Threshold.model_fields))
        raise InputError(
            f"`threshold` must be a result of `calibrate_threshold`. {wrong}"
        ) from error


def _wrong(queries: np.ndarray, candidates: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Return the cosine of each query's nearest candidate that is not a translation."""
    most = int(np.bincount(gold[:, 0]).max())
    near, rows = top_k(queries, candidates, most + 1)
    known = set(map(tuple, gold.tolist()))
    wrong = [
        next((c for c, row in zip(*of, strict=True) if (query, row) not in known), None)
        for query, of in enumerate(zip(near.tolist(), rows.tolist(), strict=True))
    ]
    # If all candidates are translations of a sentence, it has no wrong answer.
    return np.array([cosine for cosine in wrong if cosine is not None])
