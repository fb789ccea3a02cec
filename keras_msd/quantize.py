"""Weights and embeddings in 8 bits or fewer: schemes, rounding, packing."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checks import InputError, one_of

BITS = {"int8": 8, "int4": 4}
LARGEST = {8: 127, 4: 7}  # sizes of the numbers, by their bits
INT4_GROUP = 32  # numbers of 4 bits that share a scale, at most


class Scheme(NamedTuple):
    """A quantization scheme: "float32", "float16", "int8" or "int4" per kind of weight.

    Attributes:
        table: The embedding table, most of a small encoder's bytes.
        blocks: Kernels of matrix products. Biases, norms and scales are small and stay
            in floating point (in a SavedModel float16, except scales).
        positions: The table of positions.
    """

    table: str
    blocks: str
    positions: str


FULL = Scheme("float32", "float32", "float32")
SCHEMES: dict[str | None, Scheme] = {
    None: FULL,
    "fp16": Scheme("float16", "float16", "float16"),
    "int8": Scheme("int8", "int8", "int8"),
    "int4_table": Scheme("int4", "int8", "int8"),
    "int4": Scheme("int4", "int4", "int8"),
}


def kernel_bits(kind: str, inputs: int) -> int:
    """Return the bits of a kernel's numbers where a kernel is stored by its outputs.

    Args:
        kind: "int8" or "int4".
        inputs: Inputs of the kernel. XNNPACK, which runs LiteRT files, takes 4 bits
            only for a multiple of 32.
    """
    return 8 if inputs % INT4_GROUP else BITS[kind]


MIDDLE = 8  # added to a number of 4 bits, which has no sign then
# With 4 bits these factors of the scale that holds the largest number are tried.
SCALE_FACTORS = np.array(
    [*np.linspace(1.0, 0.7, 7), *7 / np.arange(6, 2, -1)], np.float32
)


@dataclass(frozen=True)
class StoredTable:
    """A quantized table of `V` rows and `width` columns.

    Row `r`, column `c` is `number * scales[r, c // group]` with `group` =
    `width / groups`.

    Attributes:
        values: The numbers. With 8 bits, int8 `(V, width)`. With 4 bits, uint8
            `(V, ceil(width / 2))`, see `pack_halves`.
        scales: float32 `(V, groups)`; with 4 bits float16 where that holds them all.
        width: Columns.
        bits: 8 or 4.
    """

    values: np.ndarray
    scales: np.ndarray
    width: int
    bits: int

    def dequantize(self) -> np.ndarray:
        """Return the float32 table `(V, width)` that the numbers stand for."""
        rows, groups = self.scales.shape
        numbers = self.values
        if self.bits == 4:
            numbers = unpack_halves(numbers, self.width)
        table = numbers.astype(np.float32).reshape(rows, groups, -1)
        table *= self.scales.astype(np.float32)[:, :, np.newaxis]
        return table.reshape(rows, self.width)


def quantize_table(table: np.ndarray, bits: int) -> StoredTable:
    """Store a table in 8 or 4 bits a number, as `to_integers` rounds them.

    A scale is that of a whole row with 8 bits, and with 4 bits that of `int4_group`
    columns.

    Args:
        table: float32 `(V, width)`.
        bits: 8 or 4.
    """
    width = table.shape[1]
    group = width if bits == 8 else int4_group(width)
    numbers, scales = to_integers(table, bits, group)
    values = numbers if bits == 8 else pack_halves(numbers)
    return StoredTable(values, scales, width, bits)


def int4_shapes(rows: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the shapes of `values` and `scales` of a stored table in 4 bits."""
    return (rows, -(-width // 2)), (rows, width // int4_group(width))


def to_integers(
    table: np.ndarray, bits: int, group: int, scale_dtype: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Round a table to whole numbers that stand for themselves times a scale.

    A scale is the largest size in its group over 127. With 4 bits, over 7, or a smaller
    or larger scale where that makes the squared error smaller: a smaller one clips the
    largest numbers, a larger one is that of numbers that were rounded before.

    Args:
        table: float32 `(V, width)`.
        bits: 8, for numbers from -127 to 127, or 4, from -7 to 7.
        group: Columns that share a scale; must divide `width`.
        scale_dtype: Of scales with 4 bits; by default float16 if all lie within its
            normal numbers, else float32. With 8 bits it is float32.

    Returns:
        Numbers int8 `(V, width)` and scales `(V, width / group)`.
    """
    table = np.asarray(table, np.float32)
    rows, width = table.shape
    groups = table.reshape(rows, width // group, group)
    scales = np.abs(groups).max(axis=2, keepdims=True) / LARGEST[bits]
    scales = np.where(scales > 0, scales, np.float32(1))
    if bits == 4:
        scale_dtype = scale_dtype or _holding(scales)
        scales = _least_error(groups, scales, scale_dtype)
    numbers = _rounded(groups, scales, bits).reshape(rows, width)
    kept = scales[:, :, 0].astype(scale_dtype if bits == 4 else np.float32)
    return numbers.astype(np.int8), kept


def int4_group(width: int) -> int:
    """Return how many columns of a table in 4 bits share a scale.

    It is the largest divisor of `width` up to 32, or all columns if that is below 8.
    """
    largest = max(size for size in range(1, INT4_GROUP + 1) if width % size == 0)
    return largest if largest >= INT4_GROUP // 4 else width  # scales take bytes too


def _holding(scales: np.ndarray) -> Any:
    half = np.finfo(np.float16)
    smallest = scales.min() * SCALE_FACTORS.min()
    largest = scales.max() * SCALE_FACTORS.max()
    inside = half.smallest_normal <= smallest and largest <= half.max
    return np.float16 if inside else np.float32


def _rounded(groups: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    return np.clip(np.rint(groups / scales), -LARGEST[bits], LARGEST[bits])


def _least_error(groups: np.ndarray, scales: np.ndarray, dtype: Any) -> np.ndarray:
    """Return, for each group, the scale of least squared error among a few."""
    smallest = np.finfo(dtype).smallest_subnormal.astype(np.float32)
    best, least = scales, np.full(scales.shape, np.inf, np.float32)
    for clip in SCALE_FACTORS:
        held = np.maximum(scales * clip, smallest).astype(dtype).astype(np.float32)
        error = np.square(_rounded(groups, held, 4) * held - groups)
        error = error.sum(axis=2, keepdims=True)
        best, least = np.where(error < least, held, best), np.minimum(error, least)
    return best


def pack_halves(numbers: np.ndarray) -> np.ndarray:
    """Pack a table of 4-bit numbers as our folder and a SavedModel hold it.

    Args:
        numbers: Whole numbers from -8 to 7, `(V, width)`.

    Returns:
        uint8 `(V, ceil(width / 2))`: each byte is `(a + 8) + 16 * (b + 8)` with `a`
        from the first half of the columns and `b` from the second.
    """
    rows, width = numbers.shape
    half = -(-width // 2)
    shifted = np.full((rows, 2 * half), MIDDLE, np.uint8)
    shifted[:, :width] = numbers + MIDDLE
    return shifted[:, :half] | shifted[:, half:] << 4


def unpack_halves(values: np.ndarray, width: int) -> np.ndarray:
    """Return the numbers that `pack_halves` packed, int8 `(V, width)`."""
    rows, half = values.shape
    numbers = np.empty((rows, 2 * half), np.int8)
    numbers[:, :half], numbers[:, half:] = values & 15, values >> 4
    numbers -= MIDDLE
    return numbers[:, :width]


def kernel_integers(kernel: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Round a kernel as LiteRT files store it, and as training rounds it.

    A scale is that of an output with 8 bits, float32; and that of 32 inputs of an
    output with 4 bits, float16.

    Args:
        kernel: float32 `(out, in)`.
        bits: 8; or 4, where `in` is a multiple of 32.

    Returns:
        Numbers int8 `(out, in)` and scales `(out, groups)`.
    """
    group = kernel.shape[1] if bits == 8 else INT4_GROUP
    return to_integers(kernel, bits, group, np.float16)


def litert_kernel(kernel: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Store a kernel as `kernel_integers` rounds it, in the bytes of a LiteRT file.

    Returns:
        int8 `(out, in)` for the type INT8; or uint8 `(out * in / 2,)` for INT4, two
        numbers a byte in two's complement, the first in the low half. And the scales.
    """
    numbers, scales = kernel_integers(kernel, bits)
    if bits == 8:
        return numbers, scales
    pairs = numbers.reshape(-1, 2) & 15
    return pairs[:, 0] | pairs[:, 1] << 4, scales


PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
LEVELS = 255  # steps of an 8-bit integer
HALF = 128  # subtracted so that codes fit into int8


def quantize_embeddings(
    embeddings: np.ndarray,
    precision: str,
    ranges: np.ndarray | None = None,
    calibration_embeddings: np.ndarray | None = None,
) -> np.ndarray:
    """Store embeddings in fewer bytes, with the numbers of sentence-transformers.

    Args:
        embeddings: Real numbers `(n, dim)`.
        precision: "int8" or "uint8": 255 equal steps between the lowest and the highest
            value of each dimension. "binary" or "ubinary": one bit per dimension, 1 if
            it is above 0, eight bits in a byte. "float32": unchanged.
        ranges: For integers, the lowest and the highest value of each dimension, `(2,
            dim)`. Values outside become the nearest step.
        calibration_embeddings: `(m, dim)`, from which `ranges` are computed. Without
            both, they are computed from `embeddings`; then only vectors of the same
            call are comparable.

    Returns:
        int8 or uint8 `(n, dim)`, for bits `(n, ceil(dim / 8))`; or float32.

    Raises:
        InputError: `precision` is unknown, `ranges` has another shape, or ranges would
            have to be computed from a single embedding.

    Source: `quantize_embeddings` of sentence-transformers 6.2.

    Example:
        >>> vectors = np.array([[-1.0, 0.5], [1.0, -0.5], [0.0, 0.5]])
        >>> msd.quantize_embeddings(vectors, "int8").tolist()
        [[-128, 126], [126, -128], [-1, 126]]
        >>> msd.quantize_embeddings(vectors, "ubinary").tolist()
        [[64], [128], [64]]
    """
    one_of(PRECISIONS, precision=precision)
    vectors = np.asarray(embeddings, np.float32)
    if precision == "float32":
        return vectors
    if precision.endswith("binary"):
        bits = np.packbits(vectors > 0, axis=-1)
        return bits if precision == "ubinary" else (bits - HALF).astype(np.int8)
    if ranges is None and len(vectors):
        sample = vectors if calibration_embeddings is None else calibration_embeddings
        if len(sample) < 2:
            raise InputError(
                "The range of each dimension needs two embeddings or more. Received: "
                f"{len(sample)}. Give `quantize_embeddings` the argument "
                "`calibration_embeddings`, or use precision='binary'."
            )
        ranges = np.stack([np.min(sample, axis=0), np.max(sample, axis=0)])
    if ranges is None:
        ranges = np.zeros((2, vectors.shape[1]))
    if np.shape(ranges) != (2, vectors.shape[1]):
        raise InputError(
            f"`ranges` must have the shape (2, {vectors.shape[1]}). Received: "
            f"{np.shape(ranges)}."
        )
    low, high = np.asarray(ranges, np.float32)
    steps = (high - low) / LEVELS
    steps = np.where(steps == 0, 1, steps).astype(np.float32)
    codes = np.clip(np.floor((vectors - low) / steps), 0, LEVELS)
    if precision == "uint8":
        return codes.astype(np.uint8)
    return (codes - HALF).astype(np.int8)
