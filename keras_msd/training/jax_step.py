"""The training step under JAX."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.training import chunks


class JaxStep:
    """Mix-in with what a stage adds to Keras' step under JAX.

    Under `keras.distribution` a batch is one array on all devices, so the step needs no
    communication of its own. The methods match those of `TensorFlowStep`.
    """

    xla = True  # by default

    @property
    def process(self) -> tuple[int, int]:
        """The number of this process, from 0, and how many train the stage."""
        if keras.distribution.distribution() is None:
            return 0, 1
        import jax

        return jax.process_index(), jax.process_count()

    def local_batches(self, batches: Any) -> Any:
        """Return batches with only the rows of this process."""
        distribution = keras.distribution.distribution()
        if distribution is None or not hasattr(batches, "of_process"):
            return batches
        process, processes = self.process
        return batches.of_process(process, processes, _devices() // processes)

    def gathered(self, parts: Any) -> Any:
        """Return rows as they are: those of the whole batch."""
        return parts

    def unscaled(self, value: Any) -> Any:
        """Return a loss as it is."""
        return value

    def scaled(self, loss: Any, value: Any) -> Any:
        """Return a loss as it is."""
        return value

    def to_numpy(self, variable: Any) -> np.ndarray:
        """Return the value of a variable."""
        return np.asarray(ops.convert_to_numpy(variable.value))

    def build_optimizer(self: Any) -> None:
        """Make the optimizer's variables."""
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def embed_in_chunks(self: Any, x: Any, training: bool | None) -> dict[str, Any]:
        """Return the embeddings of both sides, float32.

        Each chunk is rematerialised: the backward pass computes it again. On several
        devices each has `chunk_size` rows of a chunk.
        """
        states = chunks.random_states(self.network)
        values = chunks.OwnValues(self.network)(ops.zeros(()))
        state_ids = {id(state) for state in states}
        fixed = [
            (variable, value)
            for variable, value in zip(self.network.variables, values, strict=True)
            if id(variable) not in state_ids
        ]

        @keras.remat
        def embed(drawn: Any, rows: Any) -> Any:
            now = zip(states, drawn, strict=True)
            with keras.StatelessScope([*fixed, *now]) as scope:
                embedded = chunks.float32(self.both_sides(rows, training))
            return [scope.get_current_value(state) for state in states], embedded

        order = _dealt(len(x[chunks.INPUTS[0]]), self.chunk_size)
        dealt = {name: ops.take(x[name], order, axis=0) for name in chunks.INPUTS}
        parts, count = chunks.split(dealt, self.chunk_size * _devices())
        parts = {name: _spread(part) for name, part in parts.items()}
        drawn, embedded = ops.scan(embed, [state.value for state in states], parts)
        for state, value in zip(states, drawn, strict=True):
            state.assign(value)
        back = np.argsort(order)
        joined = chunks.join(embedded, count).items()
        return {side: ops.take(rows, back, axis=0) for side, rows in joined}


def _devices() -> int:
    """Return on how many devices JAX has the rows of a batch."""
    distribution = keras.distribution.distribution()
    return int(np.prod(distribution.device_mesh.shape)) if distribution else 1


def _dealt(count: int, chunk_size: int) -> np.ndarray:
    """Return the row numbers of a batch in the order of its chunks.

    A device holds neighbouring rows; each chunk has `chunk_size` rows of every device.
    """
    rows = np.arange(count).reshape(_devices(), -1)
    cuts = range(chunk_size, rows.shape[1], chunk_size)
    return np.concatenate([part.ravel() for part in np.split(rows, cuts, axis=1)])


def _spread(part: Any) -> Any:
    """Return chunks, `(chunks, rows, length)`, the rows of each on all devices."""
    distribution = keras.distribution.distribution()
    if distribution is None or part.shape[1] % _devices():
        return part
    axes = [None, distribution.batch_dim_name, None]
    layout = keras.distribution.TensorLayout(axes, distribution.device_mesh)
    return keras.distribution.distribute_tensor(part, layout)
