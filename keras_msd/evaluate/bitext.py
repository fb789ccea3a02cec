"""Bitext mining by margin scores, its evaluation on BUCC 2018, and thresholds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pydantic

from keras_msd import checks
from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least, findings
from keras_msd.data.pair import ENGLISH, language_pair
from keras_msd.data.readers.lines import tabbed
from keras_msd.evaluate.measures import (
    DECIMALS,
    SentenceEncoder,
    SentenceVectors,
    by_cosine,
    encoded,
    over_tracks,
    percent,
    similarities,
)
from keras_msd.evaluate.nearest import top_k
from keras_msd.evaluate.parts import SetFile, check_parts, find_parts, texts_by_id

MARGINS = ("ratio", "distance", "absolute")
NEIGHBOURS = 4
# Splits of BUCC 2018, and their names in its files.
SPLITS = {"sample": "sample", "train": "training", "test": "test"}
MEANS, SUMS = ("f1", "precision", "recall"), ("pairs", "gold")
PRECISE = 0.95


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
    """Find pairs of sentences that are translations of each other, best first.

    The score of a pair is computed from a, its cosine, and b, the mean cosine of its
    neighbours: the `k` targets nearest to the source and the `k` sources nearest to the
    target.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`. Each distinct sentence
            is encoded once.
        sources: One or more sentences. Remove duplicates first: every copy counts as a
            neighbour.
        targets: One or more sentences, in another language.
        margin: The score: "ratio" a / b, "distance" a - b, or "absolute" a.
        k: Nearest neighbours in each direction; all if there are fewer.
        threshold: Return only pairs with this score or a higher one; all if None.

    Returns:
        `MinedPair(score, source_row, target_row)`, the highest score first. The
        candidates are each row's best neighbour, in both directions. Each row is in at
        most one pair: a candidate is dropped if a better pair contains one of its rows.
        Scores are rounded to ten decimals. Pairs with equal scores are ordered by
        source row, then by target row. A ratio is 0 if b is not above 0.

    Raises:
        InputError: A list is empty, `margin` is unknown, `k` is below 1, the vectors
            are not finite, or the encoder's are not compared by cosine.

    Source: Artetxe and Schwenk 2019, "Margin-based Parallel Corpus Mining with
    Multilingual Sentence Embeddings", equations 1 and 2, all three margins, with the
    retrieval method "max".

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> sources, targets = ["Radio", "Tee"], ["It rains.", "Radio"]
        >>> best, *_ = msd.evaluate.mine(encoder, sources, targets, margin="absolute")
        >>> best
        MinedPair(score=1.0, source_row=0, target_row=1)
    """
    sources, targets = checks.sentences(sources), checks.sentences(targets)
    checks.at_least(1, sources=len(sources), targets=len(targets))
    checks.one_of(MARGINS, margin=margin)
    checks.at_least(1, k=k)
    by_cosine(encoder, "`mine`")
    row = {text: row for row, text in enumerate(dict.fromkeys(sources + targets))}
    vectors = encoded(encoder.encode, list(row))
    left, right = ([row[text] for text in texts] for texts in (sources, targets))
    return mine_vectors(vectors[left], vectors[right], margin, k, threshold)


def mine_vectors(
    sources: np.ndarray,
    targets: np.ndarray,
    margin: str = "ratio",
    k: int = NEIGHBOURS,
    threshold: float | None = None,
) -> list[MinedPair]:
    """Do the same as `mine`, from embeddings `(n, dim)` and `(m, dim)`."""
    forward, forward_rows = top_k(sources, targets, k)
    backward, backward_rows = top_k(targets, sources, k)
    source_means, target_means = forward.mean(axis=1), backward.mean(axis=1)
    forward = _score(margin, forward, source_means, target_means[forward_rows])
    backward = _score(margin, backward, target_means, source_means[backward_rows])
    candidates = [MinedPair(*it) for it in _best_of_each(forward, forward_rows)]
    candidates += (
        MinedPair(score, source, target)
        for score, target, source in _best_of_each(backward, backward_rows)
    )
    kept, used_sources, used_targets = [], set(), set()
    for pair in sorted(candidates, key=_best_first):
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
        k: Nearest neighbours to compare with each sentence.
        threshold: Return only pairs with this cosine or a higher one; all if None.

    Returns:
        `MinedPair(cosine, row, higher row)`, the highest cosine first, each pair once.
        A sentence may be in several pairs. Pairs with equal cosines are ordered by row.

    Raises:
        InputError: There are fewer than two sentences, `k` is below 1, the vectors are
            not finite, or the encoder's are not compared by cosine.

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
    by_cosine(encoder, "`mine_paraphrases`")
    vectors = encoded(encoder.encode, sentences)
    found = {}
    # One more neighbour, as a sentence is its own.
    for row, nearest in enumerate(zip(*top_k(vectors, vectors, k + 1), strict=True)):
        others = [pair for pair in zip(*nearest, strict=True) if pair[1] != row][:k]
        for cosine, other in others:
            found[min(row, other), max(row, other)] = float(cosine)
    pairs = (MinedPair(cosine, *map(int, rows)) for rows, cosine in found.items())
    kept = [pair for pair in pairs if threshold is None or pair.score >= threshold]
    return sorted(kept, key=_best_first)


def _best_first(pair: MinedPair) -> tuple[float, int, int]:
    return -pair.score, pair.source_row, pair.target_row


def best_f1(
    pairs: Sequence[MinedPair], gold: Iterable[tuple[int, int]]
) -> dict[str, Any]:
    """Return the best F1 over all thresholds, and its threshold.

    Args:
        pairs: Pairs from `mine` without a threshold, best first. The threshold is tuned
            on the pairs that it is scored on, so the score is optimistic for other
            text.
        gold: Correct pairs of a source row and a target row; repeated pairs count once.

    Returns:
        `{"f1", "precision", "recall", "threshold", "pairs", "gold", "primary": "f1"}`,
        the first three x100. `pairs` is the number of pairs at or above the threshold.
        The threshold is halfway between two scores, so applying it gives the same F1.
        If several thresholds are equally good, it is the highest. If no pair is
        correct, it is the lowest score; if there is no pair, it is 0.

    Source: the search of the BUCC shared task, as in LASER.

    Example:
        >>> mined = [msd.evaluate.MinedPair(1.2, 0, 0)]
        >>> mined.append(msd.evaluate.MinedPair(1.1, 1, 2))
        >>> msd.evaluate.best_f1(mined, [(0, 0), (1, 1)])["precision"]
        100.0
    """
    known = {(int(source), int(target)) for source, target in gold}
    if not pairs:
        return f1_at(pairs, known, 0.0)
    thresholds, right, kept = cuts(
        np.array([pair.score for pair in pairs]), [pair[1:] in known for pair in pairs]
    )
    f1 = 2 * right / (kept + len(known))
    best = f1.argmax() if f1.any() else -1
    return f1_at(pairs, known, float(thresholds[best]))


def cuts(
    scores: np.ndarray, right: Sequence[bool] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every useful threshold and how many pairs are at or above it.

    Args:
        scores: `(n,)`, in descending order, one or more.
        right: Whether each pair is correct.

    Returns:
        Thresholds `(m,)` in descending order, each halfway to the next score; the
        number of correct pairs at or above each; the number of all pairs at or above
        each.
    """
    last = np.append(np.flatnonzero(scores[1:] < scores[:-1]), len(scores) - 1)
    thresholds = (scores[last] + np.append(scores, scores[-1])[last + 1]) / 2
    return thresholds, np.cumsum(right)[last], last + 1


def f1_at(
    pairs: Sequence[MinedPair], gold: Iterable[tuple[int, int]], threshold: float
) -> dict[str, Any]:
    """Return F1 at a given threshold, with the keys of `best_f1`."""
    known = {(int(source), int(target)) for source, target in gold}
    kept = [pair for pair in pairs if pair.score >= threshold]
    right = sum(pair[1:] in known for pair in kept)
    return {
        "f1": percent(2 * right / max(len(kept) + len(known), 1)),
        "precision": percent(right / max(len(kept), 1)),
        "recall": percent(right / max(len(known), 1)),
        "threshold": threshold,
        "pairs": len(kept),
        "gold": len(known),
        "primary": "f1",
    }


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
    beyond = np.iinfo(rows.dtype).max  # if maxima are equal, the lowest row counts
    lowest = np.where(scores == highest[:, None], rows, beyond).min(axis=1)
    return zip(highest.tolist(), range(len(rows)), lowest.tolist(), strict=True)


class BuccPart(NamedTuple):
    """One split of one language: its sentences, the English ones, and gold pairs."""

    sources: list[str]
    targets: list[str]
    gold: list[tuple[int, int]]


def score_bucc(
    encoder: SentenceEncoder,
    languages: Mapping[str, Mapping[str, BuccPart]],
    margin: str = "ratio",
    k: int = NEIGHBOURS,
) -> dict[str, Any]:
    """Mine each language of BUCC 2018 against English or another language.

    All sentences are used, including duplicates.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        languages: For each language pair, such as `de-en`, its splits. The first one
            sets the threshold, at its best F1, and the last one is scored. If it has
            only one, the F1 is the best that any threshold can reach, as in the
            training scores of the shared task.
        margin: See `mine`.
        k: Nearest neighbours in each direction.

    Returns:
        `{"f1", "precision", "recall"}` x100, means over languages; `pairs` and `gold`,
        sums; `tracks` and `thresholds`: F1 and threshold by language pair; `margin`,
        `k`, and `primary`: "f1".

    Raises:
        InputError: There is no language, or an argument is unknown.

    Source: Zweigenbaum et al. 2018 (the set); Artetxe and Schwenk 2019 (margins).
    """
    checks.at_least(1, languages=len(languages))
    single = {}
    for name, splits in languages.items():
        mined = {
            split: mine(encoder, part.sources, part.targets, margin, k)
            for split, part in splits.items()
        }
        tuned, *others = splits
        single[name] = best_f1(mined[tuned], splits[tuned].gold)
        for split in others:
            threshold = single[name]["threshold"]
            single[name] = f1_at(mined[split], splits[split].gold, threshold)
    return over_tracks(single, MEANS, SUMS) | {
        "thresholds": {name: score["threshold"] for name, score in single.items()},
        "margin": margin,
        "k": k,
    }


def find_bucc(
    folder: str | Path, languages: Iterable[str], split: str = "train"
) -> dict[str, SetFile]:
    """Return the files of the training split and of another one, by language pair.

    Args:
        folder: Folder with the files `<xx>-en.<part>.<xx>`, `<xx>-en.<part>.en` and
            `<xx>-en.<part>.gold`, at any depth. `<part>` is `training` for the split
            "train".
        languages: Codes such as `de` for German and English, or `de-fr` for a pair
            without English.
        split: "sample", "train" or "test".

    Raises:
        InputError: A file is missing, or the split is unknown.
    """
    checks.one_of(SPLITS, split=split)
    there, splits = find_parts(folder, BUCC), dict.fromkeys(["train", split])
    found = {}
    for code in languages:
        source, target = language_pair(code)
        sides = (target, source) if source == ENGLISH else (source, target)
        name, paths = "-".join(sides), list[Path]()
        for part in splits:
            start = f"{name}.{SPLITS[part]}"
            what = (
                f"BUCC 2018. Unpack bucc2018-{start}-gold.tar.bz2 there, from "
                "https://comparable.limsi.fr/bucc2018/bucc2018-task.html. Gold pairs "
                "of `test` and language pairs without English are not published: add "
                "them yourself."
            )
            needed = [f"{start}.{ending}" for ending in (*sides, "gold")]
            files = check_parts(there, needed, what, folder)
            paths += [path for file in files.values() for path in file.paths]
        found[name] = SetFile(tuple(paths), partial(_read_bucc, tuple(splits)))
    return found


def _read_bucc(splits: Sequence[str], *paths: Path) -> dict[str, BuccPart]:
    """Read splits of one language pair, three files each."""
    files = in_chunks(paths, 3)
    return {split: _read_split(*own) for split, own in zip(splits, files, strict=True)}


def _read_split(sources: Path, targets: Path, gold: Path) -> BuccPart:
    left, right = _sentences(sources), _sentences(targets)
    rows = [{name: row for row, name in enumerate(side)} for side in (left, right)]
    pairs = []
    for where, fields in tabbed(gold, 2, "two sentence ids"):
        for side, name, file in zip(rows, fields, (sources, targets), strict=True):
            if name not in side:
                raise InputError(
                    f"{where}: the sentence must be in `{file.name}`. "
                    f"Received: {name!r:.40}. Take all three files from one release."
                )
        pairs.append((rows[0][fields[0]], rows[1][fields[1]]))
    return BuccPart(list(left.values()), list(right.values()), pairs)


def _sentences(path: Path) -> dict[str, str]:
    """Return the sentences by name, in the order of the file."""
    return texts_by_id(tabbed(path, 2, "id and sentence"))


BUCC = {r"(\w+-\w+\.(?:sample|training|test)\.\w+)": _sentences}


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
    precision: float = PRECISE,
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


def checked_threshold(threshold: Mapping[str, Any] | None) -> dict[str, Any] | None:
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
