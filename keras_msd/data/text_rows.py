"""Select the rows of a corpus: filters, duplicates and limits."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least
from keras_msd.data.cleaning import Cleaning, normalize
from keras_msd.data.order import file_shares, mix, permutation
from keras_msd.data.pair import PairFile
from keras_msd.files import digest, text_hash

VERSION = 2
CHUNK = 8192  # rows in memory at a time
SHOWN, KINDS = 5, 50  # faults of a file that are shown, and that are told apart
PLACE = re.compile(r"\b(?:line|row) \d+")

Row = tuple[bytes, bytes]


@dataclass(frozen=True)
class TextOptions:
    """Options that select rows of a corpus.

    Attributes:
        cleaning: Filters.
        limit_per_file: Stop reading a file once so many of its pairs passed them.
        limit_per_language: Most pairs of a language with English, and of any other two
            languages, shared out among their files (what small files do not fill goes
            to the larger ones) and drawn at random inside each.
        seed: Chooses the pairs under `limit_per_language`.
        temperature: Infinity shares that limit out evenly, 1 by the files' sizes.
        dirty_rows: Rows of a table, such as a TSV, that cannot be read and are skipped
            and counted; one more is an error. By default none are.

    Raises:
        InputError: A number is below 1.
    """

    cleaning: Cleaning = Cleaning()
    limit_per_file: int | None = None
    limit_per_language: int | None = None
    seed: int = 0
    temperature: float = float("inf")
    dirty_rows: int | None = None

    def __post_init__(self) -> None:
        at_least(1, limit_per_file=self.limit_per_file, dirty_rows=self.dirty_rows)
        at_least(1, limit_per_language=self.limit_per_language)

    def key(self, content: str) -> str:
        """Return the key of the table of a corpus, whose `digest()` is `content`."""
        return digest(repr((VERSION, asdict(self))), content)


def new_count(file: PairFile) -> dict[str, Any]:
    """Return the counters of a file that was not read yet.

    `name`, `language`, `source_language`, and the pairs `read` and `passed`;
    `passed_rows` adds those dropped by reason.
    """
    source, language = file.languages
    names = {"name": file.name, "language": language, "source_language": source}
    return {**names, "read": 0, "passed": 0}


def languages_of_count(count: dict[str, Any]) -> tuple[str, str]:
    """Return the languages of source and target of a file that was read."""
    return count["source_language"], count["language"]


def passed_rows(
    file: PairFile, options: TextOptions, count: dict[str, Any]
) -> Iterator[list[Row]]:
    """Yield the rows of a file that pass the filters, normalised, `CHUNK` at a time.

    Args:
        file: Read once.
        options: Filters, `limit_per_file` and `dirty_rows` of a table.
        count: Its books, which are kept while it is read.
    """
    dirty = _DirtyRows(options.dirty_rows or 0)
    passed = islice(
        _filtered(file.rows(dirty.skip), options.cleaning, count),
        options.limit_per_file,
    )
    for rows in in_chunks(passed, CHUNK):
        count["passed"] += len(rows)
        yield rows
    if dirty.count:
        count |= {"dirty": dirty.count, "dirty_rows": dirty.worst()}


def _filtered(
    rows: Iterable[tuple[str, str]], cleaning: Cleaning, count: dict[str, Any]
) -> Iterator[Row]:
    for source, target in rows:
        count["read"] += 1
        source, target = normalize(source), normalize(target)
        if reason := cleaning.reason(source, target):
            count[reason] = count.get(reason, 0) + 1
        else:
            yield source.encode(), target.encode()


class _DirtyRows:
    """Rows of one file that cannot be read and are skipped; one over `most` is not."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self._times = Counter[str]()
        self._first: dict[str, str] = {}  # message of each kind of fault

    def skip(self, error: InputError) -> None:
        """Count a row; raise its error if that is one too many."""
        if self.count == self.most:
            before = f" {self.most} such rows were skipped before."
            raise InputError(f"{error}{before if self.most else ''}") from error
        self.count += 1
        # The rule that a row breaks is the same in each message, but for its place.
        kind = PLACE.sub("", str(error).partition(" Received: ")[0])
        if kind in self._first or len(self._first) < KINDS:
            self._times[kind] += 1
            self._first.setdefault(kind, str(error))

    def worst(self) -> list[str]:
        """Return the first row of each kind of fault, the most frequent kind first."""
        return [self._first[kind] for kind, _ in self._times.most_common(SHOWN)]


def row_keys(languages: tuple[str, str], rows: Iterable[Row]) -> list[bytes]:
    """Return a 16-byte key per row; duplicates share it.

    Args:
        languages: Those of source and target.
        rows: Of one file.
    """
    return [text_hash(*languages, *row) for row in rows]


def settle(
    counts: list[dict[str, Any]], distinct: list[int], options: TextOptions
) -> list[int]:
    """Decide how many rows of each file are kept, and finish its counters.

    Under a limit per language the files of a pair of languages get shares by
    `file_shares`.

    Args:
        counts: The books of each file that was read; `passed` gives way to `duplicate`,
            `limit` and `kept`.
        distinct: Rows of each that repeat no earlier one.
        options: Those of the table.

    Returns:
        Rows kept by file.

    Raises:
        InputError: None is.
    """
    shares, limit = list(distinct), options.limit_per_language
    if limit is not None:
        for pair in {languages_of_count(count) for count in counts}:
            files = [i for i, c in enumerate(counts) if languages_of_count(c) == pair]
            sizes = [distinct[i] for i in files]
            fair = share_out(sizes, limit, options.temperature)
            for index, share in zip(files, fair, strict=True):
                shares[index] = share
    for count, size, share in zip(counts, distinct, shares, strict=True):
        count["duplicate"] = count.pop("passed") - size
        count |= {"limit": size - share, "kept": share}
    if not any(shares):
        raise InputError(
            "No pair is left after the filters. Received, by file: "
            f"{str(counts):.300}. Loosen `cleaning` or give other files."
        )
    return shares


def drawn(
    options: TextOptions, index: int, size: int, share: int, first: int, count: int
) -> np.ndarray:
    """Return which distinct rows of a file are among its share, bool `(count,)`.

    They are the first ones of a permutation of its distinct rows.

    Args:
        options: Those of the table.
        index: Number of the file.
        size: Distinct rows of the file.
        share: How many of them are kept.
        first: Distinct rows of the file before these.
        count: How many these are.
    """
    if share == size:
        return np.ones(count, bool)
    ordinals = np.arange(first, first + count)
    return permutation(ordinals, size, mix(options.seed, index)) < share


def share_out(
    sizes: list[int], limit: int, temperature: float = float("inf")
) -> list[int]:
    """Divide `limit` by `file_shares`; small files pass on what they cannot fill."""
    shares = [0] * len(sizes)
    full = [index for index, size in enumerate(sizes) if size]
    if not full:
        return shares
    parts = file_shares([sizes[index] for index in full], temperature)
    left, weight = limit, float(parts.sum())
    for place in np.argsort(np.take(sizes, full) / parts, kind="stable").tolist():
        index, part = full[place], float(parts[place])
        # A share is exact but for rounding of the weights: 25000 / 11, not one less.
        fair = math.floor(left * part / weight + 1e-9) if weight > part else left
        shares[index] = min(sizes[index], fair)
        left, weight = left - shares[index], weight - part
    return shares
