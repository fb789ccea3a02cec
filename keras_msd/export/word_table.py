"""A word table in few bits: whole numbers and a scale for each group of columns."""

from dataclasses import dataclass

import numpy as np

from keras_msd import checks

INT4_GROUP = 32  # columns that share a scale, at most
LARGEST = {8: 127, 4: 7}
CLIPS = np.linspace(1.0, 0.7, 7, dtype=np.float32)


@dataclass(frozen=True)
class StoredTable:
    """A quantised table of `V` rows and `width` columns.

    Row `r`, column `c` is `number * scales[r, c // group]` with `group` =
    `width / groups`.

    Attributes:
        values: The numbers. With 8 bits, int8 `(V, width)`. With 4 bits, uint8
            `(V, ceil(width / 2))`: each byte is `(a + 8) + 16 * (b + 8)` with `a` from
            the first half of the columns and `b` from the second.
        scales: float32 `(V, groups)`.
        width: Columns.
        bits: 8 or 4.
    """

    values: np.ndarray
    scales: np.ndarray
    width: int
    bits: int

    def dequantize(self) -> np.ndarray:
        """Return the float32 table `(V, width)` that the numbers stand for."""
        numbers = self.values.astype(np.float32)
        if self.bits == 4:
            high = np.floor(numbers / 16)
            numbers = np.concatenate([numbers - 16 * high, high], axis=1)
            numbers = numbers[:, : self.width] - 8
        group = self.width // self.scales.shape[1]
        return numbers * np.repeat(self.scales, group, axis=1)


def quantize_table(
    table: np.ndarray, bits: int, group: int | None = None
) -> StoredTable:
    """Store a table in 8 or 4 bits a number.

    A scale is the largest size in its group over 127. With 4 bits some larger numbers
    are clipped where that makes the squared error smaller.

    Args:
        table: float32 `(V, width)`.
        bits: 8 or 4.
        group: Columns that share a scale; must divide `width`. By default the whole
            row with 8 bits, and with 4 bits the largest divisor of `width` from 8 to
            32, if it has one.

    Raises:
        InputError: `bits` is another number, or `group` does not divide `width`.
    """
    checks.one_of(LARGEST, bits=bits)
    table = np.asarray(table, np.float32)
    rows, width = table.shape
    if group is None:
        group = width if bits == 8 else _group(width)
    checks.divides({"group": group}, {"width": width})
    parts = table.reshape(rows, width // group, group)
    scales = np.abs(parts).max(axis=2, keepdims=True) / LARGEST[bits]
    scales = np.where(scales > 0, scales, np.float32(1))
    if bits == 4:
        scales = _clipped(parts, scales)
    numbers = _rounded(parts, scales, bits).reshape(rows, width)
    values = numbers.astype(np.int8) if bits == 8 else _packed(numbers)
    return StoredTable(values, scales[:, :, 0].astype(np.float32), width, bits)


def _group(width: int) -> int:
    largest = max(size for size in range(1, INT4_GROUP + 1) if width % size == 0)
    return largest if largest >= INT4_GROUP // 4 else width  # scales take bytes too


def _rounded(parts: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    return np.clip(np.rint(parts / scales), -LARGEST[bits], LARGEST[bits])


def _clipped(parts: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return, for each group, the scale of least squared error among a few."""
    best, least = scales, np.full(scales.shape, np.inf, np.float32)
    for clip in CLIPS:
        tried = scales * clip
        error = np.square(_rounded(parts, tried, 4) * tried - parts)
        error = error.sum(axis=2, keepdims=True)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return best


def _packed(numbers: np.ndarray) -> np.ndarray:
    rows, width = numbers.shape
    half = -(-width // 2)
    shifted = np.full((rows, 2 * half), 8, np.uint8)
    shifted[:, :width] = numbers + 8
    return shifted[:, :half] + 16 * shifted[:, half:]
