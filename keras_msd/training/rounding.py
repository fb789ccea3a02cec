"""Train with weights that are rounded as an export stores them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, get_args

import keras
import numpy as np
from keras import ops

from keras_msd.checks import one_of
from keras_msd.choices import IntegerScheme
from keras_msd.models.encoder_folder import bits_of
from keras_msd.models.network import WORD, matrix
from keras_msd.quantize import LARGEST, kernel_integers, quantize_table
from keras_msd.training.chunks import OwnValues, random_states


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


class Rounding:
    """Runs a network with its word table and matrices rounded to 8 or 4 bits.

    Every forward pass uses rounded weights. The gradient ignores the rounding
    (straight-through estimator), so small updates of the exact weights add up. The
    scales are those of an export of the network at the time of this call; they do not
    change.

    Biases, norms and types are not rounded, nor are positions, whose 8 bits in a file
    change next to nothing. Weights that are not trainable are rounded at once.

    Args:
        network: An encoder's model, or a part of it.
        quantize: "int8", "int4_table" or "int4", as for `Encoder.export`.

    Raises:
        InputError: `quantize` is unknown.

    Source: Jacob et al. 2018 (arXiv:1712.05877), section 3; the gradient: Bengio et al.
        2013 (arXiv:1308.3432).
    """

    def __init__(self, network: keras.Model, quantize: str) -> None:
        one_of(get_args(IntegerScheme), quantize=quantize)
        self._network, self._own = network, OwnValues(network)
        self._grids: dict[int, Grid] = {}
        for weight in network.weights:
            path, value = weight.path, ops.convert_to_numpy(weight.value)
            if bits := bits_of(path, value.shape, quantize):
                grid = (
                    table_grid(value, bits)
                    if path == WORD
                    else kernel_grid(matrix(path, value), bits)
                )
                self._grids[id(weight)] = grid
        self._round(network.non_trainable_weights)

    @contextmanager
    def rounded_weights(self) -> Iterator[None]:
        """Run the network with rounded weights inside this context."""
        values = self._own(ops.zeros(()))
        pairs = zip(self._network.variables, values, strict=True)
        seen = [(weight, self._seen(weight, value)) for weight, value in pairs]
        with keras.StatelessScope(seen) as scope:
            yield
        for state in random_states(self._network):
            state.assign(scope.get_current_value(state))

    def finish(self) -> None:
        """Round the weights, after the last update."""
        self._round(self._network.weights)

    @contextmanager
    def stored_weights(self) -> Iterator[None]:
        """Assign rounded weights to the network inside this context, for scoring."""
        exact = [np.array(ops.convert_to_numpy(it)) for it in self._network.weights]
        self.finish()
        try:
            yield
        finally:
            for weight, value in zip(self._network.weights, exact, strict=True):
                weight.assign(value)

    def _seen(self, weight: Any, value: Any) -> Any:
        grid = self._grids.get(id(weight))
        if grid is None or not weight.trainable:
            return value
        return value + ops.stop_gradient(grid.rounded(value) - value)

    def _round(self, weights: list[Any]) -> None:
        for weight in weights:
            if grid := self._grids.get(id(weight)):
                weight.assign(grid.rounded(weight.value))
