"""Cleaned, deduplicated texts of a corpus, on disk and read by offset."""

import math
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least
from keras_msd.data.cleaning import Cleaning, normalize
from keras_msd.data.order import file_shares, mix, permutation
from keras_msd.data.pair import ENGLISH, Pair, PairFile, Pairs
from keras_msd.data.ragged import Ragged, RaggedWriter, read_flat
from keras_msd.io.checksums import DamagedError, read_metadata, write_metadata
from keras_msd.io.files import atomic_path, digest, remove, text_hash
from keras_msd.progress import track

VERSION = 2
CHUNK = 8192  # rows in memory at a time
SHOWN, KINDS = 5, 50  # kinds of faults of a file: those reported, those counted
PLACE = re.compile(r"\b(?:line|row) \d+")
SIDES = ("source", "target")

Row = tuple[bytes, bytes]


@dataclass(frozen=True)
class TextOptions:
    """Options that select rows of a corpus.

    Attributes:
        cleaning: Filters.
        limit_per_file: Stop reading a file once so many of its pairs passed them.
        limit_per_language: Maximum number of pairs for each pair of languages. The
            files share the limit; what small files cannot fill goes to larger ones.
            Within a file, pairs are drawn at random.
        seed: Selects the pairs under `limit_per_language`.
        temperature: Infinity gives the files equal shares of that limit, 1 shares
            proportional to their sizes.
        dirty_rows: Maximum number of unreadable rows of a table, such as a TSV, that
            are skipped and counted. One more is an error; so is the first by default.

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
        """Return the key of the table of a corpus with the digest `content`."""
        return digest(repr((VERSION, asdict(self))), content)


@dataclass(frozen=True)
class FileRange:
    """The rows of a table from one file: `start` to `stop` (excluded)."""

    name: str
    language: str
    start: int
    stop: int
    source_language: str = ENGLISH


class TextTable:
    """Texts of a corpus after filters, deduplication and limits.

    Create one with `TextTable.build`. Iterating yields its `Pair`s in order.

    Attributes:
        files: `FileRange`s in order, without files that keep no pair.
        counts: For each file its `language` and `source_language`, and how many pairs
            were `read`, `kept`, and dropped as `empty`, `short`, `long`, `ratio`,
            `duplicate` or over the `limit`. If rows were skipped: their number,
            `dirty`, and `dirty_rows`, a message for each kind of fault, frequent ones
            first.
        key: Hash of everything the content depends on.

    Example:
        >>> pairs = [("A  house.", "Ein Haus.", "de"), ("A house.", "Ein Haus.", "de")]
        >>> table = msd.data.TextTable.build(msd.data.Pairs.from_list(pairs), "texts")
        >>> list(table)
        [Pair(source='A house.', target='Ein Haus.', language='de',
              source_language='en')]
        >>> table.counts[0]["duplicate"]
        1
    """

    def __init__(self, folder: Path) -> None:
        meta = read_metadata(folder / "texts.json", VERSION, "texts")
        self.folder, self.key = folder, meta["key"]
        self.counts: list[dict[str, Any]] = meta["counts"]
        self.files: list[FileRange] = []
        start = 0
        for count in self.counts:
            start, first = start + count["kept"], start
            source, target = languages_of_count(count)
            if count["kept"]:
                file = FileRange(count["name"], target, first, start, source)
                self.files.append(file)
        self._texts = {side: Ragged.open(folder / side, np.uint8) for side in SIDES}

    def __len__(self) -> int:
        return len(self._texts["source"])

    def __iter__(self) -> Iterator[Pair]:
        for file in self.files:
            for source, target in self._rows(file.start, file.stop):
                yield Pair(source, target, file.language, file.source_language)

    def _rows(self, start: int, stop: int) -> Iterator[tuple[str, str]]:
        for chunk in _chunks(start, stop):
            sides = (self.texts(side, *chunk) for side in SIDES)
            yield from zip(*sides, strict=True)

    def texts(self, side: str, start: int, stop: int) -> list[str]:
        """Return `source` or `target` texts of rows `start` to `stop` (excluded)."""
        return [text.decode() for text in self._texts[side].chunk(start, stop)]

    def chunks(self, side: str) -> Iterator[list[str]]:
        """Yield all texts of one side in lists of a few thousand."""
        for chunk in _chunks(0, len(self)):
            yield self.texts(side, *chunk)

    @classmethod
    def open(cls, folder: str | Path) -> "TextTable":
        """Open a table that `build` made.

        Raises:
            InputError: No table is there, one of another version, or it is damaged.
        """
        return cls(Path(folder))

    @classmethod
    def build(cls, pairs: Pairs, folder: str | Path, **options: Any) -> "TextTable":
        """Read a corpus, filter it, remove duplicates, and store the rest in `folder`.

        Two pairs are duplicates if both texts and languages are equal; the first in
        reading order is kept. If the folder already contains a table of the same
        content and settings, it is opened instead. A damaged one is rebuilt, with a
        warning.

        Args:
            pairs: The corpus.
            folder: Folder of the table; it appears when the table is complete.
            **options: `cleaning`, `limit_per_file`, `limit_per_language`, `seed`,
                `temperature` and `dirty_rows`, as `TextOptions` says.

        Raises:
            InputError: A file cannot be read, nothing is left after the filters, or
                `folder` holds another table.
        """
        given = {key: value for key, value in options.items() if value is not None}
        folder, chosen = Path(folder), TextOptions(**given)
        key = chosen.key(pairs.digest())
        if (table := opened(cls, folder, folder, key)) is not None:
            return table
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            work = temporary / "work"
            work.mkdir()
            counts, distinct = _spool(pairs, work, chosen)
            _copy_kept(work, temporary, _select(counts, distinct, chosen))
            shutil.rmtree(work)
            meta = {"version": VERSION, "key": key, "counts": counts}
            write_metadata(temporary / "texts.json", meta, "texts")
        return cls.open(folder)

    def pairs(self) -> Pairs:
        """Return the kept texts as a corpus."""
        return Pairs(
            PairFile(
                file.name,
                file.language,
                partial(self._rows, file.start, file.stop),
                fingerprint=digest(self.key, str(file.start)),
                source_language=file.source_language,
            )
            for file in self.files
        )


def opened(kind: Any, folder: Path, parts: Path, key: str) -> Any | None:
    """Open a table, or prepare the folder for a new one.

    Args:
        kind: Class of the table.
        folder: Folder of the table.
        parts: What to delete if the table is damaged.
        key: Key of the table.

    Returns:
        The table; None if there was none, or a damaged one, which is deleted.

    Raises:
        InputError: The folder contains a table with another key.
    """
    if not parts.exists():
        return None
    try:
        table = kind.open(folder)
    except DamagedError as error:
        warnings.warn(f"{error} This is done now.", stacklevel=3)
        remove(parts)
        return None
    if table.key != key:
        raise InputError(
            f"`{folder}` holds a table of other files, another tokenizer or other "
            "settings. Give another folder, or delete this one to have it built anew."
        )
    return table


def _spool(
    pairs: Pairs, work: Path, options: TextOptions
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Write all pairs that pass the filters to `work`.

    Returns:
        The counters of each file, and which rows repeat no earlier one, bool `(n,)`.
    """
    counts = []
    with (
        RaggedWriter(work / "source", np.uint8) as sources,
        RaggedWriter(work / "target", np.uint8) as targets,
        open(work / "keys", "wb") as keys,
    ):
        for file in pairs.files:
            counts.append(count := new_count(file))
            chunks = passed_rows(file, options, count)
            for rows in track(chunks, what=f"Reading {file.name}", steps=CHUNK):
                sources.extend([source for source, _ in rows])
                targets.extend([target for _, target in rows])
                keys.write(b"".join(row_keys(file.languages, rows)))
    return counts, first_of_each(read_flat(work / "keys", "S16"))


def first_of_each(keys: np.ndarray) -> np.ndarray:
    """Return which keys, `(n,)`, repeat no earlier one, bool `(n,)`."""
    first = np.zeros(len(keys), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


def _select(
    counts: list[dict[str, Any]], distinct: np.ndarray, options: TextOptions
) -> np.ndarray:
    """Return which rows are kept, bool `(n,)`, and complete the counters."""
    files = np.split(distinct, np.cumsum([count["passed"] for count in counts])[:-1])
    sizes = [int(own.sum()) for own in files]
    shares = settle(counts, sizes, options)
    for index, (own, size, share) in enumerate(zip(files, sizes, shares, strict=True)):
        own[own] = drawn(options, index, size, share, 0, size)  # a view of `distinct`
    return distinct


def _copy_kept(work: Path, folder: Path, keep: np.ndarray) -> None:
    """Copy the rows that are marked from `work` to `folder`."""
    for side in SIDES:
        texts = Ragged.open(work / side, np.uint8)
        with RaggedWriter(folder / side, np.uint8) as kept:
            for start, stop in _chunks(0, len(texts)):
                marks = keep[start:stop].tolist()
                kept.extend(list(compress(texts.chunk(start, stop), marks)))


def _chunks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut a range of rows into parts that fit in memory."""
    for first in range(start, stop, CHUNK):
        yield first, min(first + CHUNK, stop)


def new_count(file: PairFile) -> dict[str, Any]:
    """Return the counters of a file before it is read.

    They are `name`, `language`, `source_language`, and the pairs `read` and `passed`;
    `passed_rows` adds the number of dropped pairs by reason.
    """
    source, language = file.languages
    names = {"name": file.name, "language": language, "source_language": source}
    return {**names, "read": 0, "passed": 0}


def languages_of_count(count: dict[str, Any]) -> tuple[str, str]:
    """Return the languages of source and target of a file, from its counters."""
    return count["source_language"], count["language"]


def passed_rows(
    file: PairFile, options: TextOptions, count: dict[str, Any]
) -> Iterator[list[Row]]:
    """Yield the rows of a file that pass the filters, normalised, `CHUNK` at a time.

    Args:
        file: The file, which is read once.
        options: The filters, `limit_per_file` and `dirty_rows`.
        count: The counters of the file, which are updated.
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
    """Counts the unreadable rows of one file; raises an error after `most` of them."""

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
        # Messages of the same fault differ only in the place and what was received.
        kind = PLACE.sub("", str(error).partition(" Received: ")[0])
        if kind in self._first or len(self._first) < KINDS:
            self._times[kind] += 1
            self._first.setdefault(kind, str(error))

    def worst(self) -> list[str]:
        """Return the first row of each kind of fault, the most frequent kind first."""
        return [self._first[kind] for kind, _ in self._times.most_common(SHOWN)]


def row_keys(languages: tuple[str, str], rows: Iterable[Row]) -> list[bytes]:
    """Return a 16-byte key per row of a file; duplicates have the same key.

    Args:
        languages: Codes of source and target.
        rows: The rows.
    """
    return [text_hash(*languages, *row) for row in rows]


def settle(
    counts: list[dict[str, Any]], distinct: list[int], options: TextOptions
) -> list[int]:
    """Decide how many rows of each file are kept, and complete its counters.

    `file_shares` divides a limit per language among the files of a pair of languages.

    Args:
        counts: The counters of each file; `duplicate`, `limit` and `kept` replace
            `passed`.
        distinct: Number of distinct rows of each file.
        options: Options of the table.

    Returns:
        Number of rows kept of each file.

    Raises:
        InputError: No row is kept.
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
    """Return which of some distinct rows of a file are kept, bool `(count,)`.

    The rows kept of a file are the first ones of a permutation of its distinct rows.

    Args:
        options: Options of the table.
        index: Number of the file.
        size: Number of distinct rows of the file.
        share: Number of these that are kept.
        first: Number of distinct rows of the file before the rows in question.
        count: Number of rows in question.
    """
    if share == size:
        return np.ones(count, bool)
    ordinals = np.arange(first, first + count)
    return permutation(ordinals, size, mix(options.seed, index)) < share


def share_out(
    sizes: list[int], limit: int, temperature: float = float("inf")
) -> list[int]:
    """Divide `limit` by `file_shares`; what small files cannot fill goes to others."""
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
