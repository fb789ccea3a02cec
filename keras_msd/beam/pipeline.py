"""Build a `TextTable`, `PairTable` or `ShardedStore` with Apache Beam."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from keras_msd.beam import work
from keras_msd.checks import InputError, at_least, one_of, require
from keras_msd.choices import MAX_LENGTH
from keras_msd.data.pair import Pairs
from keras_msd.data.store import Guide
from keras_msd.data.text_table import SIDES, TextOptions
from keras_msd.io.remote import as_path
from keras_msd.tokenizers.base import Tokenizer


class Texts(NamedTuple):
    """The texts of a corpus that a table keeps.

    Attributes:
        chunks: A `PCollection` of (place, `work.Chunk`).
        plan: A `PCollection` of one `work.Plan`.
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
    read = listed | "Read" >> beam.FlatMap(work.read_file, options=given)
    books = read | "Books" >> beam.Filter(_holds, work.Book)
    chunks = read | "Chunks" >> beam.Filter(_holds, work.Chunk)
    repeats = (
        chunks
        | "Hash" >> beam.FlatMap(work.hashed)
        | "By hash" >> beam.GroupByKey()
        | "Repeats" >> beam.FlatMap(work.repeats)
    )
    distinct = (
        {"chunk": chunks, "repeats": repeats}
        | "By chunk" >> beam.CoGroupByKey()
        | "Distinct" >> beam.Map(work.without_repeats)
    )
    sizes = distinct | "Sizes" >> beam.Map(work.size_of)
    several, single = beam.pvalue.AsList, beam.pvalue.AsSingleton
    plan = (
        pipeline
        | "Options" >> beam.Create([given])
        | "Plan" >> beam.Map(work.make_plan, several(books), several(sizes))
    )
    draw = beam.FlatMap(work.kept, single(plan), options=given)
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
        work.write_part, folder=place, **given
    )
    several = beam.pvalue.AsList(parts)
    join = beam.Map(work.write_parted_table, several, folder=folder, **given)
    return (
        texts.plan
        | f"Table {folder}" >> join
        # Earlier steps are not repeated after the parts are deleted.
        | f"Done {folder}" >> beam.Reshuffle()
        | f"Tidy {folder}" >> beam.Map(work.delete_parts, folder=place)
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
        work.write_shard,
        load_guide=partial(shared.Shared().acquire, load_guide),
        folder=folder,
        shards=shards,
        run=uuid.uuid4().hex,
    )
    done = (
        texts.chunks
        | f"Deal {folder}" >> beam.FlatMap(work.dealt, side=side, shards=shards)
        | f"By shard {folder}" >> beam.GroupByKey()
        | f"Vectors {folder}" >> write
    )
    return (
        texts.plan.pipeline
        | f"Place {folder}" >> beam.Create([folder])
        | f"Store {folder}" >> beam.Map(work.written, beam.pvalue.AsList(done))
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
