"""Bitext mining by margin scores: of two lists of sentences, and of BUCC 2018."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH, language_pair
from keras_msd.evaluate.nearest import top_k
from keras_msd.evaluate.set_files import check_parts, find_parts, read_table
from keras_msd.evaluate.vectors import (
    DECIMALS,
    SentenceEncoder,
    encoded,
    over_tracks,
    percent,
)

MARGINS = ("ratio", "distance", "absolute")
NEIGHBOURS = 4
# Splits of BUCC 2018, and how its files call them.
SPLITS = {"sample": "sample", "train": "training", "test": "test"}
MEANS, SUMS = ("f1", "precision", "recall"), ("pairs", "gold")


class MinedPair(NamedTuple):
    """A mined pair: its margin score and its row in each list.

    Example:
        >>> pair = msd.evaluate.MinedPair(1.25, source_row=3, target_row=7)
        >>> pair.score, pair.source_row, pair.target_row
        (1.25, 3, 7)
    """

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

    Returns:
        `MinedPair(score, source_row, target_row)`. From each row in either direction
        comes the best of its `k` neighbours; of these pairs the best is taken, then
        the best of those that have neither of its rows, and so on. Scores are rounded
        to ten decimals; of equal ones the lower source row comes first, then the lower
        target row. A ratio is 0 where b is not above 0.

    Raises:
        InputError: A list is empty, `margin` is not known, `k` is below 1,
            or the vectors are not finite.

    Source: Artetxe and Schwenk 2019, "Margin-based Parallel Corpus Mining with
    Multilingual Sentence Embeddings", equations 1 and 2; all three margins; candidates
    of both directions, taken by falling score ("max").

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> sources, targets = ["Radio", "Tee"], ["It rains.", "Radio"]
        >>> best, *_ = msd.evaluate.mine(encoder, sources, targets, margin="absolute")
        >>> best
        MinedPair(score=1.0, source_row=0, target_row=1)
    """
    sources, targets = checks.sentences(sources), checks.sentences(targets)
    checks.at_least(1, sources=len(sources), targets=len(targets))
    _check(margin, k)
    row = {text: row for row, text in enumerate(dict.fromkeys(sources + targets))}
    vectors = encoded(encoder, list(row))
    left, right = ([row[text] for text in texts] for texts in (sources, targets))
    return mine_vectors(vectors[left], vectors[right], margin, k, threshold)


def mine_vectors(
    sources: np.ndarray,
    targets: np.ndarray,
    margin: str = "ratio",
    k: int = NEIGHBOURS,
    threshold: float | None = None,
) -> list[MinedPair]:
    """Mine like `mine`, from embeddings `(n, dim)` and `(m, dim)`."""
    _check(margin, k)
    forward, forward_rows = top_k(sources, targets, k)
    backward, backward_rows = top_k(targets, sources, k)
    source_means, target_means = forward.mean(axis=1), backward.mean(axis=1)
    forward = _score(margin, forward, source_means, target_means[forward_rows])
    backward = _score(margin, backward, target_means, source_means[backward_rows])
    candidates = [
        *itertools.starmap(MinedPair, _best_of_each(forward, forward_rows)),
        *(
            MinedPair(score, source, target)
            for score, target, source in _best_of_each(backward, backward_rows)
        ),
    ]
    candidates.sort(key=lambda pair: (-pair.score, pair.source_row, pair.target_row))
    kept, used_sources, used_targets = [], set(), set()
    for pair in candidates:
        if threshold is not None and pair.score < threshold:
            break
        if pair.source_row not in used_sources and pair.target_row not in used_targets:
            kept.append(pair)
            used_sources.add(pair.source_row)
            used_targets.add(pair.target_row)
    return kept


def mine_paraphrases(
    encoder: SentenceEncoder,
    sentences: Sequence[str],
    k: int = NEIGHBOURS,
    threshold: float | None = None,
) -> list[MinedPair]:
    """Find pairs of sentences in one list that mean the same, best first.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        sentences: Two or more sentences.
        k: Nearest neighbours of each sentence that are looked at.
        threshold: Keep pairs of this cosine or a higher one; all if None.

    Returns:
        `MinedPair(cosine, row, higher row)`, each pair once. A sentence may be in
        several. Of equal cosines the lower rows come first.

    Raises:
        InputError: There are fewer than two sentences, `k` is below 1, or the vectors
            are not finite.

    Source: `paraphrase_mining` of sentence-transformers.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> sentences = ["Radio", "It rains.", "Radio"]
        >>> msd.evaluate.mine_paraphrases(encoder, sentences)[0]
        MinedPair(score=1.0, source_row=0, target_row=2)
    """
    sentences = checks.sentences(sentences, "sentences")
    checks.at_least(2, sentences=len(sentences))
    checks.at_least(1, k=k)
    vectors = encoded(encoder, sentences)
    found = {}
    # One more neighbour, as a sentence is its own.
    for row, nearest in enumerate(zip(*top_k(vectors, vectors, k + 1), strict=True)):
        others = [pair for pair in zip(*nearest, strict=True) if pair[1] != row][:k]
        for cosine, other in others:
            found[min(row, other), max(row, other)] = float(cosine)
    pairs = (MinedPair(cosine, *map(int, rows)) for rows, cosine in found.items())
    kept = [pair for pair in pairs if threshold is None or pair.score >= threshold]
    return sorted(kept, key=lambda it: (-it.score, it.source_row, it.target_row))


def best_f1(
    pairs: Sequence[MinedPair], gold: Iterable[tuple[int, int]]
) -> dict[str, Any]:
    """Return the best F1 over all thresholds, and its threshold.

    Args:
        pairs: As `mine` returns them without a threshold: best first. The threshold is
            tuned on the pairs that it is scored on, so the score is an upper bound for
            any other set.
        gold: Known pairs of a source row and a target row; repeated ones count once.

    Returns:
        `{"f1", "precision", "recall", "threshold", "pairs", "gold", "primary": "f1"}`,
        the first three x100; `pairs` is how many have the threshold's score or a
        higher one. The threshold lies halfway to the next score. Pairs with
        the same score go together, so it gives this very F1 when it is applied; of
        equally good thresholds it is the highest. Where no pair is right, it is the
        lowest score, and without any pair 0.

    Source: the search of the BUCC shared task, as LASER runs it.

    Example:
        >>> mined = [msd.evaluate.MinedPair(1.2, 0, 0)]
        >>> mined.append(msd.evaluate.MinedPair(1.1, 1, 2))
        >>> msd.evaluate.best_f1(mined, [(0, 0), (1, 1)])["precision"]
        100.0
    """
    known = {(int(source), int(target)) for source, target in gold}
    if not pairs:
        return _scores(0, 0, known, 0.0)
    thresholds, right, kept = cuts(
        np.array([pair.score for pair in pairs]), [pair[1:] in known for pair in pairs]
    )
    f1 = 2 * right / (kept + len(known))
    best = f1.argmax() if f1.any() else -1
    return _scores(int(right[best]), int(kept[best]), known, float(thresholds[best]))


def cuts(
    scores: np.ndarray, right: Sequence[bool] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every useful threshold, `(m,)` descending, and how many pairs it keeps.

    Args:
        scores: `(n,)`, falling, one or more. Equal ones are kept together.
        right: Whether each pair is a true one.

    Returns:
        Thresholds, each halfway to the next score; how many of the pairs kept are true;
        how many are kept.
    """
    last = np.append(np.flatnonzero(scores[1:] < scores[:-1]), len(scores) - 1)
    thresholds = (scores[last] + np.append(scores, scores[-1])[last + 1]) / 2
    return thresholds, np.cumsum(right)[last], last + 1


def f1_at(
    pairs: Sequence[MinedPair], gold: Iterable[tuple[int, int]], threshold: float
) -> dict[str, Any]:
    """Return F1 at a threshold that was tuned on other data."""
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
    margin: str, cosines: np.ndarray, means: np.ndarray, other_means: np.ndarray
) -> np.ndarray:
    """Return scores `(n, k)` from cosines `(n, k)` and means `(n,)` and `(n, k)`."""
    if margin == "absolute":
        return cosines
    mean = (means[:, None] + other_means) / 2
    if margin == "distance":
        return np.round(cosines - mean, DECIMALS)
    ratio = np.divide(cosines, mean, out=np.zeros_like(cosines), where=mean > 0)
    return np.round(ratio, DECIMALS)


def _best_of_each(
    scores: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[float, int, int]]:
    """Return (score, own row, other row) of each row's best neighbour."""
    highest = scores.max(axis=1)
    beyond = np.iinfo(rows.dtype).max  # of equal maxima the lowest row counts
    lowest = np.where(scores == highest[:, None], rows, beyond).min(axis=1)
    return zip(highest.tolist(), range(len(rows)), lowest.tolist(), strict=True)


class BuccPart(NamedTuple):
    """One split of one language: sentences of it and of English, and known pairs."""

    sources: list[str]
    targets: list[str]
    gold: list[tuple[int, int]]


def score_bucc(
    encoder: SentenceEncoder,
    folder: Path,
    languages: list[str],
    split: str = "train",
    tuned_on: str = "train",
    margin: str = "ratio",
    k: int = NEIGHBOURS,
) -> dict[str, Any]:
    """Mine each language of BUCC 2018 against English or another one.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        folder: Holds, at any depth, `<xx>-en.<part>.<xx>`, `.en` and `.gold`, with
            `training` for the split "train".
        languages: Codes beside English, such as `de`; of files `<xx>-<yy>` both.
        split: Split that is scored: "sample", "train" or "test". The one that sets the
            threshold gives the best F1 that any threshold can give, as the shared
            task's training scores are reported; another one shows what is to be
            expected of new text.
        tuned_on: Split whose best F1 sets the threshold.
        margin: As `mine` takes it, like `k`.
        k: Nearest neighbours in each direction.

    Returns:
        `{"f1", "precision", "recall"}` x100, means over languages; `pairs` and `gold`,
        sums; `tracks` and `thresholds`: F1 and threshold by `de-en`; `tuned_on`,
        `reported_on`, `margin`, `k`, and `primary`: "f1". No sentence is left out, nor
        any copy of one.

    Raises:
        InputError: A file is missing or broken, a language is missing, or an argument
            is not known.

    Source: Zweigenbaum et al. 2018 (the set); Artetxe and Schwenk 2019 (margins).
    """
    checks.one_of(SPLITS, tuned_on=tuned_on, split=split)
    parts = {
        "-".join(_sides(code)): {
            name: read_bucc(folder, code, name)
            for name in dict.fromkeys([tuned_on, split])
        }
        for code in dict.fromkeys(languages)
    }
    if not parts:
        raise InputError("Give at least one language. Received: none.")
    single = {}
    for name, splits in parts.items():
        mined = {
            of: mine(encoder, part.sources, part.targets, margin, k)
            for of, part in splits.items()
        }
        score = best_f1(mined[tuned_on], splits[tuned_on].gold)
        if split != tuned_on:
            score = f1_at(mined[split], splits[split].gold, score["threshold"])
        single[name] = score
    return over_tracks(single, MEANS, SUMS) | {
        "thresholds": {name: score["threshold"] for name, score in single.items()},
        "tuned_on": tuned_on,
        "reported_on": split,
        "margin": margin,
        "k": k,
    }


def read_bucc(folder: str | Path, language: str, split: str = "train") -> BuccPart:
    """Read one split of one language; errors as of `score_bucc`."""
    sources, targets, gold = _files(folder, language, split)
    left, right = _sentences(sources), _sentences(targets)
    rows = [{name: row for row, name in enumerate(side)} for side in (left, right)]
    pairs = []
    for where, fields in read_table(gold, 2):
        for side, name, file in zip(rows, fields, (sources, targets), strict=True):
            if name not in side:
                raise InputError(
                    f"{where}: the sentence must be in `{file.name}`. "
                    f"Received: {name!r:.40}. Take all three files from one release."
                )
        pairs.append((rows[0][fields[0]], rows[1][fields[1]]))
    return BuccPart(list(left.values()), list(right.values()), pairs)


def bucc_files(folder: Path, languages: list[str], split: str) -> list[Path]:
    """Return the files that `score_bucc` reads; raise `InputError` for missing ones."""
    splits = dict.fromkeys(["train", split])
    return [
        path
        for code in languages
        for part in splits
        for path in _files(folder, code, part)
    ]


def _files(folder: str | Path, language: str, split: str) -> list[Path]:
    """Return the files of both languages and of the gold standard."""
    sides = _sides(language)
    start = f"{'-'.join(sides)}.{SPLITS[split]}"
    names = [f"{start}.{ending}" for ending in (*sides, "gold")]
    what = (
        f"BUCC 2018. Unpack bucc2018-{start}-gold.tar.bz2 there, from "
        "https://comparable.limsi.fr/bucc2018/bucc2018-task.html, or add by hand what "
        "it lacks: gold standards of `test`, pairs without English."
    )
    files = check_parts(find_parts(folder, BUCC), names, what, folder)
    return [file.path for file in files.values()]


def _sides(code: str) -> tuple[str, str]:
    """Return the languages in the names of files, where English comes second."""
    source, target = language_pair(code)
    return (target, source) if source == ENGLISH else (source, target)


def _sentences(path: Path) -> dict[str, str]:
    """Return the sentences by name, in the order of the file."""
    sentences: dict[str, str] = {}
    for where, (name, text) in read_table(path, 2):
        if name in sentences:
            raise InputError(
                f"{where}: a name must occur once. Received: {name!r:.40} again. Take "
                "a whole copy of the file."
            )
        sentences[name] = text
    return sentences


BUCC = {r"(\w+-\w+\.(?:sample|training|test)\.\w+)": _sentences}
