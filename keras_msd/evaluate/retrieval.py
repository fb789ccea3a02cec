"""Bitext retrieval: how often the nearest sentence is the translation."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.evaluate.tatoeba import read_tatoeba
from keras_msd.evaluate.vectors import (
    SentenceEncoder,
    UnitVectors,
    cosine_matrix,
    percent,
)

BLOCK = 1024  # queries compared at a time, so that memory stays flat

Pairs = Sequence[Sequence[str]]


def retrieval(
    encoder: SentenceEncoder, pairs: Iterable[Sequence[str]]
) -> dict[str, Any]:
    """Score one language: precision at 1 of cosine search, both ways.

    The first of several equal maxima is the answer, so a sentence that occurs twice is
    found at its first place only: duplicates count as errors.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        pairs: `(source, target)`, or `Pair`; row i of one side translates row i of the
            other.

    Returns:
        `{"precision": x100, "source_to_target":, "target_to_source":, "pairs": n,
        "primary": "precision"}`; `precision` is the mean of both ways.

    Raises:
        InputError: There is no pair, or the vectors are not finite.

    Source: Artetxe and Schwenk 2019 (the Tatoeba set), without a margin.
    """
    pairs = _checked(pairs, "pairs")
    return _precision(UnitVectors(encoder, _texts(pairs)), pairs)


def retrieval_languages(
    encoder: SentenceEncoder, pairs: Mapping[str, Iterable[Sequence[str]]]
) -> dict[str, Any]:
    """Score several languages, each against its own English side.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence of all languages once.
        pairs: Language code to pairs, as `retrieval` takes them.

    Returns:
        As `retrieval`, each score the mean over languages, `pairs` the sum, and
        `tracks`: the precision of each language.

    Raises:
        InputError: There is no language, or one has no pair.
    """
    if not pairs:
        raise InputError("Give at least one language. Received: none.")
    lists = {language: _checked(own, language) for language, own in pairs.items()}
    units = UnitVectors(
        encoder, (text for own in lists.values() for text in _texts(own))
    )
    single = {code: _precision(units, lists[code]) for code in sorted(lists)}
    means = {
        key: round(float(np.mean([one[key] for one in single.values()])), 4)
        for key in ("precision", "source_to_target", "target_to_source")
    }
    return means | {
        "pairs": sum(one["pairs"] for one in single.values()),
        "tracks": {language: one["precision"] for language, one in single.items()},
        "primary": "precision",
    }


def retrieval_folder(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Score the Tatoeba files of a folder, as `retrieval_languages`.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        folder: Holds the files, in our layout or LASER's, as `read_tatoeba` finds them.
        languages: Three-letter codes, such as `deu`, or two-letter ones; None for all
            there are.

    Raises:
        InputError: A file is missing or broken.
    """
    return retrieval_languages(encoder, read_tatoeba(folder, languages))


def _checked(pairs: Iterable[Sequence[str]], what: str) -> Pairs:
    pairs = list(pairs)
    if not pairs:
        raise InputError(f"`{what}` must hold at least one pair. Received: none.")
    return pairs


def _texts(pairs: Pairs) -> list[str]:
    return [text for pair in pairs for text in pair[:2]]


def _precision(units: UnitVectors, pairs: Pairs) -> dict[str, Any]:
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    forward = percent(_found(units, sources, targets))
    backward = percent(_found(units, targets, sources))
    return {
        "precision": round((forward + backward) / 2, 4),
        "source_to_target": forward,
        "target_to_source": backward,
        "pairs": len(pairs),
        "primary": "precision",
    }


def _found(units: UnitVectors, queries: list[str], sentences: list[str]) -> float:
    """Return the share of queries whose nearest sentence stands in their own row."""
    first: dict[str, int] = {}
    for row, sentence in enumerate(sentences):
        first.setdefault(sentence, row)
    rows, columns = np.array(list(first.values())), units(first)
    hits = 0
    for start in range(0, len(queries), BLOCK):
        similarity = cosine_matrix(units(queries[start : start + BLOCK]), columns)
        nearest = rows[similarity.argmax(axis=1)]
        hits += int((nearest == start + np.arange(len(nearest))).sum())
    return hits / len(queries)
