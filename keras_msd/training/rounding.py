"""Train with weights that are rounded as an export stores them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_msd.checks import one_of
from keras_msd.models.encoder_folder import SCHEMES, bits_of
from keras_msd.models.network import WORD, matrix
from keras_msd.quantization import INT4_GROUP, LARGEST, int4_group, to_integers
from keras_msd.training.chunks import OwnValues, random_states


class _Grid(NamedTuple):
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


class Rounding:
    """Runs a network with its word table and matrices rounded to 8 or 4 bits.

    Every forward pass uses rounded weights. The gradient ignores the rounding
    (straight-through estimator), so small updates of the exact weights add up. The
    scales are those of an export of the network at the time of this call; they do not
    change.

    Biases, norms, positions and types are not rounded. Weights that are not trainable
    are rounded at once.

    Args:
        network: An encoder's model, or a part of it.
        quantize: "int8", "int4_table" or "int4", as for `Encoder.export`.

    Raises:
        InputError: `quantize` is unknown.

    Source: Jacob et al. 2018 (arXiv:1712.05877), section 3; the gradient: Bengio et al.
        2013 (arXiv:1308.3432).
    """

    def __init__(self, network: keras.Model, quantize: str) -> None:
        one_of(SCHEMES, quantize=quantize)
        self._network, self._own = network, OwnValues(network)
        self._grids: dict[int, _Grid] = {}
        for weight in network.weights:
            path, value = weight.path, ops.convert_to_numpy(weight.value)
            if bits := bits_of(path, value.shape, quantize):
                self._grids[id(weight)] = _grid(path, matrix(path, value), bits)
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


def _grid(path: str, weight: np.ndarray, bits: int) -> _Grid:
    """Return the grid of a matrix; a group is in a row, or in an output's inputs."""
    if path == WORD:
        width = weight.shape[1]
        group = width if bits == 8 else int4_group(width)
        _, scales = to_integers(weight, bits, group)
        scales, shape = scales[:, :, np.newaxis], (len(weight), -1, group)
    else:
        group = len(weight) if bits == 8 else INT4_GROUP
        dtype = np.float32 if bits == 8 else np.float16  # as LiteRT stores them
        _, scales = to_integers(weight.T, bits, group, dtype)
        scales, shape = scales.T[:, np.newaxis], (-1, group, weight.shape[1])
    return _Grid(scales.astype(np.float32), shape, LARGEST[bits])
