"""Clean, distinct, limited texts of a corpus, on disk and read by offset."""

import math
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate, compress, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least
from keras_msd.data.cleaning import Cleaning, normalize
from keras_msd.data.deduplicate import Deduplicator
from keras_msd.data.order import file_shares, mix, permutation
from keras_msd.data.pair import ENGLISH, Pair, PairFile, Pairs
from keras_msd.data.ragged import Ragged, RaggedWriter, read_flat
from keras_msd.data.readers.lines import DirtyRows
from keras_msd.files import atomic_path, digest, remove, text_hash
from keras_msd.progress import track
from keras_msd.seals import DamagedError, read_meta, write_meta

VERSION = 1
CHUNK = 8192  # rows in memory at a time
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
        counts: For each file and language read (with the `source_language` where that
            is not English), the pairs `read`, `kept`, and dropped as `empty`, `short`,
            `long`, `ratio`, `duplicate` or over a `limit`; where some were skipped, how
            many rows are `dirty`, and `dirty_rows`, messages about the first ones.
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
        cleaning: Cleaning | None = None,
        limit_per_file: int | None = None,
        limit_per_language: int | None = None,
        seed: int = 0,
        temperature: float = float("inf"),
        dirty_rows: int | None = None,
    ) -> "TextTable":
        """Read a corpus, filter it, remove duplicates, and keep the rest in `folder`.

        Two pairs are duplicates if both texts and languages are equal; the first in
        reading order is kept. A table that is already there and was made of the same
        content with the same settings is opened instead; one that is damaged is made
        anew, with a warning.

        Args:
            pairs: The corpus.
            folder: Where the table lives; it appears when complete.
            cleaning: Filters; `Cleaning()` by default.
            limit_per_file: Stop reading a file once so many of its pairs passed the
                filters.
            limit_per_language: Most pairs of a language with English, and of any other
                two languages, shared out among their files (what small files do not
                fill goes to the larger ones) and drawn at random inside each.
            temperature: Infinity shares that limit out evenly, 1 by the files' sizes.
            seed: Chooses the pairs under `limit_per_language`.
            dirty_rows: Rows of a TSV or JSON Lines file that cannot be read and are
                skipped and counted; one more is an error. By default none are.

        Raises:
            InputError: A file cannot be read, nothing is left after the filters, or
                `folder` holds another table.
        """
        folder = Path(folder)
        limits = {"limit_per_file": limit_per_file}
        limits["limit_per_language"] = limit_per_language
        at_least(1, **limits, dirty_rows=dirty_rows)
        cleaning = cleaning or Cleaning()
        skipped = () if dirty_rows is None else (dirty_rows,)  # keys of before stay
        settings = repr(
            (VERSION, asdict(cleaning), limits, seed, temperature, *skipped)
        )
        key = digest(settings, pairs.digest())
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
            counts = _spool(pairs, work, cleaning, limit_per_file, dirty_rows or 0)
            kept = _select(counts, work, limit_per_language, seed, temperature)
            if not any(kept):
                raise InputError(
                    "No pair is left after the filters. Received, by file: "
                    f"{str(counts):.300}. Loosen `cleaning` or give other files."
                )
            _copy_kept(work, temporary)
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
    """Open a table, or make room for a new one.

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
            _languages(count)[0],
        )
        for count, stop in zip(counts, stops, strict=True)
        if count["kept"]
    ]


def _languages(count: dict[str, Any]) -> tuple[str, str]:
    """Return the languages of source and target of a file that was read."""
    return count.get("source_language", ENGLISH), count["language"]


def _spool(
    pairs: Pairs,
    work: Path,
    cleaning: Cleaning,
    limit_per_file: int | None,
    dirty_rows: int,
) -> list[dict[str, Any]]:
    """Write all pairs that pass the filters to `work`, and which of them are repeats.

    Returns:
        For each file its `name`, `language`, `source_language` if it is not English,
        the pairs `read` and dropped by reason, and `passed`, the number written.
    """
    counts = []
    repeats = Deduplicator(work / "hashes")
    with (
        RaggedWriter(work / "source", np.uint8) as sources,
        RaggedWriter(work / "target", np.uint8) as targets,
    ):
        for file in pairs.files:
            count: dict[str, Any] = {"name": file.name, "language": file.language}
            other = {"source_language": file.source_language}
            if file.source_language == ENGLISH:
                other = {}  # tables of such files are as they were without the others
            count |= {**other, "read": 0, "passed": 0}
            dirty = DirtyRows(dirty_rows)
            rows_of = _filtered(file, cleaning, count, dirty)
            passed = islice(rows_of, limit_per_file)
            chunks = in_chunks(passed, CHUNK)
            for rows in track(chunks, what=f"Reading {file.name}", steps=CHUNK):
                count["passed"] += len(rows)
                sources.extend([source for source, _ in rows])
                targets.extend([target for _, target in rows])
                for row in rows:
                    repeats.add(text_hash(file.language, *row, *other.values()))
            if dirty.count:
                count |= {"dirty": dirty.count, "dirty_rows": dirty.first}
            counts.append(count)
    repeats.write_repeats(work / "repeats")
    return counts


def _filtered(
    file: PairFile, cleaning: Cleaning, count: dict[str, Any], dirty: DirtyRows
) -> Iterator[tuple[bytes, bytes]]:
    """Yield normalized, encoded pairs; keep the books in `count`."""
    rows = file.skipping(dirty=dirty) if file.skipping else file.iterate()
    for source, target in rows:
        count["read"] += 1
        source, target = normalize(source), normalize(target)
        if reason := cleaning.reason(source, target):
            count[reason] = count.get(reason, 0) + 1
        else:
            yield source.encode(), target.encode()


def _select(
    counts: list[dict[str, Any]],
    work: Path,
    limit: int | None,
    seed: int,
    temperature: float,
) -> list[int]:
    """Turn `work/repeats` into `work/keep`, one byte per row; return rows kept by file.

    Under a limit per language the files of a pair of languages get shares by
    `file_shares`, and the rows of a file's share are the first ones of a permutation of
    its distinct rows.
    """
    repeats = read_flat(work / "repeats", np.uint8)
    edges = np.cumsum([0] + [count["passed"] for count in counts]).tolist()
    ranges = list(pairwise(edges))
    distinct = [b - a - int(repeats[a:b].sum()) for a, b in ranges]
    shares = list(distinct)
    if limit is not None:
        for pair in {_languages(count) for count in counts}:
            files = [i for i, c in enumerate(counts) if _languages(c) == pair]
            fair = share_out([distinct[i] for i in files], limit, temperature)
            for index, share in zip(files, fair, strict=True):
                shares[index] = share
    with open(work / "keep", "wb") as handle:
        for index, (count, rows) in enumerate(zip(counts, ranges, strict=True)):
            size, share = distinct[index], shares[index]
            count["duplicate"] = count.pop("passed") - size
            count |= {"limit": size - share, "kept": share}
            before = 0
            for start, stop in _chunks(*rows):
                keep = repeats[start:stop] == 0
                if share < size:
                    ordinals = np.arange(before, before + int(keep.sum()))
                    before += len(ordinals)
                    keep[keep] = permutation(ordinals, size, mix(seed, index)) < share
                handle.write(keep.astype(np.uint8).tobytes())
    return shares


def _copy_kept(work: Path, folder: Path) -> None:
    """Copy the rows that `work/keep` marks from `work` to `folder`."""
    keep = read_flat(work / "keep", np.uint8)
    for side in SIDES:
        texts = Ragged(work / side, np.uint8)
        with RaggedWriter(folder / side, np.uint8) as kept:
            for start, stop in _chunks(0, len(texts)):
                marks = keep[start:stop].tolist()
                kept.extend(list(compress(texts.chunk(start, stop), marks)))


def share_out(
    sizes: list[int], limit: int, temperature: float = float("inf")
) -> list[int]:
    """Divide `limit` by `file_shares`; what a small file cannot fill goes to others."""
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


def _chunks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut a range of rows into parts that fit in memory."""
    for first in range(start, stop, CHUNK):
        yield first, min(first + CHUNK, stop)
