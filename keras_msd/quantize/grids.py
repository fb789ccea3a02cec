"""Rounding of weights inside a network to the values that an export stores."""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_msd.quantize.kernels import kernel_integers
from keras_msd.quantize.schemes import LARGEST
from keras_msd.quantize.tables import quantize_table


class Grid(NamedTuple):
    """The values that a weight is rounded to: multiples of a scale for each group.

    Attributes:
        scales: float32, broadcastable to the weight in `shape`.
        shape: Shape of the weight with an axis for the numbers that share a scale.
        largest: The largest multiple.
    """

    scales: np.ndarray
    shape: tuple[int, ...]
    largest: int

    def rounded(self, value: Any) -> Any:
        """Return the nearest multiples."""
        steps = ops.round(ops.reshape(value, self.shape) / self.scales)
        nearest = ops.clip(steps, -self.largest, self.largest) * self.scales
        return ops.reshape(nearest, value.shape)


def table_grid(table: np.ndarray, bits: int) -> Grid:
    """Return the grid of a word table `(V, width)`, see `quantize_table`."""
    scales = quantize_table(table, bits).scales
    shape = len(table), scales.shape[1], table.shape[1] // scales.shape[1]
    return Grid(scales.astype(np.float32)[:, :, np.newaxis], shape, LARGEST[bits])


def kernel_grid(kernel: np.ndarray, bits: int) -> Grid:
    """Return the grid of a kernel `(in, out)`, see `kernel_integers`."""
    _, scales = kernel_integers(kernel.T, bits)
    inputs, outputs = kernel.shape
    shape = scales.shape[1], inputs // scales.shape[1], outputs
    return Grid(scales.T[:, np.newaxis].astype(np.float32), shape, LARGEST[bits])
