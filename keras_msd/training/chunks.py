"""Gradient caching: gradients of the whole batch in the memory of one chunk."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.checks import InputError

LOSS_DTYPE = "float32"
SIDES = ("source", "target")
INPUTS = (
    "source_token_ids",
    "source_padding_mask",
    "target_token_ids",
    "target_padding_mask",
)


class CachedGradients:
    """Mix-in that embeds a batch in chunks, for backends other than TensorFlow.

    A loss over all pairs of a batch needs every embedding at once, but not the
    activations behind it. So a first pass computes the embeddings only, the loss gives
    the gradient of each embedding, and a second pass computes each chunk again and
    propagates its gradient to the weights. The sum over chunks is the gradient of the
    whole batch, at the cost of one more forward pass.

    Dropout draws its masks chunk by chunk, and the second pass draws the same masks as
    the first. So the gradients are those of the whole batch with these masks, except
    for rounding.

    On several devices each device has `chunk_size` rows of a chunk. Under TensorFlow
    the training step runs both passes, see `TensorFlowStep`. Under JAX each chunk is
    rematerialised: the backward pass computes it again.

    Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
        Limited Setup".
    """

    def embed_in_chunks(self: Any, x: Any, training: bool | None) -> dict[str, Any]:
        """Return the embeddings of both sides, float32.

        Raises:
            InputError: The backend is not JAX.
        """
        if keras.backend.backend() != "jax":
            raise InputError(
                "`chunk_size` needs the backend tensorflow or jax. Received: "
                f"{keras.backend.backend()}. Set KERAS_BACKEND, or leave `chunk_size` "
                "out."
            )
        states = random_states(self.network)
        values = OwnValues(self.network)(ops.zeros(()))
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
                embedded = float32(self.both_sides(rows, training))
            return [scope.get_current_value(state) for state in states], embedded

        order = _dealt(len(x[INPUTS[0]]), self.chunk_size)
        dealt = {name: ops.take(x[name], order, axis=0) for name in INPUTS}
        parts, count = split(dealt, self.chunk_size * _devices())
        parts = {name: _spread(part) for name, part in parts.items()}
        drawn, embedded = ops.scan(embed, [state.value for state in states], parts)
        for state, value in zip(states, drawn, strict=True):
            state.assign(value)
        joined = join(embedded, count).items()
        return {
            side: ops.take(rows, np.argsort(order), axis=0) for side, rows in joined
        }


class OwnValues(keras.layers.Layer):
    """Values of a network's variables in their own dtype, whatever the dtype policy."""

    def __init__(self, network: Any) -> None:
        super().__init__(autocast=False, name="own_values")
        self.network = network

    def call(self, _: Any) -> list[Any]:
        """Return them in the order of `network.variables`."""
        return [variable.value for variable in self.network.variables]


def check_chunks(network: Any) -> None:
    """Raise `InputError` if a layer treats a row differently in another batch."""
    for layer in network._flatten_layers():
        follows = layer.trainable and layer._non_trainable_variables
        if follows or layer.activity_regularizer is not None:
            what = (
                "weights that follow its inputs" if follows else "a regularised output"
            )
            raise InputError(
                "With `chunk_size` a layer must treat a row as it does in the whole "
                f"batch. Received: `{layer.name}`, which has {what}. Freeze or remove "
                "it, or leave `chunk_size` out."
            )


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


def random_states(network: Any) -> list[Any]:
    """Return the variables from which a network's dropout draws."""
    weights = {id(weight) for weight in network.weights}
    return [state for state in network.variables if id(state) not in weights]


def split(x: dict[str, Any], chunk_size: int) -> tuple[dict[str, Any], Any]:
    """Cut the inputs of a batch of n rows into chunks of one size.

    Returns:
        The inputs that a network takes, `(chunks, chunk_size, length)`, the last chunk
        filled up with repetitions of the last row, and n.
    """
    count = ops.shape(x[INPUTS[0]])[0]
    size = _size(count, chunk_size)
    rows = ops.minimum(ops.arange(-(-count // size) * size), count - 1)
    parts = {name: ops.take(x[name], rows, axis=0) for name in INPUTS}
    return {name: _cut(part, size) for name, part in parts.items()}, count


def split_gradients(vectors: dict[str, Any], chunk_size: int) -> dict[str, Any]:
    """Cut the gradients of embeddings as `split` does, the last filled up with 0."""
    parts = {}
    for side, value in vectors.items():
        count = ops.shape(value)[0]
        size = _size(count, chunk_size)
        rest = [[0, 0]] * (len(value.shape) - 1)
        parts[side] = _cut(ops.pad(value, [[0, -count % size], *rest]), size)
    return parts


def _size(count: Any, chunk_size: int) -> int:
    return min(chunk_size, count) if isinstance(count, int) else chunk_size


def _cut(value: Any, size: int) -> Any:
    return ops.reshape(value, (-1, size, *ops.shape(value)[1:]))


def join(chunks: dict[str, Any], count: Any) -> dict[str, Any]:
    """Join chunks of embeddings, `(chunks, chunk_size, ...)`, to n rows."""
    return {
        side: ops.reshape(value, (-1, *ops.shape(value)[2:]))[:count]
        for side, value in chunks.items()
    }


def float32(embeddings: dict[str, Any]) -> dict[str, Any]:
    """Return embeddings in the dtype that losses compute in."""
    return {side: ops.cast(value, LOSS_DTYPE) for side, value in embeddings.items()}
