"""Batches as a `tf.data.Dataset`, read ahead during a training step."""

import weakref
from typing import Any

import tensorflow as tf

from keras_msd.data.batches import Batches

AHEAD = 4  # batches; making one takes less time than a training step


def tensorflow_dataset(batches: Batches) -> tf.data.Dataset:
    """Return batches `(x, y)` for `fit` of any Keras model under TensorFlow.

    If you pass the batches themselves, Keras derives all shapes from the first two.
    Stages call this function. Each pass of the dataset is the next pass of the batches,
    which ends when its last batch was read.

    Args:
        batches: `PairBatches`, `ScoredBatches` or `InferenceBatches`.

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
    # TensorFlow may keep a function for longer than its dataset. A weak reference lets
    # the stores and encoders of the batches go with the dataset.
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

    # In order and one at a time, because neighbours share a sorted window.
    dataset = tf.data.Dataset.range(len(batches)).map(batch)
    dataset = dataset.prefetch(AHEAD)
    # There is nothing to tune here. TensorFlow's tuner doubles its sleep each time, and
    # sometimes a pass has to wait at its end for it.
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    dataset.batches = batches
    return dataset


def _numbered(batches: Any, index: int) -> list[Any]:
    """Return the arrays of batch `index` of a pass, flattened as TensorFlow does."""
    batch = batches[index]
    if index == len(batches) - 1:  # `fit` stops asking here
        batches.on_epoch_end()
    return tf.nest.flatten(batch)
