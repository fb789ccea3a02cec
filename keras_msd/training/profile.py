"""Measure the time of training steps, and which precision is faster."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError, at_least
from keras_msd.choices import Precision
from keras_msd.data.batches import Batches
from keras_msd.training.resume import stage_variables

UPDATES = 8
POLICIES: dict[Precision, str] = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
WORTH = 1.2  # minimum speed-up for which bfloat16 is used
ROWS, WIDTH, WIDER = 2048, 384, 1536  # tokens of a batch, a feed-forward layer
SPENT_S = 0.4  # for each precision


def profile_updates(
    stage: keras.Model, batches: Batches, updates: int = UPDATES
) -> dict[str, Any]:
    """Measure a few updates of a stage, then restore the stage.

    Each batch runs twice and the second run is measured: in the first, TensorFlow
    traces the update, and JAX compiles it for each padded length.

    Args:
        stage: A compiled stage.
        batches: Batches for `fit`, such as `PairBatches`.
        updates: Number of batches to measure, from the first one on.

    Returns:
        `updates`, the number of measured updates; `compile`, the seconds by which the
        first runs were slower; and the seconds of all measured updates: `data_wait`
        for the next batch, and `update`. For `Batches` also `shapes`, the number of
        shapes of all batches, and `compilations`, the number that XLA compiles.

    Raises:
        InputError: `updates` is below 1, or there are fewer batches.

    Example:
        >>> pairs = msd.testing.tiny_pairs()
        >>> encoder = msd.testing.tiny_encoder(num_layers=0)
        >>> guides = {"teacher": (msd.data.GuideStore(encoder, "vectors"), "source")}
        >>> batches = msd.data.PairBatches(pairs, encoder, guides, batch_size=2)
        >>> stage = msd.stages.TeachAssistant(encoder)
        >>> stage.compile(msd.training.make_optimizer(learning_rate=1e-3, steps=9))
        >>> seconds = msd.training.profile_updates(stage, batches, updates=2)
        >>> seconds["updates"], seconds["update"] > 0
        (2, True)
    """
    at_least(1, updates=updates)
    if not stage.optimizer.built:
        stage.optimizer.build(stage.trainable_variables)
    variables = [variable for _, variable in stage_variables(stage)]
    before = [keras.ops.convert_to_numpy(variable.value) for variable in variables]
    try:
        return _measured(stage, batches, updates)
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def _measured(stage: Any, batches: Any, updates: int) -> dict[str, Any]:
    wait = update = beyond = 0.0
    source = iter(_walk(stage.local_batches(batches)))
    for number in range(updates):
        began = time.perf_counter()
        batch = next(source, None)
        if batch is None:
            raise InputError(
                f"There must be at least {updates} batches to measure. Received: "
                f"{number}. Give more, or measure fewer updates."
            )
        wait += time.perf_counter() - began
        first, second = _seconds(stage, batch), _seconds(stage, batch)
        update, beyond = update + second, beyond + first - second
    found = {"updates": updates, "compile": max(beyond, 0.0)}
    found |= {"data_wait": wait, "update": update}
    shapes = getattr(batches, "shapes", None)
    if shapes is None:
        return found
    count = shapes()
    return {**found, "shapes": count, "compilations": count * bool(stage.jit_compile)}


def _walk(batches: Any) -> Iterator[Any]:
    if isinstance(batches, keras.utils.PyDataset):
        return (batches[place] for place in range(len(batches)))
    return iter(batches)


def _seconds(stage: Any, batch: Any) -> float:
    began = time.perf_counter()
    stage.train_on_batch(*batch)
    return time.perf_counter() - began


def profile_text(seconds: dict[str, Any]) -> str:
    """Return the result of `profile_updates` as one line of text.

    Example:
        >>> from keras_msd.training.profile import profile_text
        >>> profile_text({"updates": 2, "compile": 3, "data_wait": 0.1, "update": 0.3})
        'an update takes 200 ms, 25.0 % of it waiting for data; compile 3.0 s'
    """
    wait, update = seconds["data_wait"], seconds["update"]
    each = 1000 * (wait + update) / seconds["updates"]
    share = 100 * wait / (wait + update)
    text = (
        f"an update takes {each:.0f} ms, {share:.1f} % of it waiting for data; compile "
        f"{seconds['compile']:.1f} s"
    )
    if "shapes" not in seconds:
        return text
    return f"{text}; {seconds['shapes']} shapes, {seconds['compilations']} compilations"


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Build models inside this context that compute in a precision.

    Weights, the state of the optimizer, and losses stay float32.

    Args:
        precision: "float32" or "bfloat16".

    Example:
        >>> from keras_msd.training.profile import computing_in
        >>> with computing_in("bfloat16"):
        ...     encoder = msd.testing.tiny_encoder()
        >>> layer = encoder.model.get_layer("embedding")
        >>> layer.compute_dtype, layer.variable_dtype
        ('bfloat16', 'float32')
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(POLICIES[precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def faster_precision() -> Precision:
    """Return "bfloat16" if a dense layer is clearly faster with it, else "float32".

    This measures for a second, because the name of a processor does not tell.
    """
    seconds = {precision: _product_seconds(precision) for precision in POLICIES}
    gains = seconds["float32"] > WORTH * seconds["bfloat16"]
    return "bfloat16" if gains else "float32"


def _product_seconds(precision: Precision) -> float:
    """Return the shortest time of a product of three matrices."""
    rows = ops.cast(keras.random.normal((ROWS, WIDTH), seed=0), precision)
    kernel = ops.cast(keras.random.normal((WIDTH, WIDER), seed=1), precision)
    least, end = float("inf"), time.monotonic() + SPENT_S
    while time.monotonic() < end or least == float("inf"):
        began = time.monotonic()
        product = ops.matmul(ops.matmul(rows, kernel), ops.transpose(kernel))
        ops.convert_to_numpy(ops.cast(product[0, 0], "float32"))  # waits for the result
        least = min(least, time.monotonic() - began)
    return least
