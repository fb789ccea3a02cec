"""Rows of different lengths, in a flat file that is not loaded, or in memory."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np


def read_flat(path: Path, dtype: Any) -> np.ndarray:
    """Return a memory-mapped file of numbers."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r")


def flattened(rows: Sequence[Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the joined values of all rows, and their lengths, int64 `(n,)`.

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
        path: Path without a suffix.
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
        """Append rows.

        Args:
            values: The joined values of all rows: bytes, or a contiguous array.
            lengths: Number of values of each row, int64 `(n,)`.
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
    """Rows of different lengths.

    Args:
        values: The joined values of all rows.
        offsets: The start of each row, and the end of the last one, int64 `(n + 1,)`.
    """

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self._values, self._offsets = values, offsets

    @classmethod
    def open(cls, path: Path, dtype: Any) -> "Ragged":
        """Open the files of a `RaggedWriter` with the same arguments."""
        values = read_flat(path.with_suffix(".values"), dtype)
        return cls(values, read_flat(path.with_suffix(".offsets"), np.int64))

    @classmethod
    def of(cls, rows: Sequence[Any], dtype: Any) -> "Ragged":
        """Keep rows in memory."""
        values, lengths = flattened(rows, dtype)
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the length of each row, int64 `(n,)`."""
        return self._offsets[rows + 1] - self._offsets[rows]

    def padded(
        self, rows: np.ndarray, length: int, fill: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows, padded at the right.

        Args:
            rows: Row numbers `(n,)`.
            length: Padded length; no row may be longer.
            fill: Value of the padding.

        Returns:
            Values and the mask of real ones, both int32 `(n, length)`.
        """
        starts, lengths = self._offsets[rows], self.lengths(rows)
        steps = np.arange(length)
        mask = steps < lengths[:, None]
        values = np.full(mask.shape, fill, np.int32)
        values[mask] = self._values[(starts[:, None] + steps)[mask]]
        return values, mask.astype(np.int32)

    def chunk(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of consecutive rows, for texts, in one read of the file."""
        ends = np.asarray(self._offsets[start : stop + 1])
        data = self._values[ends[0] : ends[-1]].tobytes()
        ends = (ends - ends[0]).tolist()
        return [data[a:b] for a, b in pairwise(ends)]


class TokenRows:
    """Token ids of the two sides of each row.

    Args:
        sides: The ids of "source" and "target".
        pad_id: Id that pads a row of a batch.
        max_length: Maximum number of token ids of a text.
    """

    def __init__(self, sides: dict[str, Ragged], pad_id: int, max_length: int) -> None:
        self._sides, self.pad_id, self.max_length = sides, pad_id, max_length

    def __len__(self) -> int:
        return len(self._sides["source"])

    def lengths(self, side: str, rows: np.ndarray) -> np.ndarray:
        """Return the number of token ids of `source` or `target` rows, int64 `(n,)`."""
        return self._sides[side].lengths(rows)

    def longest(self, rows: np.ndarray) -> list[int]:
        """Return the length of the longest source and the longest target of rows."""
        return [int(self.lengths(side, rows).max()) for side in self._sides]

    def padded(
        self, side: str, rows: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return token ids and padding mask of rows, both int32 `(n, length)`."""
        return self._sides[side].padded(rows, length, self.pad_id)
