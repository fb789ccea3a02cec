"""Nearest neighbours across languages, as the report shows them."""

from collections.abc import Iterable
from typing import Any

from keras_msd.evaluate.search import search_many
from keras_msd.evaluate.vectors import SentenceEncoder


def neighbours(
    encoder: SentenceEncoder,
    queries: Iterable[tuple[str, str]],
    sentences: Iterable[str],
    top: int = 3,
) -> list[dict[str, Any]]:
    """Find the English sentences nearest to queries in other languages.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        queries: `(text, language code)`.
        sentences: English sentences to search; repeated ones count once.
        top: Neighbours of each query, at least 1.

    Returns:
        For each query `{"query", "language", "neighbours": [{"sentence", "cosine"}]}`,
        nearest first: what a run keeps as `neighbours.json`.

    Raises:
        InputError: As `search`.
    """
    queries = list(queries)
    distinct = list(dict.fromkeys(sentences))
    found = search_many(encoder, [text for text, _ in queries], distinct, top)
    return [
        {
            "query": text,
            "language": language,
            "neighbours": [
                {"sentence": match.sentence, "cosine": round(match.cosine, 4)}
                for match in matches
            ],
        }
        for (text, language), matches in zip(queries, found, strict=True)
    ]
