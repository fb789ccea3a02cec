"""Build a `TextTable`, `PairTable` or `ShardedStore` with Apache Beam.

Each chunk of a corpus has a place: one integer from the number of its file and the
number of its first row among those of the file that pass the filters. Sorted by place,
chunks are in reading order.
"""

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least, one_of, require
from keras_msd.choices import MAX_LENGTH, SIDES
from keras_msd.data.pair import PairFile, Pairs
from keras_msd.data.store import Guide, GuideStore, shard_name, shard_of
from keras_msd.data.tables import (
    CHUNK,
    TEXTS_VERSION,
    RaggedWriter,
    Row,
    TextOptions,
    drawn,
    flattened,
    group_hashes,
    new_count,
    passed_rows,
    row_keys,
    settle,
    token_type,
    tokens_meta,
)
from keras_msd.io.files import digest, write_metadata
from keras_msd.io.remote import as_path, delete, write_file, write_folder
from keras_msd.tokenizers.base import Tokenizer

LENGTHS = "lengths"
ROW_BITS = 40  # lower bits of a place; the others are the number of the file


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of one file that pass the filters, at most `CHUNK`."""

    languages: tuple[str, str]
    rows: list[Row]

    def kept(self, keep: np.ndarray) -> "Chunk":
        """Return the rows that are marked, bool `(n,)`."""
        return Chunk(self.languages, list(compress(self.rows, keep.tolist())))


@dataclass(frozen=True)
class Book:
    """The counters of a file after it was read, and its `PairFile.digest()`."""

    count: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class Plan:
    """The rows of a table to keep, after all files were read.

    Attributes:
        key: Key of its texts.
        counts: Counters of each file, as in `texts.json`.
        distinct: Number of distinct rows of each file.
        shares: Number of rows of each file that are kept.
        before: Number of distinct rows of its file before each chunk, by its place.
    """

    key: str
    counts: list[dict[str, Any]]
    distinct: list[int]
    shares: list[int]
    before: dict[int, int]


def read_file(
    item: tuple[int, PairFile], options: TextOptions
) -> Iterator[tuple[int, Chunk | Book]]:
    """Yield each chunk of a file at its place, then the file's number and `Book`."""
    index, file = item
    count, place = new_count(file), index << ROW_BITS
    for rows in passed_rows(file, options, count):
        yield place, Chunk(file.languages, rows)
        place += len(rows)
    yield index, Book(count, file.digest())


def hashed(item: tuple[int, Chunk]) -> Iterator[tuple[bytes, int]]:
    """Yield the hash of each row of a chunk, with the row's place."""
    place, chunk = item
    for number, key in enumerate(row_keys(chunk.languages, chunk.rows)):
        yield key, place + number


def repeats(item: tuple[bytes, Iterable[int]]) -> Iterator[tuple[int, int]]:
    """Yield each later row with the same hash: place of its chunk, and row there."""
    _, *others = sorted(item[1])
    for row in others:
        yield row // CHUNK * CHUNK, row % CHUNK


def without_repeats(item: tuple[int, Mapping[str, Iterable[Any]]]) -> tuple[int, Chunk]:
    """Return the distinct rows of a chunk, with the place of the chunk."""
    place, found = item
    [chunk] = found["chunk"]
    keep = np.ones(len(chunk.rows), bool)
    keep[list(found["repeats"])] = False
    return place, chunk.kept(keep)


def size_of(item: tuple[int, Chunk]) -> tuple[int, int]:
    """Return place and number of rows of a chunk."""
    place, chunk = item
    return place, len(chunk.rows)


def make_plan(
    options: TextOptions, books: list[tuple[int, Book]], sizes: list[tuple[int, int]]
) -> Plan:
    """Return the plan, after all files were read and duplicates were removed.

    Raises:
        InputError: No row is kept.
    """
    of_files = [book for _, book in sorted(books, key=itemgetter(0))]
    distinct, before = [0] * len(of_files), {}
    for place, size in sorted(sizes):
        index = place >> ROW_BITS
        before[place] = distinct[index]
        distinct[index] += size
    counts = [dict(book.count) for book in of_files]
    shares = settle(counts, distinct, options)
    key = options.key(digest(*(book.digest for book in of_files)))
    return Plan(key, counts, distinct, shares, before)


def kept(
    item: tuple[int, Chunk], plan: Plan, options: TextOptions
) -> Iterator[tuple[int, Chunk]]:
    """Yield the rows of a chunk that the limits allow, if there are any."""
    place, chunk = item
    index, first = place >> ROW_BITS, plan.before[place]
    size, share = plan.distinct[index], plan.shares[index]
    keep = drawn(options, index, size, share, first, len(chunk.rows))
    if keep.any():
        yield place, chunk.kept(keep)


def write_part(
    item: tuple[int, Chunk], tokenizer: Tokenizer, max_length: int, folder: str
) -> str:
    """Write texts, token ids and groups of a chunk to a file, and return its path."""
    place, chunk = item
    arrays: dict[str, Any] = {}
    for side, texts in zip(SIDES, zip(*chunk.rows, strict=True), strict=True):
        ids = tokenizer.encode([text.decode() for text in texts], max_length)
        kinds = ("texts", texts, np.uint8), ("tokens", ids, token_type(tokenizer))
        for name, rows, kind in kinds:
            arrays[f"{name}.{side}"], lengths = flattened(rows, kind)
            arrays[f"{name}.{side}.{LENGTHS}"] = lengths
    groups = group_hashes([source for source, _ in chunk.rows])
    content = io.BytesIO()
    arrays["groups"] = np.frombuffer(groups, np.uint8)
    np.savez(content, **arrays)
    path = as_path(folder) / f"{place:020d}.npz"
    write_file(path, content.getvalue())
    return str(path)


def write_parted_table(
    plan: Plan, parts: list[str], tokenizer: Tokenizer, max_length: int, folder: str
) -> str:
    """Join parts to the same table as that of `PairTable.build`; return its folder.

    Args:
        plan: The plan of the corpus.
        parts: Results of `write_part`, in any order.
        tokenizer: The tokenizer of the parts.
        max_length: The maximum number of token ids of the parts.
        folder: Folder of the table.
    """
    with write_folder(folder) as local:
        kinds = {"texts": "uint8", "tokens": token_type(tokenizer)}
        for name in kinds:
            (local / name).mkdir()
        with ExitStack() as opened:
            writers = {
                f"{name}.{side}": opened.enter_context(
                    RaggedWriter(local / name / side, kind)
                )
                for name, kind in kinds.items()
                for side in SIDES
            }
            groups = opened.enter_context(open(local / "tokens" / "groups", "wb"))
            for arrays in map(_read_part, sorted(parts)):
                for name, writer in writers.items():
                    writer.extend_flat(arrays[name], arrays[f"{name}.{LENGTHS}"])
                groups.write(arrays["groups"].tobytes())
        texts = {"version": TEXTS_VERSION, "key": plan.key, "counts": plan.counts}
        write_metadata(local / "texts" / "texts.json", texts, "texts")
        tokens = tokens_meta(plan.key, "texts", tokenizer, max_length)
        write_metadata(local / "tokens" / "tokens.json", tokens, "token ids")
    return folder


def delete_parts(done: str, folder: str) -> str:
    """Delete the folder of parts; return the folder of the table."""
    delete(as_path(folder))
    return done


def dealt(
    item: tuple[int, Chunk], side: str, shards: int
) -> Iterator[tuple[int, tuple[int, list[str]]]]:
    """Yield the texts of one side of a chunk by shard, with the place of the chunk."""
    place, chunk = item
    texts: dict[int, list[str]] = {}
    for row in chunk.rows:
        text = row[SIDES.index(side)]
        texts.setdefault(shard_of(text, shards), []).append(text.decode())
    for shard, some in texts.items():
        yield shard, (place, some)


def write_shard(
    item: tuple[int, Iterable[tuple[int, list[str]]]],
    load_guide: Callable[[], Guide],
    folder: str,
    shards: int,
    run: str,
) -> int:
    """Write one shard of a `ShardedStore`, as `ShardedStore.build` does.

    Args:
        item: Number of the shard, and its results of `dealt`, in any order.
        load_guide: Function that returns the guide.
        folder: Folder of the store.
        shards: Number of shards.
        run: Identity of the run. The ids of shards depend on it, so a worker that
            repeats a shard writes the same bytes.
    """
    shard, given = item
    texts = chain.from_iterable(some for _, some in sorted(given, key=itemgetter(0)))
    name = shard_name(shard, shards)
    with write_folder(as_path(folder) / name) as local:
        store = GuideStore(load_guide(), local, id=digest(run, name))
        for some in in_chunks(texts, store.chunk_size):
            store.build(some, progress=False)
    return shard


def written(folder: str, done: list[int]) -> str:
    """Return the folder of a store, after all its shards are done."""
    return folder


def _read_part(place: str) -> dict[str, np.ndarray]:
    with as_path(place).open("rb") as handle:
        archive = np.load(io.BytesIO(handle.read()), allow_pickle=False)
    return dict(archive)


class Texts(NamedTuple):
    """The texts of a corpus that a table keeps.

    Attributes:
        chunks: A `PCollection` of (place, `Chunk`).
        plan: A `PCollection` of one `Plan`.
    """

    chunks: Any
    plan: Any


def clean_texts(pipeline: Any, pairs: Pairs, **options: Any) -> Texts:
    """Read, filter, deduplicate and limit a corpus, as `TextTable.build` does.

    Each file is read by one worker, so a large corpus should have many files.

    Args:
        pipeline: A `beam.Pipeline`.
        pairs: The corpus. Every worker must have access to its files.
        **options: `cleaning`, `limit_per_file`, `limit_per_language`, `seed`,
            `temperature`, `dirty_rows` of `TextTable.build`.

    Raises:
        InputError: Apache Beam is not installed, or an option is out of range. While
            the pipeline runs: see `TextTable.build`.

    Example:
        >>> pairs = msd.data.Pairs.from_list(msd.testing.tiny_pairs())
        >>> def add_to(pipeline):  # within `with beam.Pipeline() as pipeline:`
        ...     texts = msd.beam.clean_texts(pipeline, pairs, limit_per_language=1000)
        ...     msd.beam.write_table(texts, msd.testing.tiny_tokenizer(), "table")
    """
    beam, given = _beam(), TextOptions(**options)
    listed = pipeline | "Files" >> beam.Create(list(enumerate(pairs.files)))
    read = listed | "Read" >> beam.FlatMap(read_file, options=given)
    books = read | "Books" >> beam.Filter(_holds, Book)
    chunks = read | "Chunks" >> beam.Filter(_holds, Chunk)
    repeated = (
        chunks
        | "Hash" >> beam.FlatMap(hashed)
        | "By hash" >> beam.GroupByKey()
        | "Repeats" >> beam.FlatMap(repeats)
    )
    distinct = (
        {"chunk": chunks, "repeats": repeated}
        | "By chunk" >> beam.CoGroupByKey()
        | "Distinct" >> beam.Map(without_repeats)
    )
    sizes = distinct | "Sizes" >> beam.Map(size_of)
    several, single = beam.pvalue.AsList, beam.pvalue.AsSingleton
    plan = (
        pipeline
        | "Options" >> beam.Create([given])
        | "Plan" >> beam.Map(make_plan, several(books), several(sizes))
    )
    draw = beam.FlatMap(kept, single(plan), options=given)
    return Texts(distinct | "Draw" >> draw, plan)


def write_table(
    texts: Texts, tokenizer: Tokenizer, folder: str, max_length: int = MAX_LENGTH
) -> Any:
    """Tokenise texts, and write the same folder as `PairTable.build`.

    Its parts are in a folder beside it until the last worker joins them. That worker
    needs disk space for the whole table.

    Args:
        texts: Result of `clean_texts`.
        tokenizer: The tokenizer.
        folder: Folder of the table; every worker must have access to it.
        max_length: Maximum number of token ids of a text, at least 2.

    Returns:
        A `PCollection` of `folder`, when the table is complete.

    Raises:
        InputError: `folder` exists, or `max_length` is below 2.

    Example:
        >>> def add_to(texts):  # which is opened afterwards
        ...     tokenizer = msd.testing.tiny_tokenizer()
        ...     msd.beam.write_table(texts, tokenizer, "table", max_length=64)
        ...     return lambda: msd.data.PairTable.open("table")
    """
    beam = _beam()
    at_least(2, max_length=max_length)
    _check_new(folder)
    place = f"{folder.rstrip('/')}.parts-{uuid.uuid4().hex[:8]}"
    given: dict[str, Any] = {"tokenizer": tokenizer, "max_length": max_length}
    parts = texts.chunks | f"Tokenise {folder}" >> beam.Map(
        write_part, folder=place, **given
    )
    several = beam.pvalue.AsList(parts)
    join = beam.Map(write_parted_table, several, folder=folder, **given)
    return (
        texts.plan
        | f"Table {folder}" >> join
        # Earlier steps are not repeated after the parts are deleted.
        | f"Done {folder}" >> beam.Reshuffle()
        | f"Tidy {folder}" >> beam.Map(delete_parts, folder=place)
    )


def write_store(
    texts: Texts,
    load_guide: Callable[[], Guide],
    folder: str,
    side: str = "source",
    shards: int = 16,
) -> Any:
    """Compute the embeddings of texts with a guide, and write a `ShardedStore`.

    Its vectors are those of `ShardedStore.build` with the same texts. One worker
    computes each shard and holds its sentences in memory: with 10^8 sentences and 256
    shards, about 400,000.

    Args:
        texts: Result of `clean_texts`.
        load_guide: Function that returns the guide, called once per worker. It must be
            picklable, such as `functools.partial(msd.load_teacher, "default")`.
        folder: Folder of the store; every worker must have access to it.
        side: "source" or "target".
        shards: Number of shards.

    Returns:
        A `PCollection` of `folder`, when the store is complete.

    Raises:
        InputError: `folder` exists, or an argument is out of range.

    Example:
        >>> from functools import partial
        >>> load_guide = partial(msd.load_teacher, "hashed-words", dim=8)
        >>> def add_to(texts):  # which is opened afterwards
        ...     msd.beam.write_store(texts, load_guide, "gs://bucket/vectors")
        ...     return lambda: msd.data.fetch_folder("gs://bucket/vectors", "vectors")
        >>> load_guide().dim
        8
    """
    beam = _beam()
    shared = require("apache_beam.utils.shared", "beam", "A pipeline")
    at_least(1, shards=shards)
    one_of(SIDES, side=side)
    _check_new(folder)
    write = beam.Map(
        write_shard,
        load_guide=partial(shared.Shared().acquire, load_guide),
        folder=folder,
        shards=shards,
        run=uuid.uuid4().hex,
    )
    done = (
        texts.chunks
        | f"Deal {folder}" >> beam.FlatMap(dealt, side=side, shards=shards)
        | f"By shard {folder}" >> beam.GroupByKey()
        | f"Vectors {folder}" >> write
    )
    return (
        texts.plan.pipeline
        | f"Place {folder}" >> beam.Create([folder])
        | f"Store {folder}" >> beam.Map(written, beam.pvalue.AsList(done))
    )


def _beam() -> Any:
    return require("apache_beam", "beam", "A pipeline")


def _holds(item: tuple[int, Any], kind: type) -> bool:
    return isinstance(item[1], kind)


def _check_new(folder: str) -> None:
    if as_path(folder).exists():
        raise InputError(
            f"`folder` must not exist. Received: `{folder}`. Give another."
        )
