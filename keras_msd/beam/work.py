"""What Beam's workers do: functions of a chunk of rows, of a part or of a shard.

A corpus is in chunks, each of which knows its place: the number of the file and of a
row among those of the file that pass the filters, in one integer. Sorted by it, chunks
stand in reading order, whatever worker had them when.
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
from keras_msd.checksums import write_meta
from keras_msd.data import text_table
from keras_msd.data.pair import PairFile
from keras_msd.data.pair_table import group_hashes, token_type, tokens_meta
from keras_msd.data.ragged import RaggedWriter, flattened
from keras_msd.data.store import Guide, GuideStore, shard_name, shard_of
from keras_msd.data.text_table import CHUNK, SIDES, Row, TextOptions
from keras_msd.files import digest
from keras_msd.remote import as_path, delete, write_file, written_folder
from keras_msd.tokenizers.base import Tokenizer

LENGTHS = "lengths"
ROW_BITS = 40  # of a place; the number of the file stands above


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of one file, at most `CHUNK` of those that pass the filters."""

    languages: tuple[str, str]
    rows: list[Row]

    def kept(self, keep: np.ndarray) -> "Chunk":
        """Return the rows that are marked, bool `(n,)`."""
        return Chunk(self.languages, list(compress(self.rows, keep.tolist())))


@dataclass(frozen=True)
class Book:
    """What is known of a file once it was read: its books, and `PairFile.digest()`."""

    count: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class Plan:
    """What is known of a table once all files were read.

    Attributes:
        key: Key of its texts.
        counts: Closed books of each file, as `texts.json` has them.
        distinct: Rows of each file that repeat no earlier one.
        shares: Rows of each file that are kept.
        before: For the place of each chunk, the distinct rows of its file before it.
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
    """Yield each repeat of a hash: the place of its chunk, and its row there."""
    _, *others = sorted(item[1])
    for row in others:
        yield row // CHUNK * CHUNK, row % CHUNK


def without_repeats(item: tuple[int, Mapping[str, Iterable[Any]]]) -> tuple[int, Chunk]:
    """Return the rows of a chunk that repeat no earlier one, at the chunk's place."""
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
    """Return what is known once all files were read and repeats are gone.

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
    """Yield the rows of a chunk that the limits leave, if there are any."""
    place, chunk = item
    index, first = place >> ROW_BITS, plan.before[place]
    size, share = plan.distinct[index], plan.shares[index]
    keep = text_table.drawn(options, index, size, share, first, len(chunk.rows))
    if keep.any():
        yield place, chunk.kept(keep)


def write_part(
    item: tuple[int, Chunk], tokenizer: Tokenizer, max_length: int, folder: str
) -> str:
    """Write texts, token ids and groups of a chunk to a file, and return its place."""
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
    """Write the table that `PairTable.build` makes, of its parts; return where it is.

    Args:
        plan: Of the corpus.
        parts: What `write_part` returned, in any order.
        tokenizer: That of the parts.
        max_length: That of the parts.
        folder: Where the table goes.
    """
    with written_folder(folder) as local:
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
        write_meta(local / "texts" / "texts.json", texts, "texts")
        tokens = tokens_meta(plan.key, "texts", tokenizer, max_length)
        write_meta(local / "tokens" / "tokens.json", tokens, "token ids")
    return folder


def delete_parts(done: str, folder: str) -> str:
    """Delete the folder of parts; return what is done."""
    delete(as_path(folder))
    return done


def dealt(
    item: tuple[int, Chunk], side: str, shards: int
) -> Iterator[tuple[int, tuple[int, list[str]]]]:
    """Yield the texts of one side of a chunk by their shard, with the chunk's place."""
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
    """Write one shard of a `ShardedStore`, as `build` would have left it.

    Args:
        item: The shard's number, and what `dealt` gave it, in any order.
        load_guide: Makes the guide.
        folder: Where the store goes.
        shards: How many it has.
        run: What the shards' identities are made of: a worker that has to write a shard
            again writes the same.
    """
    shard, given = item
    texts = chain.from_iterable(some for _, some in sorted(given, key=itemgetter(0)))
    name = shard_name(shard, shards)
    with written_folder(as_path(folder) / name) as local:
        store = GuideStore(load_guide(), local, id=digest(run, name))
        for some in in_chunks(texts, store.chunk_size):
            store.build(some, progress=False)
    return shard


def written(folder: str, done: list[int]) -> str:
    """Return the folder of a store, all shards of which are done."""
    return folder


def _read_part(place: str) -> dict[str, np.ndarray]:
    with as_path(place).open("rb") as handle:
        archive = np.load(io.BytesIO(handle.read()), allow_pickle=False)
    return dict(archive)
