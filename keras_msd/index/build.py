"""Build an index of text files on disk; unchanged files are not embedded again."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least, existing_file
from keras_msd.checksums import write_meta
from keras_msd.evaluate.threshold import checked
from keras_msd.evaluate.vectors import SentenceEncoder, encoded
from keras_msd.files import atomic_path, digest, file_digest
from keras_msd.index import index as stored
from keras_msd.index.chunks import read_passages, split, way_of_reading
from keras_msd.index.index import (
    Index,
    Rows,
    Source,
    identity,
    joined_rows,
    quantize,
    rows_of,
)
from keras_msd.progress import track

BLOCK = 4096  # chunks that are encoded at a time
TOKENS = 128  # that a model reads, where it does not say
SPECIAL = 2  # of these: the start and the end token
TOKEN_BYTES = 3  # taken for a token of a model that has no tokenizer to count with


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
    parts, sources = [], []
    for path in track(paths, len(paths), "Files"):
        read = way_of_reading(path, column, paragraphs)
        key = digest(file_digest(path), read, str(limit))
        if key in kept:
            rows, source = kept[key]
            parts.append(rows)
            sources.append(source._replace(name=str(path)))
            continue
        passages = read_passages(path, column, paragraphs)
        chunks = list(split(passages, limit, _counter(encoder)))
        error = 0.0
        for block in track(
            in_chunks(chunks, BLOCK), len(chunks), f"Indexing {path.name}", BLOCK
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
        "version": stored.VERSION,
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
        for (name, dtype), array in zip(stored.FILES.items(), rows, strict=True):
            array.astype(dtype).tofile(temporary / name)
        write_meta(temporary / stored.META, meta, stored.WHAT)
    return Index.open(folder)


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


def _kept(index: Index | None) -> dict[str, tuple[Rows, Source]]:
    """Return the chunks and the record of each file of an index by its key."""
    if index is None:
        return {}
    kept, start = {}, 0
    for source in index.sources:
        end = start + source.chunks
        kept[source.key] = index.rows.part(start, end), source
        start = end
    return kept


def _counter(encoder: Any) -> Callable[[list[str]], list[int]]:
    """Return what counts the tokens of texts."""
    tokenizer = getattr(encoder, "tokenizer", None)
    if tokenizer is None:
        return lambda texts: [-(-len(it.encode()) // TOKEN_BYTES) for it in texts]
    return lambda texts: [len(ids) for ids in tokenizer.encode_plain(texts)]
