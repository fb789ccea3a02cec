"""Quantization schemes: how the weights of an encoder are stored, by name."""

from typing import NamedTuple


class Scheme(NamedTuple):
    """A quantization scheme: "float32", "float16", "int8" or "int4" per kind of weight.

    Attributes:
        table: The embedding table, most of a small encoder's bytes.
        blocks: Kernels of matrix products. Biases, norms, positions and scales are
            small and stay in floating point (in a SavedModel float16, except scales).
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
