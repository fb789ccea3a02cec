"""Semantic textual similarity: Spearman between cosines and gold scores.

An encoder with another `similarity_fn_name` has its vectors compared by that.

Sets are row-aligned files, or STS 2017 with its extension, in its own layout or ours:
three tracks in one language and seven across two.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.data.pair import GradedPair
from keras_msd.data.readers.lines import tabbed
from keras_msd.evaluate.measures import (
    SentenceEncoder,
    SentenceVectors,
    mean_score,
    percent,
    similarities,
)
from keras_msd.evaluate.parts import (
    WHOLE,
    SetFile,
    check_parts,
    find_parts,
    finite,
    halves,
    rows_of,
)

# Of each track, the similarities of its pairs and their gold scores.
_Compared = dict[str, tuple[np.ndarray, np.ndarray]]

PIVOT = "en"
TRACKS = (
    *("ar-ar", "es-es", "en-en", "en-ar", "en-de", "en-tr", "en-es"),
    *("en-fr", "en-it", "en-nl"),
)
PAIRS = 250  # of every track
STS2017_NAMES = (
    "STS 2017. Its files are `sts2017.test.<xx>-<yy>.tsv.gz` (see docs/corpora.md) or "
    "`STS.<xx>-<yy>.txt` (STS2017-extended.zip), with the two codes in either order. "
    "Add the missing files, or give `languages`."
)


def sts(encoder: SentenceEncoder, rows: Iterable[GradedPair]) -> dict[str, Any]:
    """Score one track.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        rows: `(gold, sentence 1, sentence 2)`, two or more, gold on any scale.

    Returns:
        `{"spearman": x100, "pairs": n, "primary": "spearman"}`. Ties get their average
        rank. If all similarities are equal, the score is 0.

    Raises:
        InputError: There are fewer than two rows, the gold scores are not finite or all
            equal, or the vectors are not finite.

    Source: Reimers and Gurevych 2020, section 4.1.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> rows = [(5.0, "A cat.", "A cat."), (0.5, "A cat.", "It rains.")]
        >>> msd.evaluate.sts(encoder, rows)
        {'spearman': 100.0, 'pairs': 2, 'primary': 'spearman'}
    """
    rows = list(rows)
    score = sts_tracks(encoder, {"rows": rows})["rows"]
    return {"spearman": score, "pairs": len(rows), "primary": "spearman"}


def sts_tracks(
    encoder: SentenceEncoder, rows: Mapping[str, Sequence[GradedPair]]
) -> dict[str, float]:
    """Score several tracks separately.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`. Each distinct sentence
            of all tracks is encoded once.
        rows: Rows by the name of the track, see `sts`.

    Returns:
        Spearman x100 by the name of the track.

    Raises:
        InputError: See `sts`.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> rows = [(5.0, "A cat.", "A cat."), (0.5, "A cat.", "It rains.")]
        >>> msd.evaluate.sts_tracks(encoder, {"en-en": rows, "en-de": rows[::-1]})
        {'en-en': 100.0, 'en-de': 100.0}
    """
    return _by_track(_compared(encoder, rows))


def sts_aligned(
    encoder: SentenceEncoder,
    rows: Mapping[str, Sequence[GradedPair]],
    within: bool = True,
    part: str = WHOLE,
) -> dict[str, Any]:
    """Score row-aligned translations of one STS set, within and across languages.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence of all languages once.
        rows: Language code to rows of `(gold, sentence 1, sentence 2)`. English
            (`en`) is needed; row i says the same in every language.
        within: Whether to score pairs within every language. Otherwise only English is
            scored in this way, which needs half of the sentences, and the result has no
            `monolingual`.
        part: "all", or one half, which the English sentences decide: "choose" to tune
            settings, or "report".

    Returns:
        `{"cross_lingual", "monolingual", "language_bias", "pairs", "tracks",
        "primary"}`. `monolingual` is the mean over all languages. `cross_lingual` is
        the mean, over the languages other than English, of the Spearman x100 between
        cosine(English sentence 1, other-language sentence 2) and gold. `tracks`
        contains every single score, by `de` or `en-de`. `language_bias` is the Spearman
        x100 of the pairs of all tracks in one list, minus the mean of the tracks: far
        below 0 if pairs of some languages are nearer than others that mean as much. If
        English is the only language, there is no `cross_lingual`, and without either
        mean no `language_bias`.

    Raises:
        InputError: English is missing, the languages are not row-aligned, or a half is
            too small to rank.

    Source: Reimers and Gurevych 2020, section 4.1; the bias, table 8.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> english = [(5.0, "A cat.", "A cat."), (0.5, "A cat.", "It rains.")]
        >>> german = [(5.0, "Eine Katze.", "Eine Katze."), (0.5, "Ein Hund.", "Regen.")]
        >>> rows = {"en": english, "de": german}
        >>> scores = msd.evaluate.sts_aligned(encoder, rows)
        >>> sorted(scores["tracks"]), scores["primary"]
        (['de', 'en', 'en-de'], 'cross_lingual')
    """
    rows = aligned_part(rows, part)
    tracks = {code: rows[code] for code in sorted(rows) if within or code == PIVOT}
    compared = _compared(encoder, tracks | across_tracks(rows))
    return _means(compared, len(rows[PIVOT]), within)


def aligned_part(
    rows: Mapping[str, Sequence[GradedPair]], part: str
) -> dict[str, list[GradedPair]]:
    """Return the rows of a part, the same ones in every language.

    Raises:
        InputError: See `sts_aligned`, but a half may have a single row.
    """
    if PIVOT not in rows:
        raise InputError(
            f"The English rows are needed, as `{PIVOT}`. Received: "
            f"{', '.join(rows) or 'no language'}."
        )
    gold = _gold(rows[PIVOT], PIVOT)
    for language, translated in rows.items():
        _check_same_gold(gold, translated, language)
    kept = rows_of(part, halves(row[1:] for row in rows[PIVOT]), f"`{PIVOT}`")
    return {code: [track[row] for row in kept] for code, track in rows.items()}


def across_tracks(
    rows: Mapping[str, Sequence[GradedPair]],
) -> dict[str, list[GradedPair]]:
    """Return cross-lingual tracks, such as `en-de`, of row-aligned translations.

    The first sentences are English, the second sentences in the other language. Tracks
    are in the order of the language codes.
    """
    tracks = {}
    for code in sorted(rows.keys() - {PIVOT}):
        both = zip(rows[PIVOT], rows[code], strict=True)
        tracks[f"{PIVOT}-{code}"] = [
            (gold, first, second) for (gold, first, _), (_, _, second) in both
        ]
    return tracks


def _means(compared: _Compared, pairs: int, within: bool) -> dict[str, Any]:
    """Return what `sts_aligned` says, of `pairs` pairs."""
    tracks = _by_track(compared)
    kinds: dict[str, list[float]] = {"monolingual": [], "cross_lingual": []}
    for name, score in tracks.items():
        first, _, second = name.partition("-")
        alone = second in ("", first)
        kinds["monolingual" if alone else "cross_lingual"].append(score)
    primary = "cross_lingual" if kinds["cross_lingual"] else "monolingual"
    means = {
        kind: mean_score(scores)
        for kind, scores in kinds.items()
        if scores and (within or kind == primary)
    }
    if len(means) == len(kinds):
        values, gold = map(np.concatenate, zip(*compared.values(), strict=True))
        bias = _spearman(values, gold) - mean_score(tracks.values())
        means["language_bias"] = round(bias, 4)
    return {"pairs": pairs, "tracks": tracks, "primary": primary, **means}


def read_sts(path: str | Path, score: int = 0) -> list[GradedPair]:
    """Read rows of `(gold, sentence 1, sentence 2)` from a `.tsv.gz` file.

    Args:
        path: The file.
        score: Which column has the score, from 0; the others are the sentences.

    Raises:
        InputError: The file is missing or damaged, a row does not have three fields, or
            a score is not a finite number.
    """
    rows = []
    for where, fields in tabbed(path, 3, "two sentences and a score"):
        text = fields.pop(score)
        first, second = fields
        rows.append((finite(text, where, "a score"), first, second))
    return rows


def score_sts2017(
    encoder: SentenceEncoder, rows: Mapping[str, list[GradedPair]], within: bool = True
) -> dict[str, Any]:
    """Score STS 2017.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`. Each distinct sentence
            of all tracks is encoded once.
        rows: Rows by track, such as `en-de`.
        within: Whether to score tracks in one language as well.

    Returns:
        `{"cross_lingual", "monolingual", "language_bias", "pairs", "tracks",
        "primary"}`. `tracks` is Spearman x100 by track, such as `en-de`.
        `cross_lingual` is the mean over tracks with two languages, `monolingual` the
        mean over tracks with one; `language_bias` as in `sts_aligned`. `pairs` is the
        total number of pairs.

    Source: Cer et al. 2017; the extension, Reimers and Gurevych 2020, section 4.1.
    """
    chosen = {
        name: track
        for name, track in rows.items()
        if within or len({*name.split("-")}) == 2
    }
    pairs = sum(map(len, chosen.values()))
    return _means(_compared(encoder, chosen), pairs, within)


def find_sts2017(
    folder: Path, languages: list[str] | None, split: str = "test"
) -> dict[str, SetFile]:
    """Return the file of each track that uses only English and the given languages.

    Raises:
        InputError: A track is missing, or the set does not have a language.
    """
    layouts = {
        r"sts2017\.test\.([a-z]{2}-[a-z]{2})\.tsv\.gz": partial(_read_track, score=0),
        r"STS\.([a-z]{2}-[a-z]{2})\.txt(?:\.gz)?": partial(_read_track, score=2),
    }
    there = find_parts(folder, layouts, lambda match: _track(match[1]))
    known = {code for track in TRACKS for code in track.split("-")}
    asked = known if languages is None else {PIVOT, *languages}
    if unknown := [code for code in languages or () if code not in known]:
        raise InputError(
            f"STS 2017 has the languages {', '.join(sorted(known))}. Received: "
            f"{', '.join(unknown)}. Use one of these, or another set."
        )
    tracks = [track for track in TRACKS if asked >= {*track.split("-")}]
    return check_parts(there, tracks, STS2017_NAMES, folder, "sts2017.test.{}.tsv.gz")


def _track(codes: str) -> str:
    """Return a track's name: English first, otherwise in alphabetical order."""
    return "-".join(sorted(codes.split("-"), key=lambda code: (code != PIVOT, code)))


def _read_track(path: Path, score: int) -> list[GradedPair]:
    rows = read_sts(path, score)
    if len(rows) != PAIRS:
        raise InputError(
            f"`{path}` must have {PAIRS:,} pairs, as in the published set. Received: "
            f"{len(rows):,}. Download the file again."
        )
    return rows


def find_aligned(
    folder: str | Path,
    languages: Iterable[str] | None,
    split: str,
    dataset: str,
    hint: str = "",
) -> dict[str, SetFile]:
    """Return the files of English and other languages; see `read_sts_folder`.

    Raises:
        InputError: A file is missing; `hint` ends the message.
    """
    name = f"{dataset}.{split}.{{}}.tsv.gz"
    pattern = re.escape(name).replace(r"\{\}", r"(\w+)")
    there = find_parts(folder, {pattern: read_sts})
    words = f"the set `{dataset}`, part {split}. Its files are `{name.format('<xx>')}`"
    others = sorted(there) if languages is None else languages
    needed = list(dict.fromkeys([PIVOT, *others]))
    return check_parts(there, needed, f"{words}. {hint}".rstrip(), folder, name)


def _compared(
    encoder: SentenceEncoder, rows: Mapping[str, Sequence[GradedPair]]
) -> _Compared:
    # All gold scores are checked before the first sentence is encoded.
    gold = {name: _gold(track, name) for name, track in rows.items()}
    texts = (text for track in rows.values() for row in track for text in row[1:])
    vectors = SentenceVectors(encoder.encode, texts)
    compare = getattr(encoder, "similarity_fn_name", "cosine")
    compared = {}
    for name, track in rows.items():
        first = vectors(row[1] for row in track)
        second = vectors(row[2] for row in track)
        compared[name] = similarities(first, second, compare), gold[name]
    return compared


def _by_track(compared: _Compared) -> dict[str, float]:
    return {name: _spearman(*both) for name, both in compared.items()}


def _gold(rows: Sequence[GradedPair], what: str) -> np.ndarray:
    gold = np.array([row[0] for row in rows], np.float64)
    if not np.isfinite(gold).all() or len(np.unique(gold)) < 2:
        raise InputError(
            f"`{what}`: gold scores must be finite and have two or more values. "
            f"Received: {len(gold)} rows, {len(np.unique(gold))} distinct scores."
        )
    return gold


def _check_same_gold(
    gold: np.ndarray, rows: Sequence[GradedPair], language: str
) -> None:
    other = np.array([row[0] for row in rows], np.float64)
    if len(other) != len(gold):
        received = f"{len(gold)} rows for {PIVOT}, {len(other)} for {language}"
    elif (differing := np.flatnonzero(other != gold)).size:
        row = differing[0]
        received = (
            f"score {gold[row]:g} for {PIVOT} and {other[row]:g} for {language} in "
            f"line {row + 1}"
        )
    else:
        return
    raise InputError(
        f"STS files must be row-aligned. Received: {received}. Take both from the same "
        "release of the set."
    )


def _spearman(values: np.ndarray, gold: np.ndarray) -> float:
    if (values == values[0]).all():
        return 0.0
    from scipy.stats import spearmanr  # half a second

    return percent(spearmanr(values, gold).statistic)
