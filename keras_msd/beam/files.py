"""Parts of a table, the table made of them, and shards of a store, anywhere."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.beam.rows import Chunk, Plan
from keras_msd.checksums import write_meta
from keras_msd.data.pair_table import group_hashes, token_type, tokens_meta
from keras_msd.data.ragged import RaggedWriter, flattened
from keras_msd.data.store import Guide, GuideStore, shard_name, shard_of
from keras_msd.data.text_table import SIDES, VERSION
from keras_msd.files import digest
from keras_msd.remote import as_path, delete, write_file, written_folder
from keras_msd.tokenizers.base import Tokenizer

LENGTHS = "lengths"


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
        texts = {"version": VERSION, "key": plan.key, "counts": plan.counts}
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
