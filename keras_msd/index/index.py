"""An index on disk: chunks of text, their int8 vectors, and exact search in them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from keras_msd.arrays import unit_rows
from keras_msd.checks import (
    InputError,
    at_least,
    existing_file,
    existing_folder,
    sentences,
)
from keras_msd.checksums import read_meta
from keras_msd.evaluate.nearest import BLOCK, rounding, top_k
from keras_msd.evaluate.vectors import SentenceEncoder, encoded

META = "index.json"
VERSION = 2
WHAT = "an index"  # for messages
# The files, in the order of the fields of `Rows`, and the types of their numbers.
FILES = {
    "vectors.i8": "i1",
    "scales.f32": "<f4",
    "texts.utf8": "u1",
    "ends.i64": "<i8",
    "lines.i64": "<i8",
}
LARGEST = 127  # of an int8 code, symmetric


class Rows(NamedTuple):
    """Chunks as arrays with one entry for each.

    Attributes:
        vectors: `(n, dim)`, int8 codes or any real numbers.
        scales: What brings each vector to length one, float32 `(n,)`.
        texts: UTF-8 of all chunks in a row, uint8.
        ends: Where each one ends there, int64 `(n,)`.
        lines: The line of its file that each one begins in, int64 `(n,)`.
    """

    vectors: np.ndarray
    scales: np.ndarray
    texts: np.ndarray
    ends: np.ndarray
    lines: np.ndarray

    def part(self, start: int, end: int) -> "Rows":
        """Return the chunks from `start` to before `end`."""
        first, last = (int(self.ends[row - 1]) if row else 0 for row in (start, end))
        vectors, scales, _, ends, lines = (array[start:end] for array in self)
        return Rows(vectors, scales, self.texts[first:last], ends - first, lines)


def rows_of(
    vectors: np.ndarray, scales: np.ndarray, texts: list[str], lines: Iterable[int]
) -> Rows:
    """Return chunks as arrays; the arguments are as in `Rows`."""
    content = [text.encode() for text in texts]
    joined = np.frombuffer(b"".join(content), np.uint8)
    ends = np.cumsum([len(text) for text in content], dtype=np.int64)
    return Rows(vectors, scales, joined, ends, np.array([*lines], np.int64))


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Return the chunks of all parts, of which there is at least one."""
    sizes = [np.diff(part.ends, prepend=0) for part in parts]
    columns = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Rows(*columns)._replace(ends=np.cumsum(np.concatenate(sizes)))


class Source(NamedTuple):
    """A file that was indexed; its chunks follow those of the one before."""

    name: str
    key: str  # hash of the file, and of how it was read
    chunks: int
    error: float  # the largest of its vectors, as `quantize` measures it


class Found(NamedTuple):
    """A search result: cosine to the query, text, file and line.

    Example:
        >>> found = msd.index.Found(0.875, "It rains.", "notes.md", line=3)
        >>> found.cosine, found.file, found.line
        (0.875, 'notes.md', 3)
    """

    cosine: float
    text: str
    file: str
    line: int


def quantize(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return vectors `(n, dim)` as int8 codes of their directions.

    Returns:
        Codes, int8 `(n, dim)`, symmetric: the largest number of a vector becomes 127 or
        -127; scales, float32 `(n,)`, such that scale x codes has length one (a zero
        vector stays zero); and the largest distance between that and the vector's own
        direction. No cosine to any query differs by more than this distance, by
        Cauchy-Schwarz. With m the largest number of a vector of length one and
        `e = sqrt(dim) m / 254` it is at most `sqrt(2 - 2 sqrt(1 - e^2))`.
    """
    units = unit_rows(np.asarray(vectors, np.float64))
    peaks = np.abs(units).max(axis=1, keepdims=True)
    codes = np.rint(units * (LARGEST / np.where(peaks > 0, peaks, 1)))
    distances = np.linalg.norm(units - unit_rows(codes), axis=1)
    return codes.astype(np.int8), scales_of(codes), float(distances.max(initial=0))


def scales_of(vectors: np.ndarray) -> np.ndarray:
    """Return the scale that gives each row unit length, float32 `(n,)`."""
    lengths = np.linalg.norm(np.asarray(vectors, np.float64), axis=1)
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return scales.astype(np.float32)


class Index:
    r"""Chunks of text with their vectors; `Index.open` reads one from disk.

    Args:
        path: Where it stands, for messages.
        rows: The chunks.
        meta: What `index.json` says; empty for vectors that name no model.
        sources: The files that were indexed, in the order of their chunks.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("notes.txt").write_text("It rains.\nA cat sleeps.\n")
        >>> encoder = msd.testing.tiny_encoder()
        >>> _ = msd.build_index(encoder, ["notes.txt"], "notes.index")
        >>> index = msd.Index.open("notes.index")
        >>> len(index), index.dim
        (2, 16)
        >>> index.search(encoder, "A cat sleeps.", top=1)[0].line
        2
    """

    def __init__(
        self,
        path: Path,
        rows: Rows,
        meta: Mapping[str, Any],
        sources: Sequence[Source],
    ) -> None:
        self.path, self.rows, self.meta, self.sources = path, rows, meta, sources
        self._last = np.cumsum([source.chunks for source in sources])

    def __len__(self) -> int:
        return len(self.rows.vectors)

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self.rows.vectors.shape[1]

    @property
    def threshold(self) -> dict[str, Any] | None:
        """What `evaluate.calibrate_threshold` gave for its model, None if unknown."""
        return self.meta.get("threshold")

    @classmethod
    def open(cls, path: str | Path) -> "Index":
        """Open the folder of an index, memory-mapped, or an `.npz` of `embed --out`.

        Args:
            path: The folder or the file.

        Raises:
            InputError: Nothing is there, or it is damaged, truncated, or of another
                version.
        """
        path = Path(path)
        if path.suffix == ".npz":
            return _from_vectors(path)
        folder = existing_folder(path, "index")
        existing_file(folder / META, "index")
        meta = read_meta(folder / META, VERSION, WHAT)
        arrays = (np.memmap(folder / name, FILES[name], "r") for name in FILES)
        rows = Rows(*arrays)
        rows = rows._replace(vectors=rows.vectors.reshape(-1, meta["dim"]))
        return cls(path, rows, meta, [Source(**source) for source in meta["sources"]])

    def check_model(self, model: Any, exact: bool = False) -> None:
        """Raise `InputError` unless the vectors are of this model.

        Unless `exact`, an encoder and the artefacts made of it, quantised ones too, are
        one model.
        """
        if not self.meta:
            return
        own, origin = identity(model)
        known = self.meta["fingerprint"]
        if own != known and (exact or origin != self.meta["encoder"]):
            name = f" ({self.meta['model']})" if self.meta["model"] else ""
            raise InputError(
                f"`{self.path}` was built with another model. Received: fingerprint "
                f"{own}; of the index: {known}{name}. Give that model, or build an "
                "index with this one in a folder of its own."
            )

    @overload
    def search(
        self,
        encoder: SentenceEncoder,
        query: str,
        top: int = 5,
        threshold: float | None = None,
    ) -> list[Found]: ...
    @overload
    def search(
        self,
        encoder: SentenceEncoder,
        query: list[str],
        top: int = 5,
        threshold: float | None = None,
    ) -> list[list[Found]]: ...
    def search(
        self,
        encoder: SentenceEncoder,
        query: str | list[str],
        top: int = 5,
        threshold: float | None = None,
    ) -> list[Found] | list[list[Found]]:
        """Return the chunks nearest to a query, or to each of several, best first.

        Args:
            encoder: What the index was built with, or an artefact made of it.
            query: The text to look for, in any language the encoder knows; or a list.
            top: Most chunks to return, at least 1.
            threshold: Lowest cosine of a chunk that is returned; all if None.

        Returns:
            The chunks; for a list of queries, such a list for each.

        Raises:
            InputError: The index is of another model or width, or `top` is below 1.
        """
        self.check_model(encoder)
        queries = sentences([query] if isinstance(query, str) else query, "query")
        found = []
        for vector in encoded(encoder, queries) if queries else ():
            cosines, rows = self.nearest(vector[None], top)
            pairs = zip(rows.tolist(), cosines.tolist(), strict=True)
            found.append(
                [
                    self.found(row, cosine)
                    for row, cosine in pairs
                    if threshold is None or cosine >= threshold
                ]
            )
        return found[0] if isinstance(query, str) else found

    def nearest(self, query: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines and rows, `(min(top, n),)`, of the vectors nearest to one.

        Args:
            query: `(1, dim)`, of any length.
            top: Neighbours, at least 1.

        Raises:
            InputError: As `search`, or as `evaluate.nearest.top_k`.
        """
        at_least(1, top=top)
        if query.shape[1] != self.dim:
            raise InputError(
                f"`{self.path}` holds vectors of {self.dim} numbers. Received: a model "
                f"that gives {query.shape[1]}. Give the model they were made with."
            )
        rows = np.flatnonzero(self._possible(query, top))
        cosines, places = top_k(query, self.rows.vectors[rows], top)
        return cosines[0], rows[places[0]]

    def _possible(self, query: np.ndarray, top: int) -> np.ndarray:
        """Tell which rows float32 products leave possible, bool `(n,)`."""
        unit = unit_rows(query.astype(np.float64))[0].astype(np.float32)
        products = np.empty(len(self), np.float32)
        for start in range(0, len(self), BLOCK):
            part = slice(start, start + BLOCK)
            products[part] = self.rows.vectors[part].astype(np.float32) @ unit
        products *= self.rows.scales
        best = np.partition(products, -top)[-top] if top <= len(self) else -np.inf
        return products >= best - rounding(self.dim)

    def found(self, row: int, cosine: float) -> Found:
        """Return the chunk of a row, with the cosine to six decimals."""
        chunk = self.rows.part(row, row + 1)
        text = chunk.texts.tobytes().decode()
        source = self.sources[int(np.searchsorted(self._last, row, side="right"))]
        return Found(round(cosine, 6), text, source.name, int(chunk.lines[0]))


def identity(model: Any) -> tuple[str, str]:
    """Return the fingerprints of a model and of the encoder that it was made from."""
    fingerprint = getattr(model, "fingerprint", None)
    if not isinstance(fingerprint, str):
        raise InputError(
            "A model of an index must have a `fingerprint`, so that another one is "
            f"noticed. Received: {type(model).__name__}. Wrap it in `load_teacher`."
        )
    card: Mapping[str, Any] = getattr(model, "card", {})
    return fingerprint, card.get("encoder", {}).get("fingerprint", fingerprint)


def _from_vectors(path: Path) -> Index:
    from keras_msd.teachers.vectors import read_vectors

    texts, vectors = read_vectors(path)
    count = len(texts)
    rows = rows_of(vectors, scales_of(vectors), texts, range(1, count + 1))
    return Index(path, rows, {}, [Source(str(path), "", count, 0.0)])
