"""Texts and token ids of a corpus, in flat files that are not loaded."""

import math
import os
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import compress, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least
from keras_msd.choices import MAX_LENGTH, SIDES
from keras_msd.data.order import file_shares, mix, permutation
from keras_msd.data.pair import ENGLISH, Cleaning, Pair, PairFile, Pairs, normalize
from keras_msd.io.files import (
    DamagedError,
    atomic_path,
    digest,
    read_metadata,
    remove,
    text_hash,
    write_metadata,
)
from keras_msd.progress import track
from keras_msd.tokenizers.base import Tokenizer

TEXTS_VERSION, TOKENS_VERSION = 2, 1
CHUNK = 8192  # rows in memory at a time
SHOWN, KINDS = 5, 50  # kinds of faults of a file: those reported, those counted
PLACE = re.compile(r"\b(?:line|row) \d+")

Row = tuple[bytes, bytes]


def read_flat(path: Path, dtype: Any) -> np.ndarray:
    """Return a memory-mapped file of numbers."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r")


def flattened(rows: Sequence[Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the joined values of all rows, and their lengths, int64 `(n,)`.

    Args:
        rows: Sequences of numbers or, for bytes, `bytes` objects.
        dtype: Type of the values.
    """
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    if dtype == np.uint8:
        return np.frombuffer(b"".join(rows), np.uint8), lengths
    numbers = [np.asarray(row, dtype) for row in rows]
    return np.concatenate([np.zeros(0, dtype), *numbers]), lengths


class RaggedWriter:
    """Appends rows to `<path>.values` and their ends to `<path>.offsets`.

    Args:
        path: Path without a suffix.
        dtype: Type of the values.
    """

    def __init__(self, path: Path, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.end = 0
        self._values = open(path.with_suffix(".values"), "wb")
        self._offsets = open(path.with_suffix(".offsets"), "wb")
        self._offsets.write(np.zeros(1, np.int64).tobytes())

    def extend(self, rows: Sequence[Any]) -> None:
        """Append rows: sequences of numbers or, for bytes, `bytes` objects."""
        self.extend_flat(*flattened(rows, self.dtype))

    def extend_flat(self, values: Any, lengths: np.ndarray) -> None:
        """Append rows.

        Args:
            values: The joined values of all rows: bytes, or a contiguous array.
            lengths: Number of values of each row, int64 `(n,)`.
        """
        self._values.write(values)
        ends = self.end + np.cumsum(lengths, dtype=np.int64)
        self._offsets.write(ends.tobytes())
        self.end += int(lengths.sum())

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._values.close()
        self._offsets.close()


class Ragged:
    """Rows of different lengths.

    Args:
        values: The joined values of all rows.
        offsets: The start of each row, and the end of the last one, int64 `(n + 1,)`.
    """

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self._values, self._offsets = values, offsets

    @classmethod
    def open(cls, path: Path, dtype: Any) -> "Ragged":
        """Open the files of a `RaggedWriter` with the same arguments."""
        values = read_flat(path.with_suffix(".values"), dtype)
        return cls(values, read_flat(path.with_suffix(".offsets"), np.int64))

    @classmethod
    def of(cls, rows: Sequence[Any], dtype: Any) -> "Ragged":
        """Keep rows in memory."""
        values, lengths = flattened(rows, dtype)
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the length of each row, int64 `(n,)`."""
        return self._offsets[rows + 1] - self._offsets[rows]

    def padded(
        self, rows: np.ndarray, length: int, fill: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows, padded at the right.

        Args:
            rows: Row numbers `(n,)`.
            length: Padded length; no row may be longer.
            fill: Value of the padding.

        Returns:
            Values and the mask of real ones, both int32 `(n, length)`.
        """
        starts, lengths = self._offsets[rows], self.lengths(rows)
        steps = np.arange(length)
        mask = steps < lengths[:, None]
        values = np.full(mask.shape, fill, np.int32)
        values[mask] = self._values[(starts[:, None] + steps)[mask]]
        return values, mask.astype(np.int32)

    def chunk(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of consecutive rows, for texts, in one read of the file."""
        ends = np.asarray(self._offsets[start : stop + 1])
        data = self._values[ends[0] : ends[-1]].tobytes()
        ends = (ends - ends[0]).tolist()
        return [data[a:b] for a, b in pairwise(ends)]


class TokenRows:
    """Token ids of the two sides of each row.

    Args:
        sides: The ids of "source" and "target".
        pad_id: Id that pads a row of a batch.
        max_length: Maximum number of token ids of a text.
    """

    def __init__(self, sides: dict[str, Ragged], pad_id: int, max_length: int) -> None:
        self._sides, self.pad_id, self.max_length = sides, pad_id, max_length

    def __len__(self) -> int:
        return len(self._sides["source"])

    def lengths(self, side: str, rows: np.ndarray) -> np.ndarray:
        """Return the number of token ids of `source` or `target` rows, int64 `(n,)`."""
        return self._sides[side].lengths(rows)

    def longest(self, rows: np.ndarray) -> list[int]:
        """Return the length of the longest source and the longest target of rows."""
        return [int(self.lengths(side, rows).max()) for side in self._sides]

    def padded(
        self, side: str, rows: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return token ids and padding mask of rows, both int32 `(n, length)`."""
        return self._sides[side].padded(rows, length, self.pad_id)


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
        return digest(repr((TEXTS_VERSION, asdict(self))), content)


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
        meta = read_metadata(folder / "texts.json", TEXTS_VERSION, "texts")
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
            meta = {"version": TEXTS_VERSION, "key": key, "counts": counts}
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


class PairTable(TokenRows):
    """Token ids, English groups and texts of a corpus for one tokenizer.

    Create one with `PairTable.build`. The content stays on disk; a call reads only what
    it returns.

    Attributes:
        texts: The `TextTable` of the same rows.
        files: `FileRange`s: name, language and rows of each file.
        pad_id: Id that pads a row of a batch.
        max_length: Maximum number of token ids of a text.
        key: Hash of everything the content depends on.

    Example:
        >>> pairs = msd.data.Pairs.from_list(msd.testing.tiny_pairs())
        >>> tokenizer = msd.testing.tiny_tokenizer()
        >>> table = msd.data.PairTable.build(pairs, tokenizer, "table", max_length=16)
        >>> ids, mask = table.padded("target", np.array([0, 7]), length=16)
        >>> len(table), ids.shape, table.texts.texts("target", 7, 8)
        (8, (2, 16), ['La maison est très vieille.'])
    """

    def __init__(self, folder: Path, texts: TextTable) -> None:
        meta = _meta(folder)
        places = {side: folder / "tokens" / side for side in SIDES}
        sides = {side: Ragged.open(it, meta["dtype"]) for side, it in places.items()}
        super().__init__(sides, meta["pad_id"], meta["max_length"])
        self.folder, self.texts, self.key = folder, texts, meta["key"]
        self.tokenizer_fingerprint: str = meta["tokenizer"]
        self._groups = read_flat(folder / "tokens" / "groups", np.uint64)

    @property
    def files(self) -> list[FileRange]:
        """Name, language and rows of each file, in order."""
        return self.texts.files

    def groups(self, rows: np.ndarray) -> np.ndarray:
        """Return a 64-bit hash of each row's English text, uint64 `(n,)`."""
        return np.asarray(self._groups[rows])

    @classmethod
    def open(cls, folder: str | Path) -> "PairTable":
        """Open a table that `build` made.

        Raises:
            InputError: There is no table, it has another version, it is damaged, or its
                texts are missing or were replaced.
        """
        folder = Path(folder)
        meta = _meta(folder)
        texts = TextTable.open(Path(os.path.normpath(folder / meta["texts"])))
        if texts.key != meta["texts_key"]:
            raise InputError(
                f"The texts in `{texts.folder}` are not those that `{folder}` was made "
                "from. Delete the second folder; it is built again."
            )
        return cls(folder, texts)

    @classmethod
    def build(
        cls,
        pairs: Pairs | TextTable,
        tokenizer: Tokenizer,
        folder: str | Path,
        *,
        max_length: int = MAX_LENGTH,
        **options: Any,
    ) -> "PairTable":
        """Clean and tokenise a corpus, and store the result in `folder`.

        If the folder already contains a table of the same content, tokenizer and
        settings, it is opened instead. Damaged token ids are rebuilt, with a warning.

        Args:
            pairs: The corpus; or its `TextTable`, which is not cleaned again and stays
                where it is.
            tokenizer: The tokenizer.
            folder: Folder of the table; texts and token ids appear when complete.
            max_length: Maximum number of token ids of a text, at least 2.
            **options: Options of `TextTable.build`, for a corpus.

        Raises:
            InputError: See `TextTable.build`; or the folder contains a table of another
                corpus, tokenizer or setting.
        """
        at_least(2, max_length=max_length)
        folder = Path(folder)
        if isinstance(pairs, TextTable):
            if options:
                raise InputError(
                    "Texts on disk are already cleaned and limited. Received: "
                    f"{', '.join(options)}. Give them to `TextTable.build`."
                )
            texts = pairs
        else:
            texts = TextTable.build(pairs, folder / "texts", **options)
        place = os.path.relpath(texts.folder, folder)
        meta = tokens_meta(texts.key, place, tokenizer, max_length)
        if (table := opened(cls, folder, folder / "tokens", meta["key"])) is not None:
            return table
        with atomic_path(folder / "tokens") as temporary:
            temporary.mkdir()
            for side in SIDES:
                with RaggedWriter(temporary / side, meta["dtype"]) as writer:
                    chunks, total = texts.chunks(side), -(-len(texts) // CHUNK)
                    for chunk in track(chunks, total, f"Tokenising the {side} texts"):
                        writer.extend(tokenizer.encode(chunk, max_length))
            with open(temporary / "groups", "wb") as handle:
                for chunk in texts.chunks("source"):
                    handle.write(group_hashes(chunk))
            write_metadata(temporary / "tokens.json", meta, "token ids")
        return cls(folder, texts)


def group_hashes(texts: list[str] | list[bytes]) -> bytes:
    """Return a hash of 8 bytes for each English text, little-endian, joined."""
    return b"".join(text_hash(text)[:8] for text in texts)


def tokens_meta(
    texts_key: str, place: str, tokenizer: Tokenizer, max_length: int
) -> dict[str, Any]:
    """Return the content of `tokens.json`.

    Args:
        texts_key: Key of the texts.
        place: Path of the texts, relative to the folder of the table.
        tokenizer: The tokenizer.
        max_length: Maximum number of token ids of a text.
    """
    return {
        "version": TOKENS_VERSION,
        "key": table_key(texts_key, tokenizer, max_length),
        "texts": place,
        "texts_key": texts_key,
        "tokenizer": tokenizer.fingerprint,
        "max_length": max_length,
        "pad_id": tokenizer.pad_id,
        "dtype": token_type(tokenizer),
    }


def token_type(tokenizer: Tokenizer) -> str:
    """Return the type of token ids on disk."""
    return "uint16" if tokenizer.vocabulary_size <= 1 << 16 else "int32"


def table_key(texts_key: str, tokenizer: Tokenizer, max_length: int) -> str:
    """Return a hash of everything that token ids depend on."""
    return digest(
        str(TOKENS_VERSION), texts_key, tokenizer.fingerprint, str(max_length)
    )


def _meta(folder: Path) -> dict[str, Any]:
    return read_metadata(folder / "tokens" / "tokens.json", TOKENS_VERSION, "token ids")
