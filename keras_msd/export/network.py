"""The networks of artefacts: with a word table in fewer bits, in any runtime."""

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd import checks
from keras_msd.checks import InputError, one_of
from keras_msd.layers.bottleneck_embedding import BottleneckEmbedding
from keras_msd.layers.pooling import POOLINGS
from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import WORD, build_model
from keras_msd.quantization import BITS, StoredTable, quantize_table


class StoredEmbedding(BottleneckEmbedding):
    """A `BottleneckEmbedding` whose word table is stored in 16, 8 or 4 bits.

    Only the rows that a sentence takes are turned into float32, by operations that
    every runtime has: gather, cast, floor, multiply. A graph made from it holds the
    table in its stored form, on disk and in memory.

    Args:
        *arguments: Of `BottleneckEmbedding`.
        table: The quantised table, or a float16 array.
        **kwargs: Of `BottleneckEmbedding`.
    """

    def __init__(
        self, *arguments: Any, table: StoredTable | np.ndarray, **kwargs: Any
    ) -> None:
        super().__init__(*arguments, **kwargs)
        self.table = table

    def build_word_table(self) -> None:
        """Make `word_values` and, with whole numbers, `word_scales`."""
        if isinstance(self.table, StoredTable):
            self.values = self._stored("word_values", self.table.values)
            self.scales = self._stored("word_scales", self.table.scales)
        else:
            self.values = self._stored("word_values", self.table)

    def look_up(self, token_ids: Any) -> Any:
        """Return float32 rows: `(batch, length, B)`."""
        rows = ops.cast(ops.take(self.values, token_ids, axis=0), "float32")
        if not isinstance(self.table, StoredTable):
            return rows
        if self.table.bits == 4:
            high = ops.floor(rows / 16)
            rows = ops.concatenate([rows - 16 * high, high], axis=-1)
            rows = rows[..., : self.width] - 8
        scales = ops.cast(ops.take(self.scales, token_ids, axis=0), "float32")
        # Not by reshapes, which need both sizes of the batch, nor by a second look-up,
        # before which LiteRT's converter would put the cast.
        groups = self.table.scales.shape[1]
        parts = zip(
            ops.split(rows, groups, axis=-1),
            ops.split(scales, groups, axis=-1),
            strict=True,
        )
        return ops.concatenate([part * scale for part, scale in parts], axis=-1)

    def _stored(self, name: str, value: np.ndarray) -> Any:
        return self.add_weight(
            name=name,
            shape=value.shape,
            dtype=str(value.dtype),
            initializer=lambda shape, dtype: ops.convert_to_tensor(value, dtype=dtype),
            trainable=False,
        )


def check_backend(what: str) -> None:
    """Raise `InputError` unless Keras runs on TensorFlow, which writes `what`."""
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"{what} is written under Keras' TensorFlow backend. Received: "
            f"{keras.backend.backend()}. Save the encoder, set "
            "KERAS_BACKEND=tensorflow, load it and export it there."
        )


def export_model(encoder: Any, table: str = "float32") -> keras.Model:
    """Return the encoder's network with its word table stored as `table` says.

    Args:
        encoder: An encoder; it is not changed.
        table: "float32" (the encoder's own model), "float16", "int8" or "int4".

    Returns:
        A model with the inputs and the output of `encoder.model`.

    Raises:
        InputError: `table` is something else.
    """
    one_of(("float32", "float16", *BITS), table=table)
    if table == "float32":
        return encoder.model
    config, weights = encoder.config, encoder.weights()
    word = weights.pop(WORD)
    stored = (
        quantize_table(word, BITS[table]) if table in BITS else word.astype(np.float16)
    )
    model = build_model(config, partial(StoredEmbedding, table=stored))
    for weight in model.weights:
        if weight.path in weights:
            weight.assign(weights[weight.path])
    return model


MASKED = 1e9  # taken from an attention score, or a value, that does not count
SMALLEST_COUNT = 1e-9  # tokens that a mean divides by, as in `masked_mean`


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
            path)`, `norm(x, path)`, `scale(x, path)` (a weight of one number) and
            `attend(x, path)`, multi-head attention after its output projection.
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
