"""Exact nearest neighbours by cosine, in constant memory."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, overload

import numpy as np

from keras_msd import checks
from keras_msd.arrays import unit_rows
from keras_msd.checks import at_least
from keras_msd.evaluate.measures import (
    DECIMALS,
    SentenceEncoder,
    SentenceVectors,
    by_cosine,
    side_of,
)
from keras_msd.progress import track

BLOCK = 4096  # candidates compared at a time
QUERIES = 1024  # queries compared at a time
STREAMED = 8192  # texts of a stream that are encoded at a time
RESCORED = 1 << 20  # float64 numbers per side at a time


def top_k(
    queries: np.ndarray, candidates: np.ndarray | Iterable[np.ndarray], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the `k` candidates nearest to each query by cosine, best first.

    A float32 matrix product selects all candidates that can be among the nearest,
    whatever its rounding error. Their cosines are then computed in float64 and rounded
    to ten decimals. If cosines are equal, the lower row comes first. So the result is
    exact and does not depend on the size of the blocks.

    Next to the arguments and the result, the search uses about 100 MB for dimensions up
    to 1024.

    Args:
        queries: Finite vectors `(n, dim)`; they need not be normalised. A zero vector
            has cosine 0 with every vector.
        candidates: One or more finite vectors `(m, dim)`, also as a `numpy.memmap`; or
            an iterable of blocks `(m_i, dim)`, of which one is in memory at a time.
            Small blocks are slow.
        k: Number of neighbours per query, at least 1.

    Returns:
        Cosines, float64, and rows of the candidates, int64, both `(n, min(k, m))`. Rows
        are counted over all blocks.
    """
    if isinstance(candidates, np.ndarray):  # no room for more than there are
        k = max(1, min(k, len(candidates)))
    best = _Best(queries, k)
    for block in _blocks(candidates):
        best.add(block)
    count = min(k, best.seen)
    return best.cosines[:, :count], best.rows[:, :count]


def rounding(dim: int) -> float:
    """Return the maximum rounding error of a float32 cosine."""
    # The error of each is (dim + 8) * 2^-24: `dim` terms and the rounding of the
    # inputs. Doubled to be safe.
    return 4 * (dim + 8) * 2.0**-24


class _Best:
    """The best candidates so far; the cosine is `-inf` if there are fewer than `k`."""

    def __init__(self, queries: np.ndarray, k: int) -> None:
        self.queries, self.k, self.seen = queries, k, 0
        self.cosines = np.full((len(queries), k), -np.inf)
        self.rows = np.full((len(queries), k), -1, np.int64)

    def add(self, block: np.ndarray) -> None:
        """Compare a block of candidates with all queries."""
        units = _units(block).astype(np.float32)
        for start in range(0, len(self.queries), QUERIES):
            part = slice(start, start + QUERIES)
            queries = _units(self.queries[part]).astype(np.float32)
            query, column = _possible(queries, units, self.cosines[part, -1], self.k)
            self._keep(start + query, column, block)
        self.seen += len(block)

    def _keep(self, query: np.ndarray, column: np.ndarray, block: np.ndarray) -> None:
        """Merge pairs of a query and a candidate in the block into the best ones."""
        if not len(query):
            return
        cosines = np.empty(len(query))
        step = max(1, RESCORED // block.shape[1])
        for start in range(0, len(query), step):
            chunk = slice(start, start + step)
            left = _units(self.queries[query[chunk]])
            right = _units(block[column[chunk]])
            cosines[chunk] = np.einsum("nd,nd->n", left, right)
        touched = np.unique(query)
        old = self.rows[touched] >= 0
        query = np.concatenate([np.repeat(touched, old.sum(axis=1)), query])
        rows = np.concatenate([self.rows[touched][old], self.seen + column])
        cosines = np.concatenate(
            [self.cosines[touched][old], np.round(cosines, DECIMALS)]
        )
        order = np.lexsort((rows, -cosines, query))
        query, rows, cosines = query[order], rows[order], cosines[order]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        kept = rank < self.k
        self.rows[query[kept], rank[kept]] = rows[kept]
        self.cosines[query[kept], rank[kept]] = cosines[kept]


def _possible(
    queries: np.ndarray, units: np.ndarray, kth: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return queries and columns of all pairs that may be among the best `k`.

    Args:
        queries: `(n, dim)` float32, of length one.
        units: `(m, dim)` float32, of length one.
        kth: `(n,)`, the `k`-th best cosine so far, `-inf` if there are fewer.
        k: Number of neighbours per query.
    """
    near = queries @ units.T
    short = np.isneginf(kth)
    if short.any() and k <= len(units):
        kth = kth.copy()
        kth[short] = np.partition(near[short], -k, axis=1)[:, -k]
    floor = (kth - rounding(units.shape[1])).astype(np.float32)
    # Most blocks have no candidate for most queries; a maximum finds these cheaply.
    open_ = np.flatnonzero(near.max(axis=1) >= floor)
    place, column = np.nonzero(near[open_] >= floor[open_, None])
    return open_[place], column


def _blocks(candidates: np.ndarray | Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the candidates in blocks of at most `BLOCK` rows."""
    whole = isinstance(candidates, np.ndarray)
    stream: Iterable[Any] = [candidates] if whole else candidates
    for vectors in stream:
        starts: Iterable[int] = range(0, len(vectors), BLOCK)
        if whole:
            starts = track(starts, len(vectors), "Comparing", steps=BLOCK)
        for start in starts:
            yield vectors[start : start + BLOCK]


def _units(vectors: np.ndarray) -> np.ndarray:
    """Return float64 vectors of length one; a zero vector stays zero."""
    return unit_rows(vectors.astype(np.float64))


class Match(NamedTuple):
    """A search result: cosine to the query, position and text.

    Example:
        >>> match = msd.evaluate.Match(0.875, place=2, sentence="It rains.")
        >>> match.cosine, match.place, match.sentence
        (0.875, 2, 'It rains.')
    """

    cosine: float
    place: int
    sentence: str


@overload
def search(
    encoder: SentenceEncoder, query: str, sentences: Iterable[str], top: int = 5
) -> list[Match]: ...
@overload
def search(
    encoder: SentenceEncoder, query: list[str], sentences: Iterable[str], top: int = 5
) -> list[list[Match]]: ...
def search(
    encoder: SentenceEncoder,
    query: str | list[str],
    sentences: Iterable[str],
    top: int = 5,
) -> list[Match] | list[list[Match]]:
    """Return the sentences nearest to a query, or to each of several, best first.

    Where the encoder has `encode_query` and `encode_document`, they encode the two
    sides: each has its own prompt, if the encoder has one.

    Args:
        encoder: An encoder, an artefact, or anything with `encode`.
        query: A text in any language that the encoder supports, or a list of texts.
            Each distinct text is encoded once on its side.
        sentences: One or more sentences to search.
        top: Maximum number of matches per query, at least 1.

    Returns:
        `Match(cosine, place, sentence)`, the highest cosine first, rounded to six
        decimals. Matches with equal cosines keep the order of `sentences`. For a list
        of queries, one such list per query.

    Raises:
        InputError: `top` is below 1, there is no sentence, vectors are not finite, or
            the encoder's are not compared by cosine.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> sentences = ["It rains.", "A cat.", "The radio plays."]
        >>> msd.evaluate.search(encoder, "A cat.", sentences, top=1)
        [Match(cosine=1.0, place=1, sentence='A cat.')]
        >>> matches = msd.search(encoder, ["A cat.", "It rains."], sentences, top=1)
        >>> [best.place for (best,) in matches]
        [1, 0]
    """
    queries = checks.sentences([query] if isinstance(query, str) else query, "query")
    sentences = checks.sentences(sentences, "sentences")
    at_least(1, top=top, sentences=len(sentences))
    by_cosine(encoder, "`search`")
    if not queries:
        return []
    asked = SentenceVectors(side_of(encoder, "query"), queries)(queries)
    known = SentenceVectors(side_of(encoder, "document"), sentences)(sentences)
    cosines, places = top_k(asked, known, top)
    matches = [
        [
            Match(round(cosine, 6), place, sentences[place])
            for cosine, place in zip(*best, strict=True)
        ]
        for best in zip(cosines.tolist(), places.tolist(), strict=True)
    ]
    return matches[0] if isinstance(query, str) else matches


def neighbours(
    encoder: SentenceEncoder,
    queries: Iterable[tuple[str, str]],
    sentences: Iterable[str],
    top: int = 3,
) -> list[dict[str, Any]]:
    """Find the sentences nearest to queries in other languages.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        queries: Pairs `(text, language code)`.
        sentences: Sentences to search; duplicates count once.
        top: Number of neighbours per query, at least 1.

    Returns:
        For each query `{"query", "language", "neighbours": [{"sentence", "cosine"}]}`,
        nearest first. A run stores this as `neighbours.json`.

    Raises:
        InputError: See `search`.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> queries = [("Radio", "de")]
        >>> msd.evaluate.neighbours(encoder, queries, ["It rains.", "Radio"], top=1)
        [{'query': 'Radio', 'language': 'de',
          'neighbours': [{'sentence': 'Radio', 'cosine': 1.0}]}]
    """
    queries = list(queries)
    distinct = list(dict.fromkeys(sentences))
    nearest = search(encoder, [text for text, _ in queries], distinct, top)
    return [
        {
            "query": text,
            "language": language,
            "neighbours": [
                {"sentence": match.sentence, "cosine": round(match.cosine, 4)}
                for match in matches
            ],
        }
        for (text, language), matches in zip(queries, nearest, strict=True)
    ]
