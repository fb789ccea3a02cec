"""Float32 or bfloat16, and values that are NaN or infinite."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras import ops

from keras_msd.checks import InputError
from keras_msd.choices import Precision

POLICIES: dict[Precision, str] = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
WORTH = 1.2  # minimum speed-up for which bfloat16 is used
ROWS, WIDTH, WIDER = 2048, 384, 1536  # tokens of a batch, a feed-forward layer
SPENT_S = 0.4  # for each precision


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Build models inside this context that compute in a precision.

    Weights, the state of the optimizer, and losses stay float32.

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


def faster_precision() -> Precision:
    """Return "bfloat16" if a dense layer is clearly faster with it, else "float32".

    This measures for a second, because the name of a processor does not tell.
    """
    seconds = {precision: _seconds(precision) for precision in POLICIES}
    gains = seconds["float32"] > WORTH * seconds["bfloat16"]
    return "bfloat16" if gains else "float32"


def _seconds(precision: Precision) -> float:
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


class NotFiniteError(InputError):
    """A loss, a weight or a vector is NaN or infinite."""
