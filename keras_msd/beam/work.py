"""The functions that Beam's workers run on a chunk of rows, a part or a shard.

Each chunk of a corpus has a place: one integer from the number of its file and the
number of its first row among those of the file that pass the filters. Sorted by place,
chunks are in reading order.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, compress
from operator import itemgetter
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.data import text_table
from keras_msd.data.pair import PairFile
from keras_msd.data.pair_table import group_hashes, token_type, tokens_meta
from keras_msd.data.ragged import RaggedWriter, flattened
from keras_msd.data.store import Guide, GuideStore, shard_name, shard_of
from keras_msd.data.text_table import CHUNK, SIDES, Row, TextOptions
from keras_msd.io.checksums import write_metadata
from keras_msd.io.files import digest
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
    count, place = text_table.new_count(file), index << ROW_BITS
    for rows in text_table.passed_rows(file, options, count):
        yield place, Chunk(file.languages, rows)
        place += len(rows)
    yield index, Book(count, file.digest())


def hashed(item: tuple[int, Chunk]) -> Iterator[tuple[bytes, int]]:
    """Yield the hash of each row of a chunk, with the row's place."""
    place, chunk = item
    for number, key in enumerate(text_table.row_keys(chunk.languages, chunk.rows)):
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
    shares = text_table.settle(counts, distinct, options)
    key = options.key(digest(*(book.digest for book in of_files)))
    return Plan(key, counts, distinct, shares, before)


def kept(
    item: tuple[int, Chunk], plan: Plan, options: TextOptions
) -> Iterator[tuple[int, Chunk]]:
    """Yield the rows of a chunk that the limits allow, if there are any."""
    place, chunk = item
    index, first = place >> ROW_BITS, plan.before[place]
    size, share = plan.distinct[index], plan.shares[index]
    keep = text_table.drawn(options, index, size, share, first, len(chunk.rows))
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
        texts = {"version": text_table.VERSION, "key": plan.key, "counts": plan.counts}
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
