"""Quantization schemes: how the weights of an encoder are stored, by name."""

from typing import Literal, NamedTuple

# Of saved encoders and of training; an export also has "fp16".
IntegerScheme = Literal["int8", "int4_table", "int4"]

BITS = {"int8": 8, "int4": 4}
LARGEST = {8: 127, 4: 7}  # sizes of the numbers, by their bits
INT4_GROUP = 32  # numbers of 4 bits that share a scale, at most


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


def kernel_bits(kind: str, inputs: int) -> int:
    """Return the bits of a kernel's numbers where a kernel is stored by its outputs.

    Args:
        kind: "int8" or "int4".
        inputs: Inputs of the kernel. XNNPACK, which runs LiteRT files, takes 4 bits
            only for a multiple of 32.
    """
    return 8 if inputs % INT4_GROUP else BITS[kind]
