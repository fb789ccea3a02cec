"""Cleaned, deduplicated texts of a corpus, on disk and read by offset."""

import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, compress
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.checksums import DamagedError, read_meta, write_meta
from keras_msd.data.pair import ENGLISH, Pair, PairFile, Pairs
from keras_msd.data.ragged import Ragged, RaggedWriter, read_flat
from keras_msd.data.text_rows import (
    CHUNK,
    VERSION,
    TextOptions,
    drawn,
    languages_of_count,
    new_count,
    passed_rows,
    row_keys,
    settle,
)
from keras_msd.files import atomic_path, digest, remove
from keras_msd.progress import track

SIDES = ("source", "target")


@dataclass(frozen=True)
class FileRange:
    """Rows `start` to `stop` (excluded) of a table come from one file."""

    name: str
    language: str
    start: int
    stop: int
    source_language: str = ENGLISH


class TextTable:
    """Texts of a corpus after filters, deduplication and limits.

    Make one with `TextTable.build`. Walked through, it gives `Pair`s in order.

    Attributes:
        files: `FileRange`s in order; files that keep no pair are left out.
        counts: For each file its `language` and `source_language`, the pairs `read`,
            `kept`, and dropped as `empty`, `short`, `long`, `ratio`, `duplicate` or
            over a `limit`; where some were skipped, how many rows are `dirty`, and
            `dirty_rows`, a message for each kind of fault, frequent ones first.
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
        meta = read_meta(folder / "texts.json", VERSION, "texts")
        self.folder, self.key = folder, meta["key"]
        self.counts: list[dict[str, Any]] = meta["counts"]
        self.files = _ranges(self.counts)
        self._texts = {side: Ragged(folder / side, np.uint8) for side in SIDES}

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
    def build(
        cls,
        pairs: Pairs,
        folder: str | Path,
        **options: Any,
    ) -> "TextTable":
        """Read a corpus, filter it, remove duplicates, and keep the rest in `folder`.

        Two pairs are duplicates if both texts and languages are equal; the first in
        reading order is kept. A table that is already there and was made of the same
        content with the same settings is opened instead; one that is damaged is made
        anew, with a warning.

        Args:
            pairs: The corpus.
            folder: Where the table lives; it appears when complete.
            **options: `cleaning`, `limit_per_file`, `limit_per_language`, `seed`,
                `temperature` and `dirty_rows`, as `TextOptions` says.

        Raises:
            InputError: A file cannot be read, nothing is left after the filters, or
                `folder` holds another table.
        """
        given = {key: value for key, value in options.items() if value is not None}
        folder, chosen = Path(folder), TextOptions(**given)
        key = chosen.key(pairs.digest())
        if (table := opened(cls, folder, folder)) is not None:
            if table.key != key:
                raise InputError(
                    f"`{folder}` holds a table of other files or other settings. Give "
                    "another folder, or delete this one to have it built anew."
                )
            return table
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            work = temporary / "work"
            work.mkdir()
            counts, distinct = _spool(pairs, work, chosen)
            _copy_kept(work, temporary, _select(counts, distinct, chosen))
            shutil.rmtree(work)
            meta = {"version": VERSION, "key": key, "counts": counts}
            write_meta(temporary / "texts.json", meta, "texts")
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


def opened(kind: Any, folder: Path, parts: Path) -> Any | None:
    """Open a table, or prepare the folder for a new one.

    Args:
        kind: Its class.
        folder: Where it lives.
        parts: What of the folder goes where it is damaged.

    Returns:
        The table; None where none was, or a damaged one, which is gone.
    """
    if not parts.exists():
        return None
    try:
        return kind.open(folder)
    except DamagedError as error:
        warnings.warn(f"{error} This is done now.", stacklevel=3)
        remove(parts)
        return None


def _ranges(counts: list[dict[str, Any]]) -> list[FileRange]:
    stops = accumulate(count["kept"] for count in counts)
    return [
        FileRange(
            count["name"],
            count["language"],
            stop - count["kept"],
            stop,
            languages_of_count(count)[0],
        )
        for count, stop in zip(counts, stops, strict=True)
        if count["kept"]
    ]


def _spool(
    pairs: Pairs, work: Path, options: TextOptions
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Write all pairs that pass the filters to `work`.

    Returns:
        The books of each file, and which rows repeat no earlier one, bool `(n,)`.
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
    """Return which rows are kept, bool `(n,)`, and close the books."""
    files = np.split(distinct, np.cumsum([count["passed"] for count in counts])[:-1])
    sizes = [int(own.sum()) for own in files]
    shares = settle(counts, sizes, options)
    for index, (own, size, share) in enumerate(zip(files, sizes, shares, strict=True)):
        own[own] = drawn(options, index, size, share, 0, size)  # a view of `distinct`
    return distinct


def _copy_kept(work: Path, folder: Path, keep: np.ndarray) -> None:
    """Copy the rows that are marked from `work` to `folder`."""
    for side in SIDES:
        texts = Ragged(work / side, np.uint8)
        with RaggedWriter(folder / side, np.uint8) as kept:
            for start, stop in _chunks(0, len(texts)):
                marks = keep[start:stop].tolist()
                kept.extend(list(compress(texts.chunk(start, stop), marks)))


def _chunks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut a range of rows into parts that fit in memory."""
    for first in range(start, stop, CHUNK):
        yield first, min(first + CHUNK, stop)
