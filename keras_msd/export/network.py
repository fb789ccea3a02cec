"""The forward pass and the weights of an encoder, for every runtime of an artefact."""

from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.layers.pooling import POOLINGS
from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import WORD, matrix

MASKED = 1e9  # taken from an attention score, or a value, that does not count
SMALLEST_COUNT = 1e-9  # tokens that a mean divides by, as in `masked_mean`


def plain_weights(encoder: Any) -> dict[str, np.ndarray]:
    """Return an encoder's weights by their paths, in the form that `states` needs.

    Kernels are `(in, out)` and biases `(out,)`. The word table has zeros for padding.
    The position table begins with the first token's row and includes that of the type,
    which is 0 for every token; there is no table of types.
    """
    config = encoder.config
    values = encoder.weights().items()
    weights = {path: np.asarray(value, np.float32) for path, value in values}
    kind = weights.pop("embedding/type")[0]
    positions = weights["embedding/position"][config.position_offset :]
    weights["embedding/position"] = positions + kind
    weights[WORD] = weights[WORD].copy()
    weights[WORD][config.pad_id] = 0
    for path, value in weights.items():
        if path.endswith("/kernel"):
            weights[path] = matrix(path, value)
        elif path.endswith("/bias"):
            weights[path] = value.reshape(-1)
    return weights


def states(ops: Any, config: EncoderConfig) -> tuple[Any, Any]:
    """Return the vectors of tokens and of sentences, as `build_model`'s network does.

    The forward pass is written once for the runtimes of LiteRT and ONNX.

    Args:
        ops: The operations of the runtime, for one batch of token ids and their mask,
            on its values: tensors, or names in a graph. `word_rows()` `(batch, length,
            width)`, `positions()` (with token types), `add(a, b)`, `activate(x)`,
            `tanh(x)`, `unit(x)` (length one; a zero vector stays zero), and over real
            tokens `mean(x)`, `max(x)` and `first(x)`. With the path of a weight, such
            as `body/block_0/feedforward_output_dense`: `product(x, path)`, `dense(x,
            path)`, `norm(x, path)` and `attend(x, path)`, multi-head attention after
            its output projection.
        config: The encoder's.

    Returns:
        `(batch, length, hidden_dim)` and `(batch, dim)`.

    Raises:
        InputError: The pooling is none that is written here.
    """
    checks.one_of(POOLINGS, pooling=config.pooling)
    hidden = ops.word_rows()
    if config.bottleneck_dim is not None:
        hidden = ops.product(hidden, "embedding/projection")
    hidden = ops.add(hidden, ops.positions())
    if config.embedding_layer_norm:
        hidden = ops.norm(hidden, "embedding/layer_norm")
    for index in [*range(config.num_layers)] * config.repeats:
        hidden = _block(ops, hidden, f"body/block_{index}", config.normalize_first)
    pools = {"mean": ops.mean, "cls": ops.first, "max": ops.max}
    vector = pools[config.pooling](hidden)
    if config.projection_dim is not None:
        vector = ops.dense(vector, "projection")
        if config.projection_activation == "tanh":
            vector = ops.tanh(vector)
    return hidden, ops.unit(vector) if config.normalize else vector


def _block(ops: Any, hidden: Any, path: str, first: bool) -> Any:
    """Return a transformer block, which normalises first or last."""

    def feed(inputs: Any, path: str) -> Any:
        wide = ops.dense(inputs, f"{path}_intermediate_dense")
        return ops.dense(ops.activate(wide), f"{path}_output_dense")

    sublayers = (ops.attend, "self_attention_layer"), (feed, "feedforward")
    for sublayer, name in sublayers:
        norm = f"{path}/{name.removesuffix('_layer')}_layer_norm"
        inputs = ops.norm(hidden, norm) if first else hidden
        hidden = ops.add(hidden, sublayer(inputs, f"{path}/{name}"))
        hidden = hidden if first else ops.norm(hidden, norm)
    return hidden
