"""Vectors of a guide on disk: each distinct sentence is computed once."""

import os
import struct
import tempfile
import uuid
import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from keras_msd import checks
from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError
from keras_msd.checksums import sealed, unsealed
from keras_msd.data.ragged import read_flat
from keras_msd.files import read_table, room_for, text_hash, write_json
from keras_msd.locks import locked_folder
from keras_msd.progress import track

VERSION = 2
META, VECTORS, KEYS, BLOCKS = "store.json", "vectors.f32", "keys.b16", "blocks.log"
KEY = np.dtype("S16")  # a sentence's hash
RECORD = struct.Struct("<QQII")  # of a block: rows from, to, checksum, the record's own
RUN = 1 << 20  # keys that are sorted in memory
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
    """Rows that were written together, and the place of their record in the log."""

    start: int
    end: int
    checksum: int
    place: int


class _Keys:
    """Rows by key, in sorted runs, each at least twice as long as the next.

    Runs of `RUN` keys or more are in temporary files, 24 bytes a key.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Add keys `(n,)` of rows `(n,)`."""
        while self._runs and len(self._runs[-1][0]) < min(2 * len(keys), RUN):
            both = zip(self._runs.pop(), (keys, rows), strict=True)
            keys, rows = map(np.concatenate, both)
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
        if len(keys) >= RUN:
            keys, rows = _on_disk(keys), _on_disk(rows)
        self._runs.append((keys, rows))

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the row of each key, int64 `(n,)`, -1 for one that is not known."""
        order = np.argsort(keys)  # neighbours are found ten times as fast
        keys = keys[order]
        found = np.full(len(keys), -1, np.int64)
        for known, rows in self._runs:
            # Of a key that is there twice the last row counts: the others are damaged.
            places = np.maximum(np.searchsorted(known, keys, "right") - 1, 0)
            same = known[places] == keys
            found[same] = rows[places[same]]
        result = np.empty_like(found)
        result[order] = found
        return result


def _on_disk(values: np.ndarray) -> np.ndarray:
    """Return an array that is in a file without a name."""
    with tempfile.TemporaryFile() as file:
        values.tofile(file)
        return np.memmap(file, values.dtype, "r")


class GuideStore:
    """Vectors of one guide, kept in a folder and found again by the sentence's hash.

    A computed chunk is a block of rows: its vectors and hashes are written first, then
    a record with their checksum. A process that is killed loses the chunk it was
    computing. Several processes may use one folder; one that is complete may be
    read-only.

    A block is checked when one of its rows is first asked for; if it is damaged its
    vectors become NaN and are computed anew, with a warning, as they are asked for.
    Where hashes or the record itself are damaged the sentences get new rows.

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
            for name in (VECTORS, KEYS, BLOCKS):
                if not (self.folder / name).exists():
                    (self.folder / name).touch()
            if not (self.folder / META).exists():
                meta = sealed(mine | {"id": id or uuid.uuid4().hex}, VECTORS)
                write_json(self.folder / META, meta)
        meta = read_table(self.folder / META, repair=LOST)
        if not unsealed(meta, VECTORS) or not isinstance(meta.get("id"), str):
            raise InputError(
                f"`{self.folder / META}` must be as it was written. Received: "
                f"{meta!r:.200}. {LOST}"
            )
        if meta.get("version") != VERSION:
            raise InputError(
                f"`{self.folder}` must be a store of version {VERSION}. Received: "
                f"version {meta.get('version')}. {LOST}"
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
        self._blocks: list[Block] = []
        self._read = 0  # records of the log that were read
        self._rows = _Keys()
        self._refresh()

    def _refresh(self) -> None:
        """Read the records that were written since the last look."""
        path = self.folder / BLOCKS
        first, count = self._read, path.stat().st_size // RECORD.size
        if count <= first:
            return
        keys = read_flat(self.folder / KEYS, np.uint8)
        keys = keys[: len(keys) // KEY.itemsize * KEY.itemsize].view(KEY)
        data = np.fromfile(path, np.uint8, offset=first * RECORD.size)
        for place in range(first, count):
            found = self._record_of(data, place - first)
            if found and found[1] <= len(keys):
                start, end, _ = found
                self._blocks.append(Block(*found, place))
                self._rows.add(np.array(keys[start:end]), np.arange(start, end))
            else:
                warnings.warn(
                    f"A record of `{path}` is damaged: its vectors are computed anew.",
                    stacklevel=4,
                )
        self._read = count

    def _record_of(self, data: np.ndarray, place: int) -> tuple[int, int, int] | None:
        """Return rows and checksum of a record; None if it is not as it was written."""
        *found, own = RECORD.unpack_from(data.data, place * RECORD.size)
        return tuple(found) if own == self._own(*found) else None

    def _own(self, start: int, end: int, checksum: int) -> int:
        return zlib.crc32(f"{self.id} {start} {end} {checksum}".encode())

    def _record(self, start: int, end: int, place: int) -> Block:
        """Write the record of a block at a place of the log."""
        block = Block(start, end, self._checksum(start, end), place)
        record = RECORD.pack(*block[:3], self._own(*block[:3]))
        self._write(BLOCKS, {place * RECORD.size: record})
        return block

    def _checksum(self, start: int, end: int) -> int:
        found = 0
        for name, width in ((KEYS, KEY.itemsize), (VECTORS, 4 * self.dim)):
            size = (end - start) * width
            data = np.fromfile(self.folder / name, np.uint8, size, offset=start * width)
            found = zlib.crc32(data.data, found)
        return found

    def _write(self, name: str, parts: dict[int, bytes]) -> None:
        """Write bytes of a file at their places."""
        path = self.folder / name
        with room_for(path), open(path, "r+b") as handle:
            for place, data in parts.items():
                handle.seek(place)
                handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())

    @property
    def chunk_size(self) -> int:
        """Sentences that the guide is given at a time."""
        return max(1, min(CHUNK_SENTENCES, CHUNK_BYTES // (4 * self.dim)))

    def __len__(self) -> int:
        self._refresh()
        return sum(block.end - block.start for block in self._blocks)

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
        found = self._look_up(keys)
        return np.fromiter((found[key] for key in keys), np.int64, len(keys))

    def lost(self, rows: np.ndarray) -> bool:
        """Tell whether vectors at these rows must be computed again.

        Blocks of theirs that were not looked at yet are compared with their checksums.
        """
        self._refresh()
        ends = np.array([block.end for block in self._blocks], np.int64)
        starts = np.array([block.start for block in self._blocks], np.int64)
        touched, outside = set[int](), False
        # The rows may be those of a whole table.
        for part in np.array_split(rows, 1 + len(rows) // CHUNK_SENTENCES):
            places = np.searchsorted(ends, part, "right")
            inside = places < len(ends)
            inside[inside] = starts[places[inside]] <= part[inside]
            outside |= not inside.all()
            touched.update(np.unique(places[inside]).tolist())
        for place in touched:
            if self._blocks[place].start not in self._whole:
                self._look_at(place)
        return outside or bool(self._lost) and bool(np.isin(rows, [*self._lost]).any())

    def _look_at(self, place: int) -> None:
        """Compare a block with its checksum; if it differs its vectors become NaN."""
        block = self._blocks[place]
        if self._checksum(block.start, block.end) != block.checksum:
            with locked_folder(self.folder):
                log = np.fromfile(self.folder / BLOCKS, np.uint8)
                now = self._record_of(log, block.place)
                # Another process may have mended it meanwhile.
                if now is None or self._checksum(*now[:2]) != now[2]:
                    self._blocks[place] = self._give_up(block)
        size, before = (block.end - block.start) * self.dim, block.start * self.dim
        data = np.fromfile(self._path, np.float32, size, offset=4 * before)
        broken = np.isnan(data[:: self.dim])
        self._lost |= {*(block.start + np.flatnonzero(broken)).tolist()}
        self._whole.add(block.start)

    def _give_up(self, block: Block) -> Block:
        count = block.end - block.start
        warnings.warn(
            f"A block of `{self._path}` is damaged: {count} vectors are computed anew.",
            stacklevel=5,
        )
        # A row keeps its place, as tables on disk rely on it.
        nothing = np.full((count, self.dim), np.nan, np.float32)
        self._write(VECTORS, {block.start * 4 * self.dim: nothing.tobytes()})
        return self._record(block.start, block.end, block.place)

    def _look_up(self, keys: list[bytes]) -> dict[bytes, int]:
        """Return the row of every key that has a whole vector."""
        self._refresh()
        rows = self._rows.find(np.array(keys, KEY))
        self.lost(rows[rows >= 0])
        both = zip(keys, rows.tolist(), strict=True)
        return {key: row for key, row in both if row >= 0 and row not in self._lost}

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
        """Write vectors: over those that were lost, others in a new block."""
        with locked_folder(self.folder):  # one writer at a time, in all processes
            self._refresh()
            rows = self._rows.find(np.array(keys, KEY)).tolist()
            again = {row: i for i, row in enumerate(rows) if row in self._lost}
            size = 4 * self.dim
            if again:
                parts = {row * size: vectors[i].tobytes() for row, i in again.items()}
                self._write(VECTORS, parts)
                for place, block in enumerate(self._blocks):
                    if any(block.start <= row < block.end for row in again):
                        self._blocks[place] = self._record(*block[:2], block.place)
                self._lost.difference_update(again)
            new = [i for i, row in enumerate(rows) if row < 0]
            if new:
                # Rows that a killed process wrote, or whose record is damaged, stay.
                widths = {VECTORS: size, KEYS: KEY.itemsize}
                sizes = ((self.folder / it).stat().st_size for it in widths)
                both = zip(sizes, widths.values(), strict=True)
                start = max(-(-there // width) for there, width in both)
                own = b"".join(keys[i] for i in new)
                self._write(VECTORS, {start * size: vectors[new].tobytes()})
                self._write(KEYS, {start * KEY.itemsize: own})
                self._record(start, start + len(new), self._read)
                self._whole.add(start)
                self._refresh()


@dataclass(frozen=True)
class StoredGuide:
    """The guide of a store, which keeps what is encoded.

    Args:
        store: The store.
    """

    store: GuideStore

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.store.dim

    @property
    def fingerprint(self) -> str:
        """Hash of the guide's weights and settings."""
        return self.store.guide.fingerprint

    @property
    def languages(self) -> tuple[str, ...] | None:
        """Codes of those that the guide reads; None for any."""
        return getattr(self.store.guide, "languages", None)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return float32 `(n, dim)`, from the store where it has them."""
        return self.store.targets(texts)


def checked_slices(sentences: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield lists of at most `size` sentences; check each."""
    if isinstance(sentences, str):
        checks.sentences(sentences, "sentences")  # which says what is wrong
    for number, texts in enumerate(in_chunks(sentences, size)):
        yield checks.sentences(texts, "sentences", number * size)
