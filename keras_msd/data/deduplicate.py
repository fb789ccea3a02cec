"""Exact duplicates found on disk: 128-bit hashes, one partition in memory at a time."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

RECORD = np.dtype([("high", ">u8"), ("low", ">u8"), ("row", "<i8")])
BITS = 6  # of the hash, to pick one of 64 partitions
LEVELS = 64 // BITS


class Deduplicator:
    """Tells which rows repeat an earlier row.

    Memory holds about `partition_rows` records of 24 bytes, however many rows there
    are: a partition that is larger is split again by further bits of the hash.

    Args:
        folder: An empty folder for the partitions, which are deleted while read.
        partition_rows: Most rows that are compared in memory at once.
    """

    def __init__(self, folder: Path, partition_rows: int = 1 << 15) -> None:
        self.folder, self.partition_rows = folder, partition_rows
        self.count = 0
        self._pending: list[bytes] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, key: bytes) -> None:
        """Take the 16-byte hash of the next row; rows are numbered from 0."""
        self._pending.append(key)
        if len(self._pending) == self.partition_rows:
            self._flush()

    def _flush(self) -> None:
        records = hash_records(self._pending, self.count)
        self.count += len(records)
        self._pending.clear()
        _scatter(records, self.folder / "0", level=0)

    def write_repeats(self, path: Path) -> None:
        """Write one byte per row: 1 if an earlier row has the same hash, else 0."""
        self._flush()
        path.write_bytes(b"")
        if self.count == 0:
            return
        repeats = np.memmap(path, np.uint8, "w+", shape=(self.count,))
        for rows in self._repeats(self.folder / "0", level=0):
            repeats[rows] = 1
        repeats.flush()

    def _repeats(self, folder: Path, level: int) -> Iterator[np.ndarray]:
        """Yield row numbers of repeats; delete the partitions in `folder`."""
        for path in sorted(folder.glob("*.part")):
            count = path.stat().st_size // RECORD.itemsize
            if count <= self.partition_rows or level == LEVELS - 1:
                yield split_repeats(np.fromfile(path, RECORD))[1]
            else:
                finer = path.with_suffix("")
                for start in range(0, count, self.partition_rows):
                    records = np.fromfile(
                        path, RECORD, self.partition_rows, offset=start * 24
                    )
                    # A line that occurs a million times would stay together at every
                    # level; only its first occurrence goes on.
                    records, rows = split_repeats(records)
                    yield rows
                    _scatter(records, finer, level + 1)
                yield from self._repeats(finer, level + 1)
            path.unlink()


def hash_records(keys: Sequence[bytes], first: int) -> np.ndarray:
    """Return a `RECORD` for each of consecutive rows, the first of which is `first`."""
    records = np.empty(len(keys), RECORD)
    halves = np.frombuffer(b"".join(keys), ">u8").reshape(-1, 2)
    records["high"], records["low"] = halves.T
    records["row"] = np.arange(first, first + len(records))
    return records


def split_repeats(records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first record of each hash, and the row numbers of all others.

    Args:
        records: In the order of their rows.
    """
    order = np.lexsort((records["low"], records["high"]))  # stable: rows stay in order
    ordered = records[order]
    same = np.zeros(len(records), bool)
    keys = ordered[["high", "low"]]
    same[1:] = keys[1:] == keys[:-1]
    first = np.sort(order[~same])
    return records[first], ordered["row"][same]


def _scatter(records: np.ndarray, folder: Path, level: int) -> None:
    """Append each record to the file of its partition."""
    folder.mkdir(exist_ok=True)
    for part, some in partitions(records, level):
        with open(folder / f"{part:02d}.part", "ab") as file:
            file.write(some.tobytes())


def partitions(records: np.ndarray, level: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the partitions that six bits of the hashes name, with their records."""
    shift = np.uint64(64 - BITS * (level + 1))
    parts = (records["high"].astype(np.uint64) >> shift) % np.uint64(1 << BITS)
    order = np.argsort(parts, kind="stable")
    edges = np.searchsorted(parts[order], np.arange((1 << BITS) + 1))
    for part, (start, end) in enumerate(pairwise(edges)):
        if end > start:
            yield part, records[order[start:end]]
