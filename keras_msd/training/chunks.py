"""Gradient caching: gradients of the whole batch in the memory of one chunk.

A loss over all pairs of a batch needs every embedding at once, but not the activations
behind it. So a first pass computes the embeddings only, the loss gives the gradient of
each embedding, and a second pass computes each chunk again and propagates its gradient
to the weights. The sum over chunks is the gradient of the whole batch, at the cost of
one more forward pass.

Dropout draws its masks chunk by chunk, and the second pass draws the same masks as the
first. So the gradients are those of the whole batch with these masks, except for
rounding.

Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
Limited Setup".
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_msd.checks import InputError
from keras_msd.choices import SIDES

Tensor = Any  # of the backend
Tensors = Mapping[str, Tensor]  # parts of a batch, or embeddings, by their names
LOSS_DTYPE = "float32"
NAMES = ("token_ids", "padding_mask")
INPUTS = tuple(f"{side}_{name}" for side in SIDES for name in NAMES)


class OwnValues(keras.layers.Layer):
    """Values of a network's variables in their own dtype, whatever the dtype policy."""

    def __init__(self, network: Any) -> None:
        super().__init__(autocast=False, name="own_values")
        self.network = network

    def call(self, _: Any) -> list[Any]:
        """Return them in the order of `network.variables`."""
        return [variable.value for variable in self.network.variables]


def check_chunks(network: keras.Layer) -> None:
    """Raise `InputError` if chunks would not add up to the batch.

    That is so if a forward pass changes a weight, such as batch statistics, or adds a
    loss, such as an activity regulariser. Two rows of two tokens show it.
    """
    inputs: Any = ops.ones((2, 2), "int32")  # of an embedding block
    if isinstance(network, keras.Model):
        inputs = {
            it.name: ops.ones([size or 2 for size in it.shape], it.dtype)
            for it in network.inputs
        }
    with keras.StatelessScope(collect_losses=True) as scope:
        network(inputs, training=True)
    changed = [
        it.path for it in network.weights if scope.get_current_value(it) is not None
    ]
    if changed or scope.losses:
        raise InputError(
            "With `chunk_size` no layer may have batch statistics, an activity "
            f"regulariser or `add_loss`. Received: {', '.join(changed) or 'a loss'}. "
            "Freeze or remove the layer."
        )


def random_states(network: keras.Layer) -> list[keras.Variable]:
    """Return the variables from which a network's dropout draws."""
    weights = {id(weight) for weight in network.weights}
    return [state for state in network.variables if id(state) not in weights]


def split(x: dict[str, Tensor], chunk_size: int) -> tuple[dict[str, Tensor], Tensor]:
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


def split_gradients(vectors: dict[str, Tensor], chunk_size: int) -> dict[str, Tensor]:
    """Cut the gradients of embeddings as `split` does, the last filled up with 0."""
    parts = {}
    for side, value in vectors.items():
        count = ops.shape(value)[0]
        size = _size(count, chunk_size)
        rest = [[0, 0]] * (len(value.shape) - 1)
        parts[side] = _cut(ops.pad(value, [[0, -count % size], *rest]), size)
    return parts


def _size(count: Tensor, chunk_size: int) -> int:
    return min(chunk_size, count) if isinstance(count, int) else chunk_size


def _cut(value: Any, size: int) -> Any:
    return ops.reshape(value, (-1, size, *ops.shape(value)[1:]))


def join(chunks: dict[str, Tensor], count: Tensor) -> dict[str, Tensor]:
    """Join chunks of embeddings, `(chunks, chunk_size, ...)`, to n rows."""
    return {
        side: ops.reshape(value, (-1, *ops.shape(value)[2:]))[:count]
        for side, value in chunks.items()
    }


def float32(embeddings: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return embeddings in the dtype that losses compute in."""
    return {side: ops.cast(value, LOSS_DTYPE) for side, value in embeddings.items()}
