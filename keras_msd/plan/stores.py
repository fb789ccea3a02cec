"""Bytes on disk of the tables and stores that a run writes."""

from keras_msd.data.store import KEY_BYTES
from keras_msd.plan.memory import FLOAT

OFFSET, GROUP, ROW = 8, 8, 8
# A row of a store's index: its key and place with SQLite's headers, 24 bytes, in pages
# that random keys leave two thirds full.
INDEX_BYTES = 36


def text_bytes(pairs: float, source: float, target: float) -> float:
    """Return the size of a `TextTable`.

    Args:
        pairs: Its rows.
        source: UTF-8 bytes of a source line, on average.
        target: The same of a translation.
    """
    return pairs * (source + target + 2 * OFFSET)


def token_bytes(pairs: float, tokens: float, vocabulary_size: int, sides: int) -> float:
    """Return the size of a `PairTable` beside its texts.

    Args:
        pairs: Its rows.
        tokens: Of both sides of a pair, on average.
        vocabulary_size: Of the tokenizer; ids of up to 65,536 pieces have two bytes.
        sides: Guides and sides whose rows in a store are kept beside it.
    """
    width = 2 if vocabulary_size <= 1 << 16 else 4
    return pairs * (tokens * width + 2 * OFFSET + GROUP + sides * ROW)


def store_bytes(sentences: float, dim: int) -> float:
    """Return the size of a `GuideStore`: vectors, their keys and the index.

    Args:
        sentences: Distinct ones.
        dim: Width of a vector.
    """
    return sentences * (FLOAT * dim + KEY_BYTES + INDEX_BYTES)
