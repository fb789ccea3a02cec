"""An index on disk: chunks of text, their int8 vectors, and exact search.

An update of an index embeds only files that have changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from keras_msd.arrays import in_chunks, unit_rows
from keras_msd.checks import (
    InputError,
    at_least,
    existing_file,
    existing_folder,
    sentences,
)
from keras_msd.checksums import read_meta, write_meta
from keras_msd.evaluate.nearest import BLOCK, rounding, top_k
from keras_msd.evaluate.threshold import checked
from keras_msd.evaluate.vectors import SentenceEncoder, encoded
from keras_msd.files import atomic_path, digest, file_digest
from keras_msd.index.chunks import read_passages, split, way_of_reading
from keras_msd.progress import track

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
ENCODED = 4096  # chunks at a time
TOKENS = 128  # tokens that a model reads, if its maximum is unknown
SPECIAL = 2  # of these, the start and the end token
TOKEN_BYTES = 3  # bytes that count as a token for a model without a tokenizer


class Rows(NamedTuple):
    """Chunks as arrays.

    Attributes:
        vectors: `(n, dim)`, int8 codes or any real numbers.
        scales: Factors that give each vector length one, float32 `(n,)`.
        texts: The joined UTF-8 of all chunks, uint8.
        ends: The end of each chunk in `texts`, int64 `(n,)`.
        lines: The line of its file in which each chunk begins, int64 `(n,)`.
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
    """Return the chunks of all parts; there must be at least one part."""
    sizes = [np.diff(part.ends, prepend=0) for part in parts]
    columns = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Rows(*columns)._replace(ends=np.cumsum(np.concatenate(sizes)))


class Source(NamedTuple):
    """An indexed file; its chunks follow those of the file before."""

    name: str
    key: str  # hash of the file, and of how it was read
    chunks: int
    error: float  # the largest of its vectors, see `quantize`


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
    r"""Chunks of text with their vectors; `Index.open` opens one on disk.

    Args:
        path: Path of the index, for messages.
        rows: The chunks.
        meta: The content of `index.json`; empty for vectors of an unknown model.
        sources: The indexed files, in the order of their chunks.

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
        self, path: Path, rows: Rows, meta: Mapping[str, Any], sources: Sequence[Source]
    ) -> None:
        self.path, self.rows, self.meta, self.sources = path, rows, meta, sources
        self._last = np.cumsum([source.chunks for source in sources])
        self._checked: Any = None

    def __len__(self) -> int:
        return len(self.rows.vectors)

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self.rows.vectors.shape[1]

    @property
    def threshold(self) -> dict[str, Any] | None:
        """Result of `evaluate.calibrate_threshold` for its model, None if unknown."""
        return self.meta.get("threshold")

    @classmethod
    def open(cls, path: str | Path) -> "Index":
        """Open the folder of an index, memory-mapped, or an `.npz` of `embed --out`.

        Args:
            path: The folder or the file.

        Raises:
            InputError: The index does not exist, is damaged, or has another version.
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
        """Raise `InputError` unless the vectors were computed by this model.

        Unless `exact`, an encoder and its artefacts, also quantised ones, count as one
        model.
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
            encoder: The model of the index, or an artefact of it. It is checked in the
                first search with it; training it afterwards is not noticed.
            query: A text in any language that the encoder supports, or a list of texts.
            top: Maximum number of chunks per query, at least 1.
            threshold: Return only chunks with this cosine or a higher one; all if None.

        Returns:
            The chunks; for a list of queries, one such list per query.

        Raises:
            InputError: The index belongs to another model, its vectors have another
                dimension, or `top` is below 1.
        """
        if encoder is not self._checked:  # a fingerprint reads every weight
            self.check_model(encoder)
            self._checked = encoder
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
            query: Vector `(1, dim)`; it need not be normalised.
            top: Number of neighbours, at least 1.

        Raises:
            InputError: See `search` and `evaluate.nearest.top_k`.
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
        """Return which rows can be among the nearest, by float32 products, `(n,)`."""
        unit = unit_rows(query.astype(np.float64))[0].astype(np.float32)
        products = np.empty(len(self), np.float32)
        for start in range(0, len(self), BLOCK):
            part = slice(start, start + BLOCK)
            products[part] = self.rows.vectors[part].astype(np.float32) @ unit
        products *= self.rows.scales
        best = np.partition(products, -top)[-top] if top <= len(self) else -np.inf
        return products >= best - rounding(self.dim)

    def parts(self) -> Iterator[tuple[Source, Rows]]:
        """Yield each indexed file and its chunks."""
        start = 0
        for source in self.sources:
            end = start + source.chunks
            yield source, self.rows.part(start, end)
            start = end

    def found(self, row: int, cosine: float) -> Found:
        """Return the chunk of a row, with the cosine rounded to six decimals."""
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


def build_index(
    encoder: SentenceEncoder,
    files: Iterable[str | Path],
    folder: str | Path,
    column: str | None = None,
    paragraphs: bool = False,
    limit: int | None = None,
    model: str | None = None,
    threshold: Mapping[str, Any] | None = None,
) -> Index:
    r"""Build an index of files, or update one.

    Afterwards, the index contains exactly these files. Files with unchanged bytes keep
    their vectors, also under another name. The folder appears complete or stays as it
    was.

    Args:
        encoder: An encoder, an artefact or a teacher.
        files: The files; see `index.read_passages` and `index.split`.
        folder: Folder of the index.
        column: Column of `.csv` and `.tsv`, by name or number; key of `.jsonl`.
        paragraphs: Whether passages of plain text are paragraphs instead of lines.
        limit: Maximum number of tokens of a chunk; by default that of the encoder. An
            artefact has no tokenizer, so three bytes count as a token.
        model: Path of the encoder, so that `search` finds it.
        threshold: Result of `evaluate.calibrate_threshold`; by default that of the
            artefact's card, or of the index that is updated.

    Raises:
        InputError: A file cannot be read; there is no text; the folder contains
            something else, a damaged index or one of another model; or the vectors are
            not finite.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("notes.md").write_text("# Weather\n\nIt rains.\n")
        >>> encoder = msd.testing.tiny_encoder()
        >>> index = msd.build_index(encoder, ["notes.md"], "notes.index")
        >>> [found.text for found in index.search(encoder, "Does it rain?")]
        ['Weather It rains.']
    """
    card: Mapping[str, Any] = getattr(encoder, "card", {})
    if limit is None:
        limit = max(1, getattr(encoder, "max_length", TOKENS) - SPECIAL)
    at_least(1, limit=limit)
    paths = [existing_file(path) for path in dict.fromkeys(map(Path, files))]
    fingerprint, origin = identity(encoder)
    old = _earlier(Path(folder), encoder)
    known = checked(threshold or card.get("threshold"))
    if known is None and old is not None:
        known = old.threshold
    kept = {source.key: (source, rows) for source, rows in old.parts()} if old else {}
    parts, sources = [], []
    for path in track(paths, len(paths), "Files"):
        read = way_of_reading(path, column, paragraphs)
        key = digest(file_digest(path), read, str(limit))
        if key in kept:
            source, rows = kept[key]
            parts.append(rows)
            sources.append(source._replace(name=str(path)))
            continue
        passages = read_passages(path, column, paragraphs)
        chunks = list(split(passages, limit, _counter(encoder)))
        error = 0.0
        for block in track(
            in_chunks(chunks, ENCODED), len(chunks), f"Indexing {path.name}", ENCODED
        ):
            texts = [piece.text for piece in block]
            codes, scales, distance = quantize(encoded(encoder, texts))
            lines = (piece.line for piece in block)
            parts.append(rows_of(codes, scales, texts, lines))
            error = max(error, distance)
        sources.append(Source(str(path), key, len(chunks), error))
    if not parts:
        raise InputError(
            f"There is no text to index. Received: {len(paths)} files without any. "
            "Give files that hold text."
        )
    rows = joined_rows(parts)
    meta = {
        "version": VERSION,
        "model": model,
        "fingerprint": fingerprint,
        "encoder": origin,
        "dim": rows.vectors.shape[1],
        "rows": len(rows.lines),
        "limit": limit,
        "error": max(source.error for source in sources),
        "threshold": known,
        "sources": [source._asdict() for source in sources],
    }
    with atomic_path(folder) as temporary:
        temporary.mkdir()
        for (name, dtype), array in zip(FILES.items(), rows, strict=True):
            array.astype(dtype).tofile(temporary / name)
        write_meta(temporary / META, meta, WHAT)
    return Index.open(folder)


def _earlier(folder: Path, encoder: SentenceEncoder) -> Index | None:
    """Return the index that is updated, None if there is none."""
    if folder.is_file():
        raise InputError(f"`{folder}` is a file, and an index a folder. Give another.")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    own = {META, *FILES} if META in names else set()
    if foreign := sorted(names - own):
        raise InputError(
            f"`{folder}` would be replaced, and holds what is of no index: "
            f"{', '.join(foreign[:5])}. Give a new path, or move it away."
        )
    if not names:
        return None
    index = Index.open(folder)
    index.check_model(encoder, exact=True)
    return index


def _counter(encoder: Any) -> Callable[[list[str]], list[int]]:
    """Return a function that counts the tokens of texts."""
    tokenizer = getattr(encoder, "tokenizer", None)
    if tokenizer is None:
        return lambda texts: [-(-len(it.encode()) // TOKEN_BYTES) for it in texts]
    return lambda texts: [len(ids) for ids in tokenizer.encode_plain(texts)]
