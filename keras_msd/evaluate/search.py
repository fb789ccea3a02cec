"""Search: the sentences nearest to a query, whatever language each is in."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.evaluate.vectors import SentenceEncoder, UnitVectors, cosine_matrix


class Match(NamedTuple):
    """A sentence that was found: its cosine to the query, place and text."""

    cosine: float
    place: int
    sentence: str


def search(
    encoder: SentenceEncoder, query: str, sentences: Iterable[str], top: int = 5
) -> list[Match]:
    """Return the sentences nearest to one query, best first.

    Args:
        encoder: An encoder, an artefact, or anything with `encode`.
        query: The text to look for, in any language the encoder knows.
        sentences: Where to look; one or more.
        top: Matches to return, at least 1; all sentences if there are fewer.

    Returns:
        `Match(cosine, place, sentence)` with falling cosine, to six decimals; equal
        ones in the order given.

    Raises:
        InputError: `top` is below 1, there is no sentence, or vectors are not finite.
    """
    return search_many(encoder, [query], sentences, top)[0]


def search_many(
    encoder: SentenceEncoder,
    queries: Iterable[str],
    sentences: Iterable[str],
    top: int = 5,
) -> list[list[Match]]:
    """Return the matches of each query; each distinct text is encoded once.

    Raises:
        InputError: As `search`, or a list is a single text.
    """
    if isinstance(queries, str) or isinstance(sentences, str):
        raise checks.InputError(
            "`queries` and `sentences` must be lists of texts. Received: a single "
            "text. Put it in a list."
        )
    queries, sentences = list(queries), list(sentences)
    checks.at_least(1, top=top, sentences=len(sentences))
    units = UnitVectors(encoder, queries + sentences)
    targets = units(sentences)
    found = []
    for query in queries:
        similarity = cosine_matrix(units([query]), targets)[0]
        order = np.argsort(-similarity, kind="stable")[:top]
        found.append(
            [Match(round(float(similarity[i]), 6), int(i), sentences[i]) for i in order]
        )
    return found
