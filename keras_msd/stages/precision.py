"""What stages compute in, float32 or bfloat16, and what is no number any more."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.checks import InputError

logger = logging.getLogger(__name__)
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
WORTH = 1.2  # times as fast, below which the coarser numbers are not worth it
ROWS, WIDTH, WIDER = 2048, 384, 1536  # tokens of a batch, a feed-forward layer
SPENT_S = 0.4  # on each of the two


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Have models that are built within compute in a precision.

    Weights, the optimizer's state and losses stay float32.

    Args:
        precision: "float32" or "bfloat16".

    Example:
        >>> from keras_msd.stages.precision import computing_in
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
    """Return "bfloat16" if a layer of matrices is clearly faster in it, else "float32".

    Measured for a second, on this machine and backend: names of processors say little.
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
    """A loss, a weight or a vector is NaN or infinite: nothing is made of it."""


class FiniteLoss(keras.callbacks.Callback):
    """Ends a training at the first update whose loss is NaN or infinite.

    Every stage has it in `fit`. Where it skips bad batches, the training ends once they
    are too many.

    Args:
        batches: What is trained on.

    Raises:
        NotFiniteError: Within `fit`.
    """

    def __init__(self, batches: Any) -> None:
        super().__init__()
        self._batches = getattr(batches, "batches", batches)
        self._skipped = 0

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Look at the means so far: they are numbers as long as every loss was one."""
        logs = logs or {}
        bad = [name for name, value in logs.items() if not math.isfinite(value)]
        skipped = int(logs.get("bad_batches", 0))
        if not bad and skipped == self._skipped:
            return
        model, self._skipped = self.model, skipped  # under JAX it has its values again
        where = self._where(batch)
        if bad:
            found = ", ".join(f"{name}={logs[name]}" for name in bad)
            raise NotFiniteError(
                f"The loss of `{model.name}` must be finite. Received: {found} at "
                f"{where}. Lower the learning rate, lengthen the warm-up or repair the "
                "data; or let the stage skip such batches."
            )
        if skipped > model.most_bad_batches:
            raise NotFiniteError(
                f"`{model.name}` may skip {model.most_bad_batches} batches whose loss "
                f"or gradients are not finite. Received: {skipped}, the last at "
                f"{where}. Lower the learning rate or repair the data."
            )
        logger.warning("`%s` skipped a batch that is not finite: %s", model.name, where)

    def _where(self, batch: int) -> str:
        words = f"update {batch + 1} of this `fit`"
        if not hasattr(self._batches, "batch"):
            return words
        position = self._batches.position + batch
        _, goals = self._batches.batch(position)
        bad = [name for name, it in goals.items() if not np.isfinite(it).all()]
        goal = f"its target `{bad[0]}` is not" if bad else "its targets are"
        return f"{words}, batch {position} of its stream, from 0 ({goal} finite)"


def all_finite(values: Any) -> Any:
    """Return whether all numbers of some tensors are finite, as a boolean scalar."""
    return ops.all(ops.stack([ops.all(ops.isfinite(value)) for value in values]))
