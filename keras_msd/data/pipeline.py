"""Batches as a `tf.data.Dataset`, read ahead while a step runs."""

import weakref
from functools import partial
from typing import Any

import tensorflow as tf

from keras_msd.data.batches import Batches

AHEAD = 4  # batches; the work for one is short against a training step


def tensorflow_dataset(batches: Batches, pieces: int = 1) -> tf.data.Dataset:
    """Return batches `(x, y)` for `fit` of any Keras model under TensorFlow.

    Given batches themselves, Keras takes the shapes of all from the first two; stages
    call this function. Each pass of the dataset is the next pass of the batches, and it
    counts once its last batch was read.

    Args:
        batches: `PairBatches`, `ScoredBatches` or `InferenceBatches`.
        pieces: Cut each batch into so many of equal size.

    Returns:
        A dataset of `(x, y)`; the first axis is static.

    Example:
        >>> pairs, encoder = msd.testing.tiny_pairs(), msd.testing.tiny_encoder()
        >>> guides = {"teacher": (msd.data.GuideStore(encoder, "vectors"), "source")}
        >>> batches = msd.data.PairBatches(pairs, encoder, guides, batch_size=4)
        >>> dataset = msd.data.tensorflow_dataset(batches)
        >>> int(dataset.cardinality()), dataset.element_spec[1]["teacher"].shape
        (2, TensorShape([4, 16]))
    """
    # TensorFlow may keep a function for longer than its dataset. Batches hold stores
    # and encoders, which must not: the dataset alone has a reference that counts.
    source = weakref.ref(batches)
    x, y = batches.batch(batches.position)
    texts = {name: (len(it), *[None] * (it.ndim - 1)) for name, it in x.items()}
    signature = (
        {name: tf.TensorSpec(texts[name], it.dtype) for name, it in x.items()},
        {name: tf.TensorSpec(it.shape, it.dtype) for name, it in y.items()},
    )
    specs = tf.nest.flatten(signature)

    def read(index: Any) -> list[Any]:
        return _numbered(source(), int(index))

    def batch(index: Any) -> Any:
        values = tf.numpy_function(read, [index], [spec.dtype for spec in specs])
        for value, spec in zip(values, specs, strict=True):
            value.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(signature, values)

    # In order and one at a time: neighbours share what was sorted for both.
    dataset = tf.data.Dataset.range(len(batches)).map(batch)
    if pieces > 1:
        cut = partial(_cut, pieces)
        dataset = dataset.map(lambda *both: tf.nest.map_structure(cut, both)).unbatch()
    dataset = dataset.prefetch(AHEAD * pieces)
    # Nothing here is left to be tuned, and TensorFlow's tuner, which sleeps twice as
    # long each time, now and then misses the end of a pass, which then waits for it.
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    dataset.batches = batches
    return dataset


def _numbered(batches: Any, index: int) -> list[Any]:
    """Return the arrays of batch `index` of a pass, in TensorFlow's order."""
    batch = batches[index]
    if index == len(batches) - 1:  # `fit` stops asking here
        batches.on_epoch_end()
    return tf.nest.flatten(batch)


def _cut(pieces: int, value: tf.Tensor) -> tf.Tensor:
    """Cut the rows of a batch into equal parts, `(pieces, rows / pieces, ...)`."""
    rows, *rest = value.shape
    sizes = tf.shape(value)
    lengths = [sizes[place] if it is None else it for place, it in enumerate(rest, 1)]
    return tf.reshape(value, [pieces, rows // pieces, *lengths])
