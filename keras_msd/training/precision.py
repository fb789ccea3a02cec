"""Float32 or bfloat16, and values that are NaN or infinite."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras import ops

from keras_msd.checks import InputError

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
WORTH = 1.2  # times as fast, below which the coarser numbers are not worth it
ROWS, WIDTH, WIDER = 2048, 384, 1536  # tokens of a batch, a feed-forward layer
SPENT_S = 0.4  # on each of the two


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Models built inside this context compute in a precision.

    Weights, the optimizer's state and losses stay float32.

    Args:
        precision: "float32" or "bfloat16".

    Example:
        >>> from keras_msd.training.precision import computing_in
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


def faster_precision() -> str:
    """Return "bfloat16" if a dense layer is clearly faster in it, else "float32".

    It measures for a second, because the name of a processor tells little.
    """
    seconds = {precision: _seconds(precision) for precision in POLICIES}
    gains = seconds["float32"] > WORTH * seconds["bfloat16"]
    return "bfloat16" if gains else "float32"


def _seconds(precision: str) -> float:
    """Return the shortest time of a product of matrices, twice through."""
    rows = ops.cast(keras.random.normal((ROWS, WIDTH), seed=0), precision)
    kernel = ops.cast(keras.random.normal((WIDTH, WIDER), seed=1), precision)
    least, end = float("inf"), time.monotonic() + SPENT_S
    while time.monotonic() < end or least == float("inf"):
        began = time.monotonic()
        product = ops.matmul(ops.matmul(rows, kernel), ops.transpose(kernel))
        ops.convert_to_numpy(ops.cast(product[0, 0], "float32"))  # waits for the result
        least = min(least, time.monotonic() - began)
    return least


class NotFiniteError(InputError):
    """A loss, a weight or a vector is NaN or infinite."""
