"""Build an index of text files on disk; unchanged files are not embedded again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least, existing_file
from keras_msd.checksums import write_meta
from keras_msd.evaluate.threshold import checked
from keras_msd.evaluate.vectors import SentenceEncoder, encoded
from keras_msd.files import atomic_path, digest, file_digest
from keras_msd.index import index as stored
from keras_msd.index.chunks import Piece, read_passages, split, way_of_reading
from keras_msd.index.index import Index, Source, identity, quantize
from keras_msd.progress import track

BLOCK = 4096  # chunks that are encoded at a time
TOKENS = 128  # that a model reads, where it does not say
SPECIAL = 2  # of these: the start and the end token
TOKEN_BYTES = 3  # taken for a token of a model that has no tokenizer to count with


class Rows(NamedTuple):
    """Rows of an index: arrays with one entry per chunk, and their texts."""

    codes: np.ndarray
    scales: np.ndarray
    texts: np.ndarray  # uint8
    sizes: np.ndarray  # bytes of each text
    lines: np.ndarray


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
    r"""Write an index of files, or bring one up to date.

    The index then holds these files and no others. Files of unchanged bytes, whatever
    their names, keep their vectors. The folder appears complete or stays as it was.

    Args:
        encoder: An encoder, an artefact or a teacher.
        files: Read as `index.read_passages` says, cut as `index.split` says.
        folder: Of the index.
        column: Of `.csv`, `.tsv` and `.jsonl`: a name, a number or a key.
        paragraphs: In plain text a paragraph is a passage, not a line.
        limit: Most tokens of a chunk; by default as many as the encoder reads. For an
            artefact, which has no tokenizer to count with, three bytes are a token.
        model: Where the encoder was loaded from, so that `search` finds it.
        threshold: What `evaluate.calibrate_threshold` gave; by default that of the
            artefact's card, or of the index that is brought up to date.

    Raises:
        InputError: A file cannot be read or there is no text, the folder holds
            something else, a damaged index or one of another model, or the vectors are
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
    kept = _kept(old)
    sources = []
    with atomic_path(folder) as temporary, ExitStack() as stack:
        temporary.mkdir()
        out = _Writer(temporary, stack)
        for path in track(paths, len(paths), "Files"):
            read = way_of_reading(path, column, paragraphs)
            key = digest(file_digest(path), read, str(limit))
            if key in kept:
                rows: Iterable[tuple[Rows, float]] = [kept[key]]
            else:
                passages = read_passages(path, column, paragraphs)
                chunks = split(passages, limit, _counter(encoder))
                rows = _embedded(encoder, chunks, path)
            count, error = out.rows, 0.0
            for some, distance in rows:
                out.write(some)
                error = max(error, distance)
            sources.append(Source(str(path), key, out.rows - count, error))
        if not out.rows:
            raise InputError(
                f"There is no text to index. Received: {len(paths)} files without any. "
                "Give files that hold text."
            )
        stack.close()
        meta = {
            "version": stored.VERSION,
            "model": model,
            "fingerprint": fingerprint,
            "encoder": origin,
            "dim": out.dim,
            "rows": out.rows,
            "limit": limit,
            "error": max(source.error for source in sources),
            "threshold": known,
            "sources": [source._asdict() for source in sources],
        }
        write_meta(temporary / stored.META, meta, stored.WHAT)
    return Index.open(folder)


class _Writer:
    """Appends rows to the files of an index."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.rows = self.dim = self._bytes = 0
        self._handles = [
            stack.enter_context(open(folder / name, "wb")) for name in stored.FILES
        ]

    def write(self, rows: Rows) -> None:
        """Append rows behind those that were written."""
        ends = self._bytes + np.cumsum(rows.sizes)
        arrays = (
            rows.codes,
            rows.scales.astype("<f4"),
            rows.texts,
            ends.astype("<i8"),
            rows.lines.astype("<i8"),
        )
        for handle, array in zip(self._handles, arrays, strict=True):
            handle.write(np.ascontiguousarray(array).data)
        self.rows += len(rows.codes)
        self.dim = rows.codes.shape[1]
        self._bytes += int(np.sum(rows.sizes))


def _earlier(folder: Path, encoder: SentenceEncoder) -> Index | None:
    """Return the index that is brought up to date, None if there is none."""
    if folder.is_file():
        raise InputError(f"`{folder}` is a file, and an index a folder. Give another.")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    own = {stored.META, *stored.FILES} if stored.META in names else set()
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


def _kept(index: Index | None) -> dict[str, tuple[Rows, float]]:
    """Return the rows of each file of an index by its key, and their error."""
    if index is None:
        return {}
    kept = {}
    start = before = 0
    for source in index.sources:
        part = slice(start, start + source.chunks)
        edges = np.append(before, index.ends[part])
        rows = Rows(
            index.vectors[part],
            index.scales[part],
            index.texts[before : edges[-1]],
            np.diff(edges),
            index.lines[part],
        )
        kept[source.key] = rows, source.error
        start, before = part.stop, int(edges[-1])
    return kept


def _embedded(
    encoder: SentenceEncoder, chunks: Iterable[Piece], path: Path
) -> Iterator[tuple[Rows, float]]:
    """Yield rows of chunks, and how far their codes are from the vectors."""
    chunks = list(chunks)
    blocks = in_chunks(chunks, BLOCK)
    for block in track(blocks, len(chunks), f"Indexing {path.name}", BLOCK):
        codes, scales, error = quantize(encoded(encoder, [it.text for it in block]))
        texts = [it.text.encode() for it in block]
        rows = Rows(
            codes,
            scales,
            np.frombuffer(b"".join(texts), np.uint8),
            np.array([len(text) for text in texts]),
            np.array([it.line for it in block]),
        )
        yield rows, error


def _counter(encoder: Any) -> Callable[[list[str]], list[int]]:
    """Return what counts the tokens of texts."""
    tokenizer = getattr(encoder, "tokenizer", None)
    if tokenizer is None:
        return lambda texts: [-(-len(it.encode()) // TOKEN_BYTES) for it in texts]
    return lambda texts: [len(ids) for ids in tokenizer.encode_plain(texts)]
