"""The same batches as a `tf.data.Dataset`, read ahead while a step runs."""

import inspect
import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import tensorflow as tf

from keras_msd.data.batches import Batches, PairBatches
from keras_msd.data.scored import InferenceBatches, RowBatches, ScoredBatches
from keras_msd.data.text_table import SIDES

AHEAD = 4  # batches; the work for one is short against a training step

P = ParamSpec("P")
B = TypeVar("B", bound=Batches)


def _of(
    batches: Callable[P, B],
) -> Callable[[Callable[[B], tf.data.Dataset]], Callable[P, tf.data.Dataset]]:
    """Make a function of batches one of the arguments that the batches are made of."""

    def decorate(build: Callable[[B], tf.data.Dataset]) -> Callable[P, tf.data.Dataset]:
        @wraps(build)
        def dataset(*args: P.args, **kwargs: P.kwargs) -> tf.data.Dataset:
            return build(batches(*args, **kwargs))

        dataset.__signature__ = inspect.signature(batches)  # type: ignore[attr-defined]
        return dataset

    return decorate


@_of(PairBatches)
def pair_dataset(batches: PairBatches) -> tf.data.Dataset:
    """Return batches `(x, y)` of pairs with guide vectors.

    Every argument, and what a batch holds, is as in `PairBatches`: each pass of the
    dataset is the next epoch, or with `epochs=k` one pass has k epochs. The number of
    batches is known to `fit`. A pass counts once its last batch was read.

    Returns:
        A dataset of `(x, y)`; the first axis is static.

    Raises:
        InputError: As `PairBatches`.

    Example:
        >>> pairs, encoder = msd.testing.tiny_pairs(), msd.testing.tiny_encoder()
        >>> guides = {"teacher": (msd.data.GuideStore(encoder, "vectors"), "source")}
        >>> dataset = msd.data.pair_dataset(pairs, encoder, guides, batch_size=4)
        >>> int(dataset.cardinality()), dataset.element_spec[1]["teacher"].shape
        (2, TensorShape([4, 16]))
    """
    rows = batches.stream.batch_size
    x = _sides(rows) | {"group": tf.TensorSpec((rows,), tf.int32)}
    dims = batches.dims.items()
    y = {name: tf.TensorSpec((rows, dim), tf.float32) for name, dim in dims}
    return _dataset(batches, (x, y))


@_of(ScoredBatches)
def scored_dataset(batches: ScoredBatches) -> tf.data.Dataset:
    """Return batches `(x, y)` of scored sentence pairs, for `RegressSimilarity`.

    Every argument, and what a batch holds, is as in `ScoredBatches`. The number of
    batches is known to `fit`.

    Raises:
        InputError: As `ScoredBatches`.

    Example:
        >>> rows = [(0.9, "A dog runs.", "A dog ran."), (0.0, "Tea.", "A train.")]
        >>> encoder = msd.testing.tiny_encoder()
        >>> dataset = msd.data.scored_dataset(rows, encoder, batch_size=2)
        >>> dataset.element_spec[1]["gold"].shape
        TensorShape([2])
    """
    return _of_rows(batches)


@_of(InferenceBatches)
def inference_dataset(batches: InferenceBatches) -> tf.data.Dataset:
    """Return batches `(x, y)` of labelled sentence pairs, for `ClassifyInference`.

    Every argument, and what a batch holds, is as in `InferenceBatches`. The number of
    batches is known to `fit`.

    Raises:
        InputError: As `InferenceBatches`.

    Example:
        >>> rows = [(0, "A dog runs.", "A dog."), (2, "A dog runs.", "A cat runs.")]
        >>> encoder = msd.testing.tiny_encoder()
        >>> dataset = msd.data.inference_dataset(rows, encoder, batch_size=2)
        >>> dataset.element_spec[1]["label"].dtype.name
        'int32'
    """
    return _of_rows(batches)


def _of_rows(batches: RowBatches) -> tf.data.Dataset:
    rows = batches.batch_size
    y = {batches.target: tf.TensorSpec((rows,), batches.dtype)}
    return _dataset(batches, (_sides(rows), y))


def _sides(rows: int) -> dict[str, tf.TensorSpec]:
    return {
        f"{side}_{part}": tf.TensorSpec((rows, None), tf.int32)
        for side in SIDES
        for part in ("token_ids", "padding_mask")
    }


def _dataset(batches: Batches, signature: Any, pieces: int = 1) -> tf.data.Dataset:
    """Return the batches of a pass, each cut into so many of equal size."""
    # TensorFlow may keep a function for longer than its dataset. Batches hold stores
    # and encoders, which must not: the dataset alone has a reference that counts.
    source = weakref.ref(batches)
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
    dataset.batches, dataset.identity = batches, batches.identity
    dataset.after = lambda count: _dataset(batches.after(count), signature)

    def of_process(index: int, count: int, pieces: int) -> tf.data.Dataset:
        fewer = partial(_fewer, count)
        cut = tf.nest.map_structure(fewer, signature)
        return _dataset(batches.of_process(index, count, pieces), cut, pieces)

    dataset.of_process = of_process
    return dataset


def _numbered(batches: Any, index: int) -> list[Any]:
    """Return the arrays of batch `index` of a pass, in TensorFlow's order."""
    batch = batches[index]
    if index == len(batches) - 1:  # `fit` stops asking here
        batches.on_epoch_end()
    return tf.nest.flatten(batch)


def _fewer(count: int, spec: tf.TensorSpec) -> tf.TensorSpec:
    """Return the shape and type of what one of several processes reads of a batch."""
    rows, *rest = spec.shape
    return tf.TensorSpec((rows and rows // count, *rest), spec.dtype)


def _cut(pieces: int, value: tf.Tensor) -> tf.Tensor:
    """Cut the rows of a batch into equal parts, `(pieces, rows / pieces, ...)`."""
    rows, *rest = value.shape
    sizes = tf.shape(value)
    each = rows // pieces if rows else -1
    lengths = [sizes[place] if it is None else it for place, it in enumerate(rest, 1)]
    return tf.reshape(value, [pieces, each, *lengths])
