"""Embeddings of a guide on disk: each distinct sentence is computed once."""

import os
import uuid
import warnings
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, compress
from pathlib import Path
from typing import Protocol

import numpy as np
from filelock import FileLock

from keras_msd import checks
from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least
from keras_msd.data.tables import read_flat
from keras_msd.io.files import (
    add_seal,
    explain_full_disk,
    read_metadata,
    text_hash,
    write_json,
)
from keras_msd.progress import track

VERSION = 2
META, VECTORS, KEYS, BLOCKS = "store.json", "vectors.f32", "keys.b16", "blocks.log"
LOCK = ".lock"
KEY = np.dtype("S16")  # a sentence's hash
# A block: its first row, the row after its last, their checksum, that of the record.
RECORD = np.dtype([("start", "<u8"), ("end", "<u8"), ("crc", "<u4"), ("own", "<u4")])
CHUNK_SENTENCES, CHUNK_BYTES = 16384, 1 << 26  # limits of one call of the guide
SHARDS = 16  # of a new `ShardedStore`
SLICE = 8192  # sentences that are assigned to shards at a time


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


class _Keys:
    """Rows by key: sorted keys `(n,)` and the row of each, 24 bytes together."""

    def __init__(self) -> None:
        self._keys, self._rows = np.zeros(0, KEY), np.zeros(0, np.int64)

    def add(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Add keys `(n,)` of rows `(n,)`."""
        order = np.argsort(keys, kind="stable")
        places = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, places, keys[order])
        self._rows = np.insert(self._rows, places, rows[order])

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the row of each key, int64 `(n,)`, -1 for one that is not known."""
        found, last = np.full(len(keys), -1, np.int64), len(self._keys) - 1
        if last >= 0:
            order = np.argsort(keys)  # neighbours are found ten times as fast
            places = np.minimum(np.searchsorted(self._keys, keys[order]), last)
            known = self._keys[places] == keys[order]
            found[order[known]] = self._rows[places[known]]
        return found


class GuideStore:
    """Embeddings of one guide in a folder, found by the hash of the sentence.

    A computed chunk is stored as a block of rows. Its vectors and hashes are written
    first, then a record with their checksum. So a killed process loses only the chunk
    it was computing. Several processes can use one folder; a complete store can be
    read-only. When the folder is opened, each block is compared with its checksum. A
    damaged block is dropped, with a warning, and its sentences are computed again.

    Args:
        guide: Provides `encode(texts)`, `dim` and `fingerprint`.
        folder: Folder of the store; created if it is missing.
        id: Name of a new store, part of its checksums; random by default.

    Raises:
        InputError: The folder belongs to another guide, or is not a store.

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
        files = [self.folder / name for name in (VECTORS, KEYS, BLOCKS, META)]
        if not all(path.exists() for path in files):  # a whole one may be read-only
            with FileLock(self.folder / LOCK):
                for path in files[:-1]:
                    path.touch()
                if not (self.folder / META).exists():
                    meta = add_seal(mine | {"id": id or uuid.uuid4().hex}, VECTORS)
                    write_json(self.folder / META, meta)
        meta = read_metadata(self.folder / META, VERSION, VECTORS)
        for name, value in mine.items():
            if meta.get(name) != value:
                raise InputError(
                    f"`{self.folder}` belongs to another guide. Received: {name} "
                    f"{value!r}; in the folder: {meta.get(name)!r}. Give each guide a "
                    "folder of its own."
                )
        self.id: str = meta["id"]
        self._mapped = np.zeros((0, self.dim), np.float32)
        self._keys = _Keys()
        self._count = self._read = 0  # rows; records of the log that were read
        self._refresh()

    def _refresh(self) -> None:
        """Read the records that were written since the last call."""
        path = self.folder / BLOCKS
        if path.stat().st_size // RECORD.itemsize <= self._read:
            return
        new = []
        for record in np.fromfile(path, RECORD, offset=self._read * RECORD.itemsize):
            start, end, crc, own = record.tolist()
            if own != self._own(start, end, crc) or crc != self._checksum(start, end):
                warnings.warn(
                    f"A block of `{self.folder}` is damaged: its vectors are computed "
                    "again.",
                    stacklevel=4,
                )
                self._write_record(0, 0)
            else:
                new.append(np.arange(start, end))
                self._count += end - start
            self._read += 1
        keys = read_flat(self.folder / KEYS, np.uint8)
        whole = len(keys) - len(keys) % KEY.itemsize
        rows = np.concatenate([np.zeros(0, np.int64), *new])
        self._keys.add(keys[:whole].view(KEY)[rows], rows)

    def _checksum(self, start: int, end: int) -> int:
        """Return the checksum of the hashes and vectors of some rows."""
        crc = 0
        for name, width in ((KEYS, KEY.itemsize), (VECTORS, 4 * self.dim)):
            with open(self.folder / name, "rb") as handle:
                handle.seek(start * width)
                crc = zlib.crc32(handle.read((end - start) * width), crc)
        return crc

    def _own(self, start: int, end: int, crc: int) -> int:
        """Return the checksum of a record itself."""
        return zlib.crc32(f"{self.id} {start} {end} {crc}".encode())

    def _write_record(self, start: int, end: int) -> None:
        """Write the record of some rows as the next one in the log."""
        crc = self._checksum(start, end)
        record = np.array((start, end, crc, self._own(start, end, crc)), RECORD)
        self._write(BLOCKS, self._read * RECORD.itemsize, record)

    def _write(self, name: str, place: int, data: np.ndarray) -> None:
        """Write an array into a file, from byte `place` on."""
        path = self.folder / name
        with explain_full_disk(path), open(path, "r+b") as handle:
            handle.seek(place)
            handle.write(data.tobytes())
            handle.flush()
            os.fsync(handle.fileno())

    @property
    def chunk_size(self) -> int:
        """Sentences that the guide is given at a time."""
        return max(1, min(CHUNK_SENTENCES, CHUNK_BYTES // (4 * self.dim)))

    def __len__(self) -> int:
        self._refresh()
        return self._count

    @property
    def languages(self) -> tuple[str, ...] | None:
        """Codes of those that the guide reads; None for any."""
        return getattr(self.guide, "languages", None)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return `targets`, so that a store can be used as a guide."""
        return self.targets(texts)

    def targets(self, sentences: list[str]) -> np.ndarray:
        """Return the vectors of sentences, computing those that are missing.

        Args:
            sentences: Any texts, repeats and empty ones included.

        Returns:
            float32 `(n, dim)`.

        Raises:
            InputError: The guide returns another dimension, or a number that is not
                finite; or the disk is full. Earlier chunks stay in the store.
        """
        return self.vectors(self.rows(sentences))

    def rows(self, sentences: list[str]) -> np.ndarray:
        """Return the row of each sentence, int64 `(n,)`; missing vectors are computed.

        The rows are valid as long as this object exists.

        Raises:
            InputError: As `targets`.
        """
        texts = checks.sentences(sentences, "sentences")
        keys = [text_hash(text) for text in texts]
        rows = self._find(keys)
        if (rows < 0).any():
            self.build(texts, progress=False)
            rows = self._find(keys)
        return rows

    def _find(self, keys: list[bytes]) -> np.ndarray:
        """Return the row of each key, int64 `(n,)`, -1 for one that is not known."""
        self._refresh()
        return self._keys.find(np.array(keys, KEY))

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors at `rows`, a float32 copy `(n, dim)`.

        Safe to call from several threads.
        """
        mapped = self._mapped
        if len(rows) and int(np.max(rows)) >= len(mapped):
            path = self.folder / VECTORS
            # The file may end in part of a vector that another process is writing.
            shape = (path.stat().st_size // (4 * self.dim), self.dim)
            self._mapped = mapped = np.memmap(path, np.float32, "r", shape=shape)
        return np.asarray(mapped[rows])

    def build(
        self, sentences: Iterable[str], total: int | None = None, progress: bool = True
    ) -> None:
        """Compute the vectors of all sentences that are not in the store.

        Args:
            sentences: Any number of sentences; they are read as a stream.
            total: Number of sentences, if known, for the progress bar.
            progress: Whether to show a progress bar if it takes longer than a second.

        Raises:
            InputError: See `targets`.
        """
        size = self.chunk_size
        missing: dict[bytes, str] = {}
        for texts in checked_slices(sentences, size, total, progress):
            keys = [text_hash(text) for text in texts]
            unknown = self._find(keys) < 0
            missing |= compress(zip(keys, texts, strict=True), unknown.tolist())
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
        """Write the vectors that are not there yet as a new block."""
        with FileLock(self.folder / LOCK):  # one writer at a time, in all processes
            new = self._find(keys) < 0
            if not new.any():
                return
            added = np.array(keys, KEY)[new]
            # Skip rows that a killed process wrote, or whose record is damaged.
            widths = {VECTORS: 4 * self.dim, KEYS: KEY.itemsize}
            sizes = {name: (self.folder / name).stat().st_size for name in widths}
            start = max(-(-sizes[name] // width) for name, width in widths.items())
            self._write(VECTORS, start * widths[VECTORS], vectors[new])
            self._write(KEYS, start * widths[KEYS], added)
            self._write_record(start, start + len(added))
            self._refresh()


class ShardedStore:
    """Embeddings of one guide in several stores, selected by the sentence's hash.

    It can replace a `GuideStore`. Each shard is a `GuideStore` in its own folder, and
    can be written and copied separately.

    Args:
        guide: See `GuideStore`.
        folder: Folder of the shards; created if it is missing.
        shards: Number of shards in a new folder, by default 16.

    Attributes:
        stores: The `GuideStore` of each shard.

    Raises:
        InputError: See `GuideStore`; or the folder has another number of shards.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> store = msd.data.ShardedStore(encoder, "shards", shards=4)
        >>> store.targets(["A dog.", "A cat.", "A dog."]).shape
        (3, 16)
        >>> len(store), len(store.stores)
        (2, 4)
    """

    def __init__(
        self, guide: Guide, folder: str | Path, shards: int | None = None
    ) -> None:
        at_least(1, shards=shards)
        self.guide, self.folder = guide, Path(folder)
        count = _count(self.folder, shards)
        folders = (self.folder / shard_name(shard, count) for shard in range(count))
        self.stores = [GuideStore(guide, place) for place in folders]
        self.dim, self.fingerprint = self.stores[0].dim, self.stores[0].fingerprint

    def __len__(self) -> int:
        return sum(map(len, self.stores))

    def targets(self, sentences: list[str]) -> np.ndarray:
        """Return the vectors of sentences, float32 `(n, dim)`; as a `GuideStore`."""
        return self.vectors(self.rows(sentences))

    def rows(self, sentences: list[str]) -> np.ndarray:
        """Return the row of each sentence, int64 `(n,)`; missing vectors are computed.

        The rows are valid as long as this object exists.
        """
        count = len(self.stores)
        shards = np.array([shard_of(text, count) for text in sentences], np.int64)
        rows = np.empty(len(shards), np.int64)
        for shard in np.unique(shards).tolist():
            own = np.flatnonzero(shards == shard)
            found = self.stores[shard].rows([sentences[place] for place in own])
            rows[own] = found * count + shard
        return rows

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors at `rows`, a float32 copy `(n, dim)`."""
        inner, shards = np.divmod(np.asarray(rows, np.int64), len(self.stores))
        vectors = np.empty((len(inner), self.dim), np.float32)
        for shard in np.unique(shards).tolist():
            own = shards == shard
            vectors[own] = self.stores[shard].vectors(inner[own])
        return vectors

    def build(
        self, sentences: Iterable[str], total: int | None = None, progress: bool = True
    ) -> None:
        """Compute the vectors of all sentences that are not in the store.

        Args:
            sentences: Any number of sentences; they are read as a stream. Memory holds
                less than a full chunk for each shard.
            total: Number of sentences, if known, for the progress bar.
            progress: Whether to show a progress bar if it takes longer than a second.

        Raises:
            InputError: See `GuideStore.build`.
        """
        waiting: list[list[str]] = [[] for _ in self.stores]
        slices = checked_slices(sentences, SLICE, total, progress)
        for text in chain.from_iterable(slices):
            shard = shard_of(text, len(self.stores))
            waiting[shard].append(text)
            if len(waiting[shard]) == self.stores[shard].chunk_size:
                self.stores[shard].build(waiting[shard], progress=False)
                waiting[shard] = []
        for store, texts in zip(self.stores, waiting, strict=True):
            store.build(texts, progress=False)


def shard_of(text: str | bytes, shards: int) -> int:
    """Return the shard that holds a text's vector."""
    return int.from_bytes(text_hash(text)[:8]) % shards


def shard_name(shard: int, shards: int) -> str:
    """Return the name of a shard's folder."""
    return f"{shard:05d}-of-{shards:05d}"


def _count(folder: Path, shards: int | None) -> int:
    """Return how many shards a folder has, or should get if it is new."""
    if (folder / META).exists():
        raise InputError(
            f"`{folder}` must hold shards. Received: one store. Open it with "
            "`GuideStore`, or give another folder."
        )
    there = {
        int(path.name.rpartition("-")[2]) for path in folder.glob("?????-of-?????")
    }
    count = shards or max(there, default=SHARDS)
    if there - {count}:
        raise InputError(
            "`shards` must be that of the folder. Received: "
            f"shards={shards}; `{folder}` has {max(there)}. Leave it out."
        )
    return count


def checked_slices(
    sentences: Iterable[str], size: int, total: int | None, progress: bool
) -> Iterator[list[str]]:
    """Yield lists of at most `size` sentences; check each, and show the progress."""
    if isinstance(sentences, str):
        checks.sentences(sentences, "sentences")  # which says what is wrong
    slices = in_chunks(sentences, size)
    if progress:
        slices = track(slices, total, "Guide vectors", steps=size)
    for number, texts in enumerate(slices):
        yield checks.sentences(texts, "sentences", number * size)
