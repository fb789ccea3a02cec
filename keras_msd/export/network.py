"""The forward pass of an encoder, written once for all runtimes of exports."""

from typing import Any, Protocol

from keras_msd import checks
from keras_msd.layers.pooling import POOLINGS
from keras_msd.models.config import EncoderConfig

MASKED = 1e9  # taken from an attention score, or a value, that does not count
SMALLEST_COUNT = 1e-9  # tokens that a mean divides by, as in `masked_mean`


class Operations(Protocol):
    """The operations of a runtime, for one batch of token ids and their mask.

    A value is what the runtime calls one: a tensor, or a name in a graph. Weights are
    given by their path, such as `body/block_0/feedforward_output_dense`.
    """

    def word_rows(self) -> Any:
        """Return the rows of the word table, `(batch, length, width)`."""

    def positions(self) -> Any:
        """Return what is added for positions and token types, `(..., hidden_dim)`."""

    def product(self, inputs: Any, path: str) -> Any:
        """Return `inputs @ matrix`."""

    def dense(self, inputs: Any, path: str) -> Any:
        """Return `inputs @ kernel + bias`."""

    def norm(self, hidden: Any, path: str) -> Any:
        """Return the layer norm of the last axis."""

    def attend(self, hidden: Any, path: str) -> Any:
        """Return multi-head attention to real tokens, after its output projection."""

    def activate(self, hidden: Any) -> Any:
        """Return the activation of a feed-forward layer."""

    def tanh(self, vector: Any) -> Any:
        """Return the hyperbolic tangent."""

    def add(self, first: Any, second: Any) -> Any:
        """Return the sum."""

    def scale(self, vector: Any, path: str) -> Any:
        """Return a vector times a weight of one number."""

    def mean(self, rows: Any) -> Any:
        """Return the mean over real tokens."""

    def max(self, rows: Any) -> Any:
        """Return the maximum over real tokens."""

    def first(self, rows: Any) -> Any:
        """Return the first token's row."""

    def unit(self, vectors: Any) -> Any:
        """Return vectors of length one; a zero vector stays zero."""


def states(ops: Operations, config: EncoderConfig) -> tuple[Any, Any]:
    """Return the vectors of tokens and of sentences, as `build_model`'s network does.

    Args:
        ops: Of the runtime, for a batch.
        config: The encoder's.

    Returns:
        `(batch, length, hidden_dim)` and `(batch, dim)`.

    Raises:
        InputError: The pooling is none that is written here.
    """
    checks.one_of(POOLINGS, pooling=config.pooling)
    rows = hidden = ops.word_rows()
    if config.bottleneck_dim is not None:
        hidden = ops.product(rows, "embedding/projection")
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
    if config.word_branch:
        branch = ops.unit(ops.product(ops.mean(rows), "word_branch/projection"))
        body = ops.scale(ops.unit(vector), "word_branch/body_weight")
        vector = ops.add(branch, body)
    return hidden, ops.unit(vector) if config.normalize else vector


def _block(ops: Operations, hidden: Any, path: str, first: bool) -> Any:
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
