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
    UnitVectors,
    cosines,
    percent,
)

PRECISION = 0.95


class Threshold(pydantic.BaseModel):
    """Result of `calibrate_threshold`, as stored in cards and indexes."""

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
    """Find the cosine above which two sentences of different languages mean the same.

    Each distinct sentence of either side asks for its translations on the other side.
    They are the true answers; the nearest sentence that is none of them is a wrong one.
    The threshold is the lowest at which `precision` of the answers with this cosine or
    a higher one are true. It lies halfway to the next lower cosine.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        pairs: Translations that it was not trained on, `(source, target, ...)`, one or
            more; a pair that occurs again counts once.
        precision: Share of true answers, above 0 and at most 1.
        name: What the set is called, for cards.

    Returns:
        `{"cosine", "precision", "recall", "pairs", "asked", "set"}`: the cosine, None
        where no threshold is as precise as asked; precision and recall x100 at it;
        how many distinct pairs there were; `precision` x100; `name`. More candidates
        have nearer wrong ones: it holds for collections of about this size.

    Raises:
        InputError: There is no pair, `precision` is out of range, or the vectors are
            not finite.

    Source: thresholds halfway between scores, as those of the BUCC shared task are
    tuned (Zweigenbaum et al. 2018), here for recall at a precision instead of F1.

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
    units = UnitVectors(encoder, checks.sentences(sources + targets))
    left, right = units(sources), units(targets)
    row = {text: row for row, text in enumerate(sources)}
    column = {text: row for row, text in enumerate(targets)}
    gold = np.array([(row[source], column[target]) for source, target in known])
    true = cosines(left[gold[:, 0]], right[gold[:, 1]])
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
            f"`threshold` must be what `calibrate_threshold` returns. {wrong}"
        ) from error


def _wrong(queries: np.ndarray, candidates: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Return the cosine of each query's nearest candidate that is no translation."""
    most = int(np.bincount(gold[:, 0]).max())
    near, rows = top_k(queries, candidates, most + 1)
    known = set(map(tuple, gold.tolist()))
    wrong = [
        next((c for c, row in zip(*of, strict=True) if (query, row) not in known), None)
        for query, of in enumerate(zip(near.tolist(), rows.tolist(), strict=True))
    ]
    # A sentence whose translations are all there is has no wrong answer.
    return np.array([cosine for cosine in wrong if cosine is not None])
