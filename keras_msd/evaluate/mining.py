"""Mining: pairs of translations among two lists of sentences, by margin scores."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.evaluate.nearest import top_k
from keras_msd.evaluate.vectors import (
    DECIMALS,
    SentenceEncoder,
    encoded,
    percent,
)

MARGINS = ("ratio", "distance", "absolute")
NEIGHBOURS = 4


class MinedPair(NamedTuple):
    """A pair that was found: its margin score and its rows in both lists."""

    score: float
    source_row: int
    target_row: int


def mine(
    encoder: SentenceEncoder,
    sources: Sequence[str],
    targets: Sequence[str],
    margin: str = "ratio",
    k: int = NEIGHBOURS,
    threshold: float | None = None,
    engine: str = "numpy",
) -> list[MinedPair]:
    """Find pairs of sentences that translate each other, best first.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence once.
        sources: One or more sentences. Every row counts: copies of a sentence are
            neighbours of their own, so leave them out where that is not wanted.
        targets: One or more sentences, in another language.
        margin: With a the cosine of a pair and b the mean of two means, that over the
            `k` nearest targets of its source and that over the `k` nearest sources of
            its target: "ratio" a / b, "distance" a - b, or "absolute" a.
        k: Nearest neighbours in each direction; all if there are fewer.
        threshold: Keep pairs of this score or a higher one; all if None.
        engine: Of the exact search: "numpy" or "faiss".

    Returns:
        `MinedPair(score, source_row, target_row)`. From each row in either direction
        comes the best of its `k` neighbours; of these pairs the best is taken, then
        the best of those that have neither of its rows, and so on. Scores are rounded
        to ten decimals; of equal ones the lower source row comes first, then the lower
        target row. A ratio is 0 where b is not above 0.

    Raises:
        InputError: A list is empty, `margin` or `engine` is not known, `k` is below 1,
            or the vectors are not finite.

    Source: Artetxe and Schwenk 2019, "Margin-based Parallel Corpus Mining with
    Multilingual Sentence Embeddings", equations 1 and 2; all three margins; candidates
    of both directions, taken by falling score ("max").
    """
    sources, targets = checks.sentences(sources), checks.sentences(targets)
    checks.at_least(1, sources=len(sources), targets=len(targets))
    _check(margin, k)
    row = {text: row for row, text in enumerate(dict.fromkeys(sources + targets))}
    vectors = encoded(encoder, list(row))
    left, right = ([row[text] for text in texts] for texts in (sources, targets))
    return mine_vectors(vectors[left], vectors[right], margin, k, threshold, engine)


def mine_vectors(
    sources: np.ndarray,
    targets: np.ndarray,
    margin: str = "ratio",
    k: int = NEIGHBOURS,
    threshold: float | None = None,
    engine: str = "numpy",
) -> list[MinedPair]:
    """Do what `mine` does with vectors `(n, dim)` and `(m, dim)` of any length."""
    _check(margin, k)
    forward, forward_rows = top_k(sources, targets, k, engine)
    backward, backward_rows = top_k(targets, sources, k, engine)
    source_means, target_means = forward.mean(axis=1), backward.mean(axis=1)
    forward = _score(margin, forward, source_means, target_means[forward_rows])
    backward = _score(margin, backward, target_means, source_means[backward_rows])
    found = [
        *(MinedPair(*best) for best in _best_of_each(forward, forward_rows)),
        *(
            MinedPair(score, source, target)
            for score, target, source in _best_of_each(backward, backward_rows)
        ),
    ]
    found.sort(key=lambda pair: (-pair.score, pair.source_row, pair.target_row))
    kept, used_sources, used_targets = [], set(), set()
    for pair in found:
        if threshold is not None and pair.score < threshold:
            break
        if pair.source_row not in used_sources and pair.target_row not in used_targets:
            kept.append(pair)
            used_sources.add(pair.source_row)
            used_targets.add(pair.target_row)
    return kept


def mining(
    encoder: SentenceEncoder,
    sources: Sequence[str],
    targets: Sequence[str],
    gold: Iterable[tuple[int, int]],
    margin: str = "ratio",
    k: int = NEIGHBOURS,
    engine: str = "numpy",
) -> dict[str, Any]:
    """Mine, and score against known pairs at the threshold that is best for them.

    Args:
        encoder: As `mine` takes it, like `sources`, `targets`, `margin`, `k` and
            `engine`.
        sources: Sentences.
        targets: Sentences.
        gold: Pairs of a source row and a target row, one or more.
        margin: Kind of score.
        k: Nearest neighbours in each direction.
        engine: Of the exact search.

    Returns:
        As `best_f1`. The threshold is tuned on the pairs that it is scored on, so the
        score is an upper bound for any other set.

    Raises:
        InputError: As `mine`; `gold` is empty, or names a row that is not there.
    """
    sources, targets = checks.sentences(sources), checks.sentences(targets)
    gold = list(gold)
    for source, target in gold:
        if not (0 <= source < len(sources) and 0 <= target < len(targets)):
            raise InputError(
                "`gold` must hold pairs of a source row and a target row. Received: "
                f"{(source, target)} with {len(sources)} sources and {len(targets)} "
                "targets. Rows count from 0."
            )
    checks.at_least(1, gold=len(gold))
    return best_f1(mine(encoder, sources, targets, margin, k, None, engine), gold)


def best_f1(
    pairs: Sequence[MinedPair], gold: Iterable[tuple[int, int]]
) -> dict[str, Any]:
    """Return the best F1 that a threshold can give, and that threshold.

    Args:
        pairs: As `mine` returns them without a threshold: best first.
        gold: Known pairs of a source row and a target row; repeated ones count once.

    Returns:
        `{"f1", "precision", "recall", "threshold", "pairs", "gold", "primary": "f1"}`,
        the first three x100; `pairs` is how many have the threshold's score or a
        higher one. The threshold lies halfway to the next score. Pairs with
        the same score go together, so it gives this very F1 when it is applied; of
        equally good thresholds it is the highest. Where no pair is right, it is the
        lowest score, and without any pair 0.

    Source: the search of the BUCC shared task, as LASER runs it.
    """
    known = {(int(source), int(target)) for source, target in gold}
    if not pairs:
        return _scores(0, 0, known, 0.0)
    scores = np.array([pair.score for pair in pairs])
    right = np.cumsum([pair[1:] in known for pair in pairs])
    last = np.append(np.flatnonzero(scores[1:] < scores[:-1]), len(pairs) - 1)
    f1 = 2 * right[last] / (last + 1 + len(known))
    end = last[f1.argmax()] if f1.any() else last[-1]
    threshold = scores[end : end + 2].mean()
    return _scores(int(right[end]), int(end) + 1, known, float(threshold))


def f1_at(
    pairs: Sequence[MinedPair], gold: Iterable[tuple[int, int]], threshold: float
) -> dict[str, Any]:
    """Return what `best_f1` returns, for a threshold that was tuned elsewhere."""
    known = {(int(source), int(target)) for source, target in gold}
    kept = [pair for pair in pairs if pair.score >= threshold]
    return _scores(sum(pair[1:] in known for pair in kept), len(kept), known, threshold)


def _scores(
    right: int, pairs: int, gold: set[tuple[int, int]], threshold: float
) -> dict[str, Any]:
    return {
        "f1": percent(2 * right / max(pairs + len(gold), 1)),
        "precision": percent(right / max(pairs, 1)),
        "recall": percent(right / max(len(gold), 1)),
        "threshold": threshold,
        "pairs": pairs,
        "gold": len(gold),
        "primary": "f1",
    }


def _check(margin: str, k: int) -> None:
    checks.one_of(MARGINS, margin=margin)
    checks.at_least(1, k=k)


def _score(
    margin: str, cosines: np.ndarray, own: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Return scores `(n, k)` from cosines `(n, k)` and means `(n,)` and `(n, k)`."""
    if margin == "absolute":
        return cosines
    mean = (own[:, None] + other) / 2
    if margin == "distance":
        return np.round(cosines - mean, DECIMALS)
    ratio = np.divide(cosines, mean, out=np.zeros_like(cosines), where=mean > 0)
    return np.round(ratio, DECIMALS)


def _best_of_each(
    scores: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[float, int, int]]:
    """Return (score, own row, other row) of each row's best neighbour."""
    order = np.argsort(rows, axis=1)  # the first of equal maxima is the lowest row
    scores = np.take_along_axis(scores, order, axis=1)
    rows = np.take_along_axis(rows, order, axis=1)
    each, best = np.arange(len(scores)), scores.argmax(axis=1)
    return zip(
        scores[each, best].tolist(),
        each.tolist(),
        rows[each, best].tolist(),
        strict=True,
    )
