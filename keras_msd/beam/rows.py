"""A corpus in chunks, each of which knows its place; functions of one chunk each.

A place is the number of the file and of a row among those of the file that pass the
filters, in one integer: sorted by it, chunks stand in reading order, whatever worker
had them when.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Any

import numpy as np

from keras_msd.data.pair import PairFile
from keras_msd.data.text_table import (
    CHUNK,
    Row,
    TextOptions,
    drawn,
    new_count,
    passed_rows,
    row_keys,
    settle,
)
from keras_msd.files import digest

ROW_BITS = 40  # of a place; the number of the file stands above


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of one file, at most `CHUNK` of those that pass the filters."""

    languages: tuple[str, str]
    rows: list[Row]

    def kept(self, keep: np.ndarray) -> "Chunk":
        """Return the rows that are marked, bool `(n,)`."""
        return Chunk(self.languages, list(compress(self.rows, keep.tolist())))


@dataclass(frozen=True)
class Book:
    """What is known of a file once it was read: its books, and `PairFile.digest()`."""

    count: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class Plan:
    """What is known of a table once all files were read.

    Attributes:
        key: Key of its texts.
        counts: Closed books of each file, as `texts.json` has them.
        distinct: Rows of each file that repeat no earlier one.
        shares: Rows of each file that are kept.
        before: For the place of each chunk, the distinct rows of its file before it.
    """

    key: str
    counts: list[dict[str, Any]]
    distinct: list[int]
    shares: list[int]
    before: dict[int, int]


def read_file(
    item: tuple[int, PairFile], options: TextOptions
) -> Iterator[tuple[int, Chunk | Book]]:
    """Yield each chunk of a file at its place, then the file's number and `Book`."""
    index, file = item
    count, place = new_count(file), index << ROW_BITS
    for rows in passed_rows(file, options, count):
        yield place, Chunk(file.languages, rows)
        place += len(rows)
    yield index, Book(count, file.digest())


def hashed(item: tuple[int, Chunk]) -> Iterator[tuple[bytes, int]]:
    """Yield the hash of each row of a chunk, with the row's place."""
    place, chunk = item
    for number, key in enumerate(row_keys(chunk.languages, chunk.rows)):
        yield key, place + number


def repeats(item: tuple[bytes, Iterable[int]]) -> Iterator[tuple[int, int]]:
    """Yield each repeat of a hash: the place of its chunk, and its row there."""
    _, *others = sorted(item[1])
    for row in others:
        yield row // CHUNK * CHUNK, row % CHUNK


def without_repeats(item: tuple[int, Mapping[str, Iterable[Any]]]) -> tuple[int, Chunk]:
    """Return the rows of a chunk that repeat no earlier one, at the chunk's place."""
    place, found = item
    [chunk] = found["chunk"]
    keep = np.ones(len(chunk.rows), bool)
    keep[list(found["repeats"])] = False
    return place, chunk.kept(keep)


def size_of(item: tuple[int, Chunk]) -> tuple[int, int]:
    """Return place and number of rows of a chunk."""
    place, chunk = item
    return place, len(chunk.rows)


def make_plan(
    options: TextOptions, books: list[tuple[int, Book]], sizes: list[tuple[int, int]]
) -> Plan:
    """Return what is known once all files were read and repeats are gone.

    Raises:
        InputError: No row is kept.
    """
    of_files = [book for _, book in sorted(books, key=itemgetter(0))]
    distinct, before = [0] * len(of_files), {}
    for place, size in sorted(sizes):
        index = place >> ROW_BITS
        before[place] = distinct[index]
        distinct[index] += size
    counts = [dict(book.count) for book in of_files]
    shares = settle(counts, distinct, options)
    key = options.key(digest(*(book.digest for book in of_files)))
    return Plan(key, counts, distinct, shares, before)


def kept(
    item: tuple[int, Chunk], plan: Plan, options: TextOptions
) -> Iterator[tuple[int, Chunk]]:
    """Yield the rows of a chunk that the limits leave, if there are any."""
    place, chunk = item
    index, first = place >> ROW_BITS, plan.before[place]
    size, share = plan.distinct[index], plan.shares[index]
    keep = drawn(options, index, size, share, first, len(chunk.rows))
    if keep.any():
        yield place, chunk.kept(keep)
