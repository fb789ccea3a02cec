"""Vectors of a guide on disk: each distinct sentence is computed once."""

import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import compress, islice
from pathlib import Path
from typing import Protocol

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.files import read_json, text_hash, write_json
from keras_msd.progress import track

VERSION = 1
CHUNK_SENTENCES, CHUNK_BYTES = 16384, 1 << 26  # given to the guide at a time
CACHE_KIB = 8192  # memory of the index
WAIT_S = 600  # for another process that is writing
ASKED = 500  # keys in a query; SQLite takes at least 999


class Guide(Protocol):
    """Whatever gives the vectors: a teacher, an encoder, its embedding block."""

    @property
    def dim(self) -> int:
        """Width of a vector."""

    @property
    def fingerprint(self) -> str:
        """Hash of the weights and of the settings."""

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return float `(n, dim)`."""


class GuideStore:
    """Vectors of one guide, kept in a folder and found again by the sentence's hash.

    A computed chunk is safe once its keys are committed to the index, which happens
    after its vectors are on the disk. A process that is killed loses the chunk it was
    computing; whatever it left behind the last committed vector is overwritten.
    Several processes may use one folder.

    Args:
        guide: Has `encode(texts)`, `dim` and `fingerprint`.
        folder: Where the store lives; it is made if it is not there.

    Raises:
        InputError: The folder belongs to another guide or is no store.

    Example:
        >>> store = msd.data.GuideStore(msd.testing.tiny_encoder(), "vectors")
        >>> store.targets(["A dog.", "A cat.", "A dog."]).shape
        (3, 16)
        >>> len(store)
        2
    """

    def __init__(self, guide: Guide, folder: str | Path) -> None:
        self.guide, self.folder = guide, Path(folder)
        self.dim, self.fingerprint = int(guide.dim), guide.fingerprint
        self.folder.mkdir(parents=True, exist_ok=True)
        mine = {"version": VERSION, "dim": self.dim, "fingerprint": self.fingerprint}
        if not (self.folder / "store.json").exists():
            write_json(self.folder / "store.json", mine | {"id": uuid.uuid4().hex})
        meta = read_json(self.folder / "store.json")
        for name, value in mine.items():
            if meta.get(name) != value:
                raise InputError(
                    f"`{self.folder}` belongs to another guide. Received: {name} "
                    f"{value!r}; in the folder: {meta.get(name)!r}. Give each guide a "
                    "folder of its own."
                )
        self.id: str = meta["id"]  # row numbers hold for this id only
        self._path = self.folder / "vectors.f32"
        self._path.touch()
        self._mapped = np.zeros((0, self.dim), np.float32)
        with self._index() as index:
            index.execute(
                "CREATE TABLE IF NOT EXISTS keys "
                "(key BLOB PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID"
            )
            index.execute("CREATE TABLE IF NOT EXISTS total (count INTEGER NOT NULL)")
            index.execute(
                "INSERT INTO total SELECT 0 WHERE NOT EXISTS (SELECT * FROM total)"
            )
            needed = _count(index) * 4 * self.dim
        if self._path.stat().st_size < needed:
            raise InputError(
                f"`{self._path}` must have {needed} bytes. Received: "
                f"{self._path.stat().st_size}. The store is damaged: delete the folder."
            )

    @contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        path = self.folder / "index.sqlite"
        connect = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        with closing(connect) as index:
            index.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            yield index

    def __len__(self) -> int:
        with self._index() as index:
            return _count(index)

    def targets(self, sentences: list[str]) -> np.ndarray:
        """Return the vectors of sentences, computing those that are missing.

        Args:
            sentences: Any texts, repeats and empty ones included.

        Returns:
            float32 `(n, dim)`.

        Raises:
            InputError: The guide gives another width, or a number that is not finite.
        """
        return self.vectors(self.rows(sentences))

    def rows(self, sentences: list[str]) -> np.ndarray:
        """Return where the vectors stand, int64 `(n,)`; missing ones are computed.

        A sentence keeps its row as long as the folder lives.

        Raises:
            InputError: As `targets`.
        """
        self.build(sentences, progress=False)
        keys = [text_hash(text) for text in sentences]
        with self._index() as index:
            places = _places(index, keys)
        return np.fromiter((places[key] for key in keys), np.int64, len(keys))

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors that stand at `rows`, a float32 copy `(n, dim)`.

        Safe to call from several threads.
        """
        mapped = self._mapped
        if len(rows) and int(np.max(rows)) >= len(mapped):
            # The file may end in part of a vector that another process is writing.
            shape = (self._path.stat().st_size // (4 * self.dim), self.dim)
            mapped = np.memmap(self._path, np.float32, "r", shape=shape)
            self._mapped = mapped
        return np.array(mapped[rows], np.float32)

    def build(
        self, sentences: Iterable[str], total: int | None = None, progress: bool = True
    ) -> None:
        """Compute the vectors of all sentences that are not in the store.

        Args:
            sentences: Read as a stream, so that any number fits in memory.
            total: Number of sentences, if known, for the progress bar.
            progress: Show a bar when it takes longer than a second.

        Raises:
            InputError: As `targets`. What was computed before stays.
        """
        size = max(1, min(CHUNK_SENTENCES, CHUNK_BYTES // (4 * self.dim)))
        slices = _slices(sentences, size)
        if progress:
            slices = track(slices, total=total, what="Guide vectors", steps=size)
        missing: dict[bytes, str] = {}
        for texts in slices:
            keys = {text_hash(text): text for text in texts}
            with self._index() as index:
                known = _places(index, list(keys))
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
        with self._index() as index:
            index.execute("BEGIN IMMEDIATE")  # one writer at a time, in all processes
            known, count = _places(index, keys), _count(index)
            new = [place for place, key in enumerate(keys) if key not in known]
            with open(self._path, "r+b") as handle:
                handle.truncate(count * 4 * self.dim)
                handle.seek(0, os.SEEK_END)
                handle.write(vectors[new].tobytes())
                handle.flush()
                os.fsync(handle.fileno())
            # Neighbouring keys share pages of the index.
            rows = sorted((keys[place], count + i) for i, place in enumerate(new))
            index.executemany("INSERT INTO keys VALUES (?, ?)", rows)
            index.execute("UPDATE total SET count = ?", (count + len(new),))
            index.execute("COMMIT")


def _count(index: sqlite3.Connection) -> int:
    return index.execute("SELECT count FROM total").fetchone()[0]


def _places(index: sqlite3.Connection, keys: list[bytes]) -> dict[bytes, int]:
    """Return the row of every key that is in the index."""
    places: dict[bytes, int] = {}
    keys = sorted(set(keys))
    for start in range(0, len(keys), ASKED):
        asked = keys[start : start + ASKED]
        marks = ",".join("?" * len(asked))
        query = f"SELECT key, place FROM keys WHERE key IN ({marks})"
        places.update(index.execute(query, asked))
    return places


def _slices(sentences: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield lists of at most `size` sentences; check each."""
    if isinstance(sentences, str):
        checks.sentences(sentences, "sentences")  # which says what is wrong
    stream, first = iter(sentences), 0
    while texts := checks.sentences(islice(stream, size), "sentences", first):
        first += len(texts)
        yield texts
