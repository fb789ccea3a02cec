"""Semantic textual similarity: Spearman between cosines and gold scores."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from keras_msd.checks import InputError, existing_folder
from keras_msd.evaluate.tables import finite_number, read_table
from keras_msd.evaluate.vectors import SentenceEncoder, UnitVectors, cosines, percent

Row = tuple[float, str, str]
PIVOT = "en"


def sts(encoder: SentenceEncoder, rows: Iterable[Row]) -> dict[str, Any]:
    """Score one track.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        rows: `(gold, sentence 1, sentence 2)`, two or more, gold on any scale.

    Returns:
        `{"spearman": x100, "pairs": n, "primary": "spearman"}`. Ties share their
        average rank, and all pairs are ranked at once. Where every cosine is the same
        nothing is ranked, and the score is 0.

    Raises:
        InputError: Fewer than two rows, gold that is not finite or all the same, or
            vectors that are not finite.

    Source: Reimers and Gurevych 2020, section 4.1.
    """
    rows = list(rows)
    gold = _gold(rows, "rows")
    firsts, seconds = [row[1] for row in rows], [row[2] for row in rows]
    units = UnitVectors(encoder, firsts + seconds)
    score = _spearman(cosines(units(firsts), units(seconds)), gold)
    return {"spearman": score, "pairs": len(rows), "primary": "spearman"}


def sts_tracks(
    encoder: SentenceEncoder, rows: Mapping[str, Sequence[Row]]
) -> dict[str, float]:
    """Score several tracks, each by itself.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence of all tracks once.
        rows: Name of the track to rows, as `sts` takes them.

    Returns:
        Spearman x100 by the name of the track.

    Raises:
        InputError: As `sts`.
    """
    gold = {name: _gold(own, name) for name, own in rows.items()}
    units = UnitVectors(
        encoder, (text for own in rows.values() for row in own for text in row[1:])
    )
    return {
        name: _spearman(
            cosines(units(row[1] for row in own), units(row[2] for row in own)),
            gold[name],
        )
        for name, own in rows.items()
    }


def sts_aligned(
    encoder: SentenceEncoder, rows: Mapping[str, Sequence[Row]]
) -> dict[str, Any]:
    """Score row-aligned translations of one STS set, within and across languages.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence of all languages once.
        rows: Language code to rows of `(gold, sentence 1, sentence 2)`. English
            (`en`) is needed; row i says the same in every language.

    Returns:
        `{"cross_lingual", "monolingual", "pairs", "tracks", "primary"}`. `monolingual`
        is the mean over all languages; `cross_lingual` the mean over the languages
        other than English of the Spearman x100 between cosine(English sentence 1, that
        language's sentence 2) and gold. `tracks` has every single score, by `de` or
        `en-de`. With English alone there is no `cross_lingual`.

    Raises:
        InputError: English is missing, or the languages are not row-aligned.
    """
    if PIVOT not in rows:
        raise InputError(
            f"The English rows are needed, as `{PIVOT}`. Received: "
            f"{', '.join(rows) or 'no language'}."
        )
    gold = _gold(rows[PIVOT], PIVOT)
    for language, own in rows.items():
        _same_gold(gold, own, language)
    units = UnitVectors(
        encoder, (text for own in rows.values() for row in own for text in row[1:])
    )
    pivot = units(row[1] for row in rows[PIVOT])
    alone, across = {}, {}
    for language in sorted(rows):
        firsts = units(row[1] for row in rows[language])
        seconds = units(row[2] for row in rows[language])
        alone[language] = _spearman(cosines(firsts, seconds), gold)
        if language != PIVOT:
            name = f"{PIVOT}-{language}"
            across[name] = _spearman(cosines(pivot, seconds), gold)
    scores: dict[str, Any] = {
        "monolingual": round(float(np.mean(list(alone.values()))), 4),
        "pairs": len(gold),
        "tracks": alone | across,
        "primary": "cross_lingual" if across else "monolingual",
    }
    if across:
        scores["cross_lingual"] = round(float(np.mean(list(across.values()))), 4)
    return scores


def sts_folder(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str],
    split: str = "dev",
    dataset: str = "stsb",
) -> dict[str, Any]:
    """Score the files `<dataset>.<split>.<xx>.tsv.gz` of a folder, as `sts_aligned`.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        folder: Holds the files: score TAB sentence 1 TAB sentence 2, row-aligned.
        languages: Two-letter codes; English is always read.
        split: The part of the set, such as `dev` or `test`.
        dataset: The set, such as `stsb` or `sick`.

    Raises:
        InputError: A file is missing or broken, or the files are not row-aligned.
    """
    return sts_aligned(encoder, read_sts_folder(folder, languages, split, dataset))


def read_sts_folder(
    folder: str | Path,
    languages: Iterable[str],
    split: str = "dev",
    dataset: str = "stsb",
) -> dict[str, list[Row]]:
    """Read what `sts_folder` scores: rows by language code, English first."""
    folder = existing_folder(folder, "STS folder")
    codes = dict.fromkeys([PIVOT, *languages])
    return {
        code: read_sts(folder / f"{dataset}.{split}.{code}.tsv.gz") for code in codes
    }


def read_sts(path: str | Path) -> list[Row]:
    """Read rows of `(gold, sentence 1, sentence 2)` from a `.tsv.gz` file.

    Raises:
        InputError: The file is missing or broken, or a score is no finite number.
    """
    return [
        (finite_number(score, f"{path}, line {number}", "the first field"), one, two)
        for number, (score, one, two) in read_table(path, 3)
    ]


def _gold(rows: Sequence[Row], what: str) -> np.ndarray:
    gold = np.array([row[0] for row in rows], np.float64)
    if not np.isfinite(gold).all() or len(np.unique(gold)) < 2:
        raise InputError(
            f"`{what}`: gold scores must be finite and of two or more values. "
            f"Received: {len(gold)} rows, {len(np.unique(gold))} distinct scores."
        )
    return gold


def _same_gold(gold: np.ndarray, rows: Sequence[Row], language: str) -> None:
    own = np.array([row[0] for row in rows], np.float64)
    if len(own) != len(gold):
        raise InputError(
            f"STS files must be row-aligned. Received: {len(gold)} rows for {PIVOT}, "
            f"{len(own)} for {language}. Take both from the same release of the set."
        )
    other = np.flatnonzero(own != gold)
    if other.size:
        row = other[0]
        raise InputError(
            f"STS files must be row-aligned. Received: score {gold[row]:g} for {PIVOT} "
            f"and {own[row]:g} for {language} in line {row + 1}. "
            "Take both from the same release of the set."
        )


def _spearman(values: np.ndarray, gold: np.ndarray) -> float:
    if (values == values[0]).all():
        return 0.0
    return percent(spearmanr(values, gold).statistic)
