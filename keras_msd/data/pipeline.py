"""The same batches as a `tf.data.Dataset`, read ahead while a step runs."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_msd.data.batch_sources import Corpus
from keras_msd.data.batches import PairBatches
from keras_msd.data.scored_batches import ScoredBatches, ScoredRow
from keras_msd.data.store import GuideStore

AHEAD = 2  # batches; the work for one is short against a training step


def pair_dataset(
    pairs: Corpus,
    encoder: Any,
    guides: Mapping[str, tuple[GuideStore, str]],
    batch_size: int = 64,
    token_budget: int | None = None,
    max_length: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    temperature: float = float("inf"),
    folder: str | Path | None = None,
    drop_remainder: bool = True,
    start: int = 0,
    multiple: int = 8,
) -> tf.data.Dataset:
    """Return batches `(x, y)` of pairs with guide vectors.

    Every argument, and what a batch holds, is as in `PairBatches`: each pass of the
    dataset is the next epoch, or with `epochs=k` one pass has k epochs. The number of
    batches is known to `fit`. A pass counts once its last batch was read.

    Returns:
        A dataset of `(x, y)`; the first axis is static where every batch is full.

    Raises:
        InputError: As `PairBatches`.
    """
    batches = PairBatches(
        pairs,
        encoder,
        guides,
        batch_size=batch_size,
        token_budget=token_budget,
        max_length=max_length,
        epochs=epochs,
        seed=seed,
        temperature=temperature,
        folder=folder,
        drop_remainder=drop_remainder,
        start=start,
        multiple=multiple,
    )
    full = token_budget is None and batches.stream.draws % batch_size == 0
    rows = batch_size if full else None
    x = _inputs(rows) | {"group": tf.TensorSpec((rows,), tf.int32)}
    y = {
        name: tf.TensorSpec((rows, dim), tf.float32)
        for name, dim in batches.dims.items()
    }

    return _dataset(batches, _epoch, (x, y))


def scored_dataset(
    rows: Sequence[ScoredRow],
    encoder: Any,
    batch_size: int = 16,
    max_length: int | None = None,
    epochs: int = 1,
    seed: int = 0,
    multiple: int = 8,
) -> tf.data.Dataset:
    """Return batches `(x, y)` of scored sentence pairs, for `RegressSimilarity`.

    Every argument, and what a batch holds, is as in `ScoredBatches`. The number of
    batches is known to `fit`.

    Raises:
        InputError: As `ScoredBatches`.
    """
    batches = ScoredBatches(
        rows, encoder, batch_size, max_length, epochs, seed, multiple
    )
    y = {"gold": tf.TensorSpec((batch_size,), tf.float32)}
    return _dataset(batches, _all, (_inputs(batch_size), y))


def _epoch(batches: PairBatches) -> Iterator[Any]:
    last = len(batches) - 1
    for index in range(last + 1):
        batch = batches[index]
        if index == last:  # `fit` stops asking here: nothing runs after this batch
            batches.on_epoch_end()
        yield batch


def _all(batches: ScoredBatches) -> Iterator[Any]:
    for index in range(len(batches)):
        yield batches[index]


def _inputs(rows: int | None) -> dict[str, tf.TensorSpec]:
    return {
        f"{side}_{part}": tf.TensorSpec((rows, None), tf.int32)
        for side in ("source", "target")
        for part in ("token_ids", "padding_mask")
    }


def _dataset(
    batches: Any, one_pass: Callable[[Any], Iterator[Any]], signature: Any
) -> tf.data.Dataset:
    # TensorFlow never lets go of a generator. Batches hold stores and encoders, which
    # must live no longer than the dataset: it alone has a reference that counts.
    source = weakref.ref(batches)
    dataset = tf.data.Dataset.from_generator(
        lambda: one_pass(source()), output_signature=signature
    )
    dataset.batches = batches
    known = tf.data.experimental.assert_cardinality(len(batches))
    return dataset.apply(known).prefetch(AHEAD)
