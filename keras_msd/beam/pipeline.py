"""What `TextTable`, `PairTable` and `ShardedStore` make, by Apache Beam's workers."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from keras_msd.beam import work
from keras_msd.checks import InputError, at_least, one_of, require
from keras_msd.data.pair import Pairs
from keras_msd.data.store import Guide
from keras_msd.data.text_table import SIDES, TextOptions
from keras_msd.remote import as_path
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

    Each file is read by one worker: a large corpus should be in many.

    Args:
        pipeline: A `beam.Pipeline`.
        pairs: The corpus. Every worker must reach its files.
        **options: `cleaning`, `limit_per_file`, `limit_per_language`, `seed`,
            `temperature`, `dirty_rows` of `TextTable.build`.

    Raises:
        InputError: Apache Beam is not installed, or an option is out of range. When the
            pipeline runs: as `TextTable.build`.

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
    texts: Texts, tokenizer: Tokenizer, folder: str, max_length: int = 128
) -> Any:
    """Tokenise texts, and write the folder that `PairTable.build` leaves.

    Parts of it stand in a folder beside it until the last worker has put them together.
    That one needs room for the whole table on its disk.

    Args:
        texts: What `clean_texts` returned.
        tokenizer: Gives the token ids.
        folder: Where the table goes; every worker must reach it.
        max_length: Most token ids of a text, at least 2.

    Returns:
        A `PCollection` of `folder`, once the table is there.

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
        # What comes before is not done again once parts are gone.
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
    """Have a guide compute the vectors of texts, and write a `ShardedStore` of them.

    Its vectors are those of `ShardedStore.build` with the same texts. A shard is the
    work of one worker, whose memory holds its sentences: of 10^8, 256 shards have some
    400,000 each.

    Args:
        texts: What `clean_texts` returned.
        load_guide: Makes the guide, once a worker: a function that can be pickled, such
            as `functools.partial(msd.load_teacher, "default")`.
        folder: Where the store goes; every worker must reach it.
        side: "source" or "target".
        shards: How many the store has.

    Returns:
        A `PCollection` of `folder`, once the store is there.

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
