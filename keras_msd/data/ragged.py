"""Rows of different lengths in one flat file, read by offset without loading it."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np


def read_flat(path: Path, dtype: Any) -> np.ndarray:
    """Map a file of numbers into memory; its pages belong to the file, not to us."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r")


def flattened(rows: Sequence[Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of all rows one after the other, and int64 lengths `(n,)`.

    Args:
        rows: Sequences of numbers or, for bytes, `bytes` objects.
        dtype: Type of the values.
    """
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    if dtype == np.uint8:
        return np.frombuffer(b"".join(rows), np.uint8), lengths
    numbers = [np.asarray(row, dtype) for row in rows]
    return np.concatenate([np.zeros(0, dtype), *numbers]), lengths


class RaggedWriter:
    """Appends rows to `<path>.values` and their ends to `<path>.offsets`.

    Args:
        path: Where, without a suffix.
        dtype: Type of the values.
    """

    def __init__(self, path: Path, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.end = 0
        self._values = open(path.with_suffix(".values"), "wb")
        self._offsets = open(path.with_suffix(".offsets"), "wb")
        self._offsets.write(np.zeros(1, np.int64).tobytes())

    def extend(self, rows: Sequence[Any]) -> None:
        """Append rows: sequences of numbers or, for bytes, `bytes` objects."""
        self.extend_flat(*flattened(rows, self.dtype))

    def extend_flat(self, values: Any, lengths: np.ndarray) -> None:
        """Append rows whose values follow one another.

        Args:
            values: Bytes, or a contiguous array of this type, of all rows.
            lengths: Values of each row, int64 `(n,)`.
        """
        self._values.write(values)
        ends = self.end + np.cumsum(lengths, dtype=np.int64)
        self._offsets.write(ends.tobytes())
        self.end += int(lengths.sum())

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._values.close()
        self._offsets.close()


class Ragged:
    """Reads what a `RaggedWriter` wrote.

    Args:
        path: Where, without a suffix.
        dtype: Type of the values.
    """

    def __init__(self, path: Path, dtype: Any) -> None:
        self._values = read_flat(path.with_suffix(".values"), dtype)
        self._offsets = read_flat(path.with_suffix(".offsets"), np.int64)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self._values[self._offsets[row] : self._offsets[row + 1]]

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the length of each row, int64 `(n,)`."""
        return self._offsets[rows + 1] - self._offsets[rows]

    def padded(
        self, rows: np.ndarray, length: int, fill: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows as a rectangle, filled up at the right.

        Args:
            rows: Row numbers `(n,)`.
            length: Width; no row may be longer.
            fill: What stands after a row's end.

        Returns:
            Values int32 `(n, length)` and the mask of real ones, bool `(n, length)`.
        """
        starts, lengths = self._offsets[rows], self.lengths(rows)
        steps = np.arange(length)
        mask = steps < lengths[:, None]
        values = np.full(mask.shape, fill, np.int32)
        values[mask] = self._values[(starts[:, None] + steps)[mask]]
        return values, mask

    def chunk(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of consecutive rows, for texts; one read of the file."""
        ends = np.asarray(self._offsets[start : stop + 1])
        data = self._values[ends[0] : ends[-1]].tobytes()
        ends = (ends - ends[0]).tolist()
        return [data[a:b] for a, b in pairwise(ends)]
