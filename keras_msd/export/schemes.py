"""Quantization schemes of artefacts."""

from typing import Any, NamedTuple

import numpy as np

from keras_msd.checks import InputError

LARGEST_HALF = float(np.finfo(np.float16).max)


class Scheme(NamedTuple):
    """A quantization scheme: "float32", "float16", "int8" or "int4" per kind of weight.

    Attributes:
        table: The word table, most of a small encoder's bytes.
        blocks: Kernels of matrix products. Biases, norms, positions and scales are
            small and stay floating point (a SavedModel: float16, scales apart).
    """

    table: str
    blocks: str


FULL = Scheme("float32", "float32")
SCHEMES: dict[str | None, Scheme] = {
    None: FULL,
    "fp16": Scheme("float16", "float16"),
    "int8": Scheme("int8", "int8"),
    "int4_table": Scheme("int4", "int8"),
    "int4": Scheme("int4", "int4"),
}


def check_weights(encoder: Any, quantize: str | None) -> None:
    """Check that an encoder's weights can be stored.

    Raises:
        InputError: A weight is not finite; or it is larger than float16 holds and
            `quantize` is not None. (A scheme of whole numbers, too, may hold biases and
            norms in float16.)
    """
    for name, value in encoder.weights().items():
        value = np.asarray(value, np.float32)
        if not np.isfinite(value).all():
            raise InputError(
                f"The weights must be finite. Received: NaN or infinity in `{name}`. "
                "Take an earlier state of the training."
            )
        if quantize is not None and np.abs(value).max(initial=0) > LARGEST_HALF:
            raise InputError(
                f"With quantize={quantize!r} some weights are stored in 16 bits, which "
                f"hold at most {LARGEST_HALF:g}. Received: {np.abs(value).max():g} in "
                f"`{name}`. Leave `quantize` out."
            )
