"""Vectors of a guide on disk: each distinct sentence is computed once."""

import os
import sqlite3
import struct
import uuid
import warnings
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import compress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from keras_msd import checks
from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError
from keras_msd.data.ragged import read_flat
from keras_msd.data.store_index import (
    INDEX,
    BrokenIndexError,
    begin_index,
    index_count,
    index_places,
    open_index,
)
from keras_msd.files import read_table, remove, room_for, text_hash, write_json
from keras_msd.locks import locked_folder
from keras_msd.progress import track
from keras_msd.seals import sealed, unsealed

VERSION = 1
META, VECTORS, KEYS, BLOCKS = "store.json", "vectors.f32", "keys.b16", "blocks.log"
KEY_BYTES = 16
RECORD = struct.Struct("<QII")  # of a block: its end, its checksum, the record's own
LOST = "Delete the folder: its vectors are computed again."
CHUNK_SENTENCES, CHUNK_BYTES = 16384, 1 << 26  # given to the guide at a time


class Guide(Protocol):
    """A source of target vectors: a teacher, an encoder or its embedding block."""

    @property
    def dim(self) -> int:
        """Width of a vector."""

    @property
    def fingerprint(self) -> str:
        """Hash of the weights and of the settings."""

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return float `(n, dim)`."""


class Block(NamedTuple):
    """Rows that were written together."""

    start: int
    end: int
    checksum: int


class GuideStore:
    """Vectors of one guide, kept in a folder and found again by the sentence's hash.

    A computed chunk is safe once its keys are committed to the index, which happens
    after its vectors are on the disk. A process that is killed loses the chunk it was
    computing; whatever it left behind the last committed vector is overwritten.
    Several processes may use one folder; one that is complete may be read-only.

    The hash of each sentence stands beside its vector, too, and each chunk has a
    checksum. An index that is damaged is made again from the hashes. A chunk is checked
    when one of its rows is first asked for; if it is damaged its vectors become NaN and
    are computed anew, with a warning, as they are asked for.

    Args:
        guide: Has `encode(texts)`, `dim` and `fingerprint`.
        folder: Where the store lives; it is made if it is not there.
        id: What row numbers of a new store go by; by default drawn at random.

    Raises:
        InputError: The folder belongs to another guide or is no store.

    Example:
        >>> store = msd.data.GuideStore(msd.testing.tiny_encoder(), "vectors")
        >>> store.targets(["A dog.", "A cat.", "A dog."]).shape
        (3, 16)
        >>> len(store)
        2
    """

    def __init__(self, guide: Guide, folder: str | Path, id: str = "") -> None:
        self.guide, self.folder = guide, Path(folder)
        self.dim, self.fingerprint = int(guide.dim), guide.fingerprint
        self.folder.mkdir(parents=True, exist_ok=True)
        mine = {"version": VERSION, "dim": self.dim, "fingerprint": self.fingerprint}
        with locked_folder(self.folder):
            if not (self.folder / META).exists():
                meta = sealed(mine | {"id": id or uuid.uuid4().hex}, VECTORS)
                write_json(self.folder / META, meta)
        meta = read_table(self.folder / META, repair=LOST)
        whole = "seal" not in meta or unsealed(meta, VECTORS)  # once there was none
        if not whole or not isinstance(meta.get("id"), str):
            raise InputError(
                f"`{self.folder / META}` must be as it was written. Received: "
                f"{meta!r:.200}. {LOST}"
            )
        for name, value in mine.items():
            if meta.get(name) != value:
                raise InputError(
                    f"`{self.folder}` belongs to another guide. Received: {name} "
                    f"{value!r}; in the folder: {meta.get(name)!r}. Give each guide a "
                    "folder of its own."
                )
        self.id: str = meta["id"]  # row numbers hold for this id only
        self._path = self.folder / VECTORS
        self._mapped = np.zeros((0, self.dim), np.float32)
        self._whole: set[int] = set()  # starts of blocks that were looked at
        self._lost: set[int] = set()  # rows in them whose vectors were damaged
        self._log: list[Block] = []
        if not self._agrees():
            self._mend()

    def _agrees(self) -> bool:
        """Tell whether the index is of this store and knows every block."""
        blocks = self._blocks()
        try:
            with open_index(self.folder) as index:
                (owner,) = index.execute("SELECT id FROM owner").fetchone()
                return owner == self.id and index_count(index) == _end(blocks)
        except (BrokenIndexError, TypeError):  # no such table, no such row
            return False

    def _mend(self, broken: str = "") -> None:
        """Bring index and blocks together; a broken index is made again from them."""
        with locked_folder(self.folder):
            for name in (VECTORS, KEYS, BLOCKS):
                (self.folder / name).touch()
            if not broken:
                try:
                    return self._meet()
                except BrokenIndexError as error:
                    broken = str(error)
            warnings.warn(
                f"The index of `{self.folder}` is made again ({broken}).", stacklevel=4
            )
            remove(self.folder / f"{INDEX}-journal")
            remove(self.folder / INDEX)
            self._meet()

    def _meet(self) -> None:
        with open_index(self.folder) as index:
            index.execute("BEGIN IMMEDIATE")
            begin_index(index, self.id)
            known, count = _end(self._blocks()), index_count(index)
            if count > known:
                self._adopt(index, known, count)
            elif count < known:
                keys = self._keys()[count:known]
                rows = sorted((key.tobytes(), count + i) for i, key in enumerate(keys))
                index.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", rows)
                index.execute("UPDATE total SET count = ?", (known,))
            index.execute("COMMIT")

    def _adopt(self, index: sqlite3.Connection, start: int, end: int) -> None:
        """Write blocks for rows that the index alone knows."""
        query = "SELECT key FROM keys WHERE place >= ? AND place < ? ORDER BY place"
        keys = [key for (key,) in index.execute(query, (start, end))]
        there = self._path.stat().st_size // (4 * self.dim)
        if len(keys) != end - start or there < end:
            raise BrokenIndexError(f"{end - start} rows, {len(keys)} keys")
        os.truncate(self.folder / BLOCKS, len(self._blocks()) * RECORD.size)
        for first in range(start, end, self.chunk_size):
            last = min(first + self.chunk_size, end)
            own = b"".join(keys[first - start : last - start])
            self._write(KEYS, {first * KEY_BYTES: own})
            self._record(first, last)

    @property
    def chunk_size(self) -> int:
        """Sentences that the guide is given at a time."""
        return max(1, min(CHUNK_SENTENCES, CHUNK_BYTES // (4 * self.dim)))

    def _blocks(self) -> list[Block]:
        """Return the blocks up to the first whose record is not as it was written."""
        path, blocks = self.folder / BLOCKS, self._log
        size = path.stat().st_size if path.exists() else 0
        if size < len(blocks) * RECORD.size:
            blocks.clear()
        if size >= (len(blocks) + 1) * RECORD.size:  # what others have added
            data = np.fromfile(path, np.uint8, offset=len(blocks) * RECORD.size)
            whole = len(data) // RECORD.size * RECORD.size
            for found in RECORD.iter_unpack(data[:whole].data):
                start = _end(blocks)
                if found[2] != self._own(start, *found[:2]):
                    break
                blocks.append(Block(start, *found[:2]))
        return blocks

    def _own(self, start: int, end: int, checksum: int) -> int:
        return zlib.crc32(f"{self.id} {start} {end} {checksum}".encode())

    def _record(self, start: int, end: int) -> None:
        """Write the record of a block over the old one, or behind the last."""
        block = Block(start, end, self._checksum(start, end))
        place = bisect_left(self._log, (start,))
        self._log[place : place + 1] = [block]
        record = RECORD.pack(end, block.checksum, self._own(*block))
        self._write(BLOCKS, {place * RECORD.size: record})

    def _checksum(self, start: int, end: int) -> int:
        found = 0
        for name, width in ((KEYS, KEY_BYTES), (VECTORS, 4 * self.dim)):
            size = (end - start) * width
            data = np.fromfile(self.folder / name, np.uint8, size, offset=start * width)
            found = zlib.crc32(data.data, found)
        return found

    def _write(self, name: str, parts: dict[int, bytes], cut: bool = False) -> None:
        """Write rows of a file at their places, or all behind a place."""
        path = self.folder / name
        with room_for(path), open(path, "r+b") as handle:
            if cut:
                handle.truncate(min(parts))
            for place, data in parts.items():
                handle.seek(place)
                handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())

    def _keys(self) -> np.ndarray:
        flat = read_flat(self.folder / KEYS, np.uint8)
        return flat[: len(flat) // KEY_BYTES * KEY_BYTES].reshape(-1, KEY_BYTES)

    def __len__(self) -> int:
        with open_index(self.folder) as index:
            return index_count(index)

    def targets(self, sentences: list[str]) -> np.ndarray:
        """Return the vectors of sentences, computing those that are missing.

        Args:
            sentences: Any texts, repeats and empty ones included.

        Returns:
            float32 `(n, dim)`.

        Raises:
            InputError: The guide gives another width, or a number that is not finite;
                or the disk is full. What was computed before stays.
        """
        return self.vectors(self.rows(sentences))

    def rows(self, sentences: list[str]) -> np.ndarray:
        """Return the row of each sentence, int64 `(n,)`; missing vectors are computed.

        A sentence keeps its row as long as the folder lives.

        Raises:
            InputError: As `targets`.
        """
        self.build(sentences, progress=False)
        keys = [text_hash(text) for text in sentences]
        places = self._look_up(keys)
        return np.fromiter((places[key] for key in keys), np.int64, len(keys))

    def lost(self, rows: np.ndarray) -> bool:
        """Tell whether vectors at these rows must be computed again.

        Blocks of theirs that were not looked at yet are compared with their checksums.
        """
        for block in self._touched(rows):
            if block.start not in self._whole:
                self._look_at(block)
        return bool(self._lost) and bool(np.isin(rows, list(self._lost)).any())

    def _touched(self, rows: np.ndarray) -> list[Block]:
        """Return the blocks of these rows, which may be those of a whole table."""
        blocks, found = self._blocks(), set[int]()
        ends = np.array([block.end for block in blocks], np.int64)
        for part in np.array_split(rows, 1 + len(rows) // CHUNK_SENTENCES):
            found.update(np.unique(np.searchsorted(ends, part, "right")).tolist())
        return [block for place, block in enumerate(blocks) if place in found]

    def _look_at(self, block: Block) -> None:
        """Compare a block with its checksum; if it differs its vectors become NaN."""
        if self._checksum(block.start, block.end) != block.checksum:
            with open_index(self.folder) as index:
                index.execute("BEGIN IMMEDIATE")
                self._log.clear()  # another process may have mended it meanwhile
                now = [it for it in self._blocks() if it.start == block.start]
                if now and self._checksum(*now[0][:2]) != now[0].checksum:
                    self._give_up(index, now[0])
        size, before = (block.end - block.start) * self.dim, block.start * self.dim
        data = np.fromfile(self._path, np.float32, size, offset=4 * before)
        broken = np.isnan(data[:: self.dim])
        self._lost |= {*(block.start + np.flatnonzero(broken)).tolist()}
        self._whole.add(block.start)

    def _give_up(self, index: sqlite3.Connection, block: Block) -> None:
        count = block.end - block.start
        warnings.warn(
            f"A block of `{self._path}` is damaged: {count} vectors are computed anew.",
            stacklevel=4,
        )
        # A row keeps its place, as tables on disk rely on it.
        nothing = np.full((count, self.dim), np.nan, np.float32)
        self._write(VECTORS, {block.start * 4 * self.dim: nothing.tobytes()})
        query = "SELECT place, key FROM keys WHERE place >= ? AND place < ?"
        rows = index.execute(query, block[:2])
        self._write(KEYS, {place * KEY_BYTES: key for place, key in rows})
        self._record(block.start, block.end)

    def _look_up(self, keys: list[bytes]) -> dict[bytes, int]:
        """Return the row of every key that has a whole vector."""
        try:
            places = self._checked_places(keys)
        except BrokenIndexError as error:
            self._mend(str(error))
            places = self._checked_places(keys)
        return {key: row for key, row in places.items() if row not in self._lost}

    def _checked_places(self, keys: list[bytes]) -> dict[bytes, int]:
        with open_index(self.folder) as index:
            places = index_places(index, keys)
        rows = np.fromiter(places.values(), np.int64, len(places))
        self.lost(rows)
        known = self._keys()
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(known):
            raise BrokenIndexError("rows that are not there")
        if known[rows].tobytes() != b"".join(places):
            raise BrokenIndexError("keys at wrong rows")
        return places

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors at `rows`, a float32 copy `(n, dim)`.

        Safe to call from several threads.
        """
        mapped = self._mapped
        if len(rows) and int(np.max(rows)) >= len(mapped):
            # The file may end in part of a vector that another process is writing.
            shape = (self._path.stat().st_size // (4 * self.dim), self.dim)
            self._mapped = mapped = np.memmap(self._path, np.float32, "r", shape=shape)
        found = np.asarray(mapped[rows])
        if np.isnan(found[:, 0]).any():
            raise InputError(
                f"`{self._path}` was damaged. Received: no vector at row "
                f"{rows[np.isnan(found[:, 0])][0]}. Build the vectors again, or run "
                "again: what was lost is computed anew."
            )
        return found

    def build(
        self, sentences: Iterable[str], total: int | None = None, progress: bool = True
    ) -> None:
        """Compute the vectors of all sentences that are not in the store.

        Args:
            sentences: Read as a stream, so that any number fits in memory.
            total: Number of sentences, if known, for the progress bar.
            progress: Show a bar when it takes longer than a second.

        Raises:
            InputError: As `targets`.
        """
        size = self.chunk_size
        slices = checked_slices(sentences, size)
        if progress:
            slices = track(slices, total=total, what="Guide vectors", steps=size)
        missing: dict[bytes, str] = {}
        for texts in slices:
            keys = {text_hash(text): text for text in texts}
            known = self._look_up(list(keys))
            # In the order of reading: batches, and with them a vector's last bits, must
            # not hang on how a process orders its sets.
            missing |= {key: text for key, text in keys.items() if key not in known}
            if len(missing) >= size:
                self._compute(missing)
                missing = {}
        if missing:
            self._compute(missing)

    def _compute(self, missing: dict[bytes, str]) -> None:
        texts = list(missing.values())
        with np.errstate(over="ignore"):  # what overflows is reported below
            vectors = np.asarray(self.guide.encode(texts)).astype(np.float32)
        if vectors.shape != (len(texts), self.dim):
            raise InputError(
                "A guide must give one vector of `dim` numbers per sentence. Received: "
                f"shape {vectors.shape} for {len(texts)} sentences, dim={self.dim}."
            )
        finite = np.isfinite(vectors).min(axis=1).tolist()
        self._append(list(compress(missing, finite)), vectors[finite])
        if not all(finite):
            raise InputError(
                "A guide's vectors must be finite. Received: NaN or infinity for the "
                f"sentence {texts[finite.index(False)]!r:.200}. Repair the guide or "
                "remove the sentence."
            )

    def _append(self, keys: list[bytes], vectors: np.ndarray) -> None:
        """Write vectors behind the last committed one, then commit their keys."""
        with open_index(self.folder) as index:
            index.execute("BEGIN IMMEDIATE")  # one writer at a time, in all processes
            known, count = index_places(index, keys), index_count(index)
            if _end(self._blocks()) < count:
                self._adopt(index, _end(self._log), count)
            # A killed process wrote those behind the last commit.
            self._log[:] = [block for block in self._log if block.end <= count]
            new = [place for place, key in enumerate(keys) if key not in known]
            again = {known[key]: i for i, key in enumerate(keys) if key in known}
            if again:
                self._write_again({row: vectors[i] for row, i in again.items()})
            if new:
                data, end = vectors[new].tobytes(), count + len(new)
                own = b"".join(keys[place] for place in new)
                self._write(VECTORS, {count * 4 * self.dim: data}, cut=True)
                self._write(KEYS, {count * KEY_BYTES: own}, cut=True)
                self._record(count, end)
                self._whole.add(count)
                # Neighbouring keys share pages of the index.
                rows = sorted((keys[place], count + i) for i, place in enumerate(new))
                index.executemany("INSERT INTO keys VALUES (?, ?)", rows)
                index.execute("UPDATE total SET count = ?", (end,))
            index.execute("COMMIT")

    def _write_again(self, vectors: dict[int, np.ndarray]) -> None:
        """Write vectors over those that were lost."""
        rows = np.array(sorted(self._lost.intersection(vectors)), np.int64)
        parts = {int(row) * 4 * self.dim: vectors[row].tobytes() for row in rows}
        self._write(VECTORS, parts)
        for block in self._touched(rows):
            self._record(block.start, block.end)
        self._lost.difference_update(rows.tolist())


def _end(blocks: list[Block]) -> int:
    return blocks[-1].end if blocks else 0


def checked_slices(sentences: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield lists of at most `size` sentences; check each."""
    if isinstance(sentences, str):
        checks.sentences(sentences, "sentences")  # which says what is wrong
    for number, texts in enumerate(in_chunks(sentences, size)):
        yield checks.sentences(texts, "sentences", number * size)
