"""An encoder's network in TensorFlow operations, for SavedModel and LiteRT."""

from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from keras_msd.layers import SMALLEST_SQUARE
from keras_msd.models.network import (
    KERNELS,
    MASKED,
    POSITION,
    SMALLEST_COUNT,
    WORD,
    EncoderConfig,
    plain_weights,
    states,
)
from keras_msd.quantize import BITS, Scheme, quantize_table

# Of a network, `(n, length)`.
IDS = [
    tf.TensorSpec([None, None], tf.int32, name=name)
    for name in ("token_ids", "padding_mask")
]
TABLES = {WORD: "table", POSITION: "positions"}  # rows are looked up -> in a `Scheme`
ACTIVATIONS = {
    "relu": tf.nn.relu,
    "gelu_erf": partial(tf.nn.gelu, approximate=False),
    "gelu_tanh": partial(tf.nn.gelu, approximate=True),
}


class Stored(tf.Module):
    """A weight in 32, 16, 8 or 4 bits, as it is in the file and in memory.

    Args:
        value: float32; with whole numbers a matrix, whose rows have scales.
        kind: "float32", "float16", "int8" or "int4".
    """

    def __init__(self, value: np.ndarray, kind: str) -> None:
        super().__init__(name="weight")
        self.table = quantize_table(value, BITS[kind]) if kind in BITS else None
        if self.table is None:
            self.values = tf.Variable(value.astype(kind), trainable=False)
        else:
            self.values = tf.Variable(self.table.values, trainable=False)
            self.scales = tf.Variable(self.table.scales, trainable=False)

    def whole(self) -> tf.Tensor:
        """Return the weight in float32."""
        values = self.values.read_value()
        if self.table is None:
            return tf.cast(values, tf.float32)
        if self.table.bits == 4:
            halves = values & 15, tf.bitwise.right_shift(values, np.uint8(4))
            values = tf.concat(halves, axis=-1)[:, : self.table.width]
        numbers = tf.cast(values, tf.float32)
        if self.table.bits == 4:
            numbers -= 8
        scales = tf.cast(self.scales.read_value(), tf.float32)
        parts = tf.reshape(numbers, [*scales.shape, -1]) * scales[..., tf.newaxis]
        return tf.reshape(parts, numbers.shape)

    def rows(self, ids: Any) -> tf.Tensor:
        """Return some rows of the weight, in float32."""
        rows = _taken(self.values, ids)
        if self.table is None:
            return rows
        if self.table.bits == 4:
            high = tf.floor(rows / 16)
            rows = tf.concat([rows - 16 * high, high], axis=-1)
            rows = rows[..., : self.table.width] - 8
        scales = _taken(self.scales, ids)
        # Not by reshapes, which need both sizes of the batch, nor by a second look-up,
        # before which LiteRT's converter would put the cast.
        groups = self.table.scales.shape[1]
        parts = zip(
            tf.split(rows, groups, axis=-1),
            tf.split(scales, groups, axis=-1),
            strict=True,
        )
        return tf.concat([part * scale for part, scale in parts], axis=-1)


def _taken(values: tf.Variable, ids: Any) -> tf.Tensor:
    return tf.cast(tf.gather(values, ids), tf.float32)


class TensorFlowNetwork(tf.Module):
    """Maps token ids and their mask to a vector as the encoder's Keras model does.

    Weights are stored once. A call makes a kernel float32 once, however many passes use
    it, and of the word table only the rows that are taken.

    The layers of Keras mask attention by a selection and cut the position table by a
    length known only at run time: XNNPACK has no kernels for that, so that a graph
    would leave it at every layer. Here masks are added and positions are looked up.
    Where the batch has a known size, all of the layers are one piece for XNNPACK; where
    it has not, the reshapes around attention stay outside.

    Args:
        encoder: What is stored; it is not changed.
        scheme: How.
    """

    def __init__(self, encoder: Any, scheme: Scheme) -> None:
        super().__init__()
        self.settings: EncoderConfig = encoder.config
        small = "float32" if scheme.blocks == "float32" else "float16"
        stored = {}
        for path, value in plain_weights(encoder).items():
            kernel = path.endswith(KERNELS)
            if "/query/" in path:
                scale = self.settings.key_dim**-0.5  # of attention's scores
                value = value * np.float32(scale)
            if path in TABLES:
                stored[path] = Stored(value, getattr(scheme, TABLES[path]))
            elif kernel and scheme.blocks in BITS:
                stored[path] = Stored(value.T, scheme.blocks)
            else:
                stored[path] = Stored(value, scheme.blocks if kernel else small)
        self.stored = stored

    def __call__(self, token_ids: Any, padding_mask: Any) -> tf.Tensor:
        """Return the sentence's vector.

        Shapes: `token_ids`, `padding_mask` int32 `(batch, length)`, padding only at the
        right; returns float32 `(batch, dim)`.
        """
        operations = _Operations(self, token_ids, padding_mask)
        return states(operations, self.settings)[1]


class _Operations:
    """The operations of `states`."""

    def __init__(
        self, network: TensorFlowNetwork, token_ids: Any, padding_mask: Any
    ) -> None:
        self.config = network.settings
        self.stored = network.stored
        self.weights = {}
        for path, stored in network.stored.items():
            if path not in TABLES:
                value = stored.whole()
                kept = value if stored.table is None else tf.transpose(value)
                self.weights[path] = kept
        self.ids, self.mask = token_ids, padding_mask
        batch = token_ids.shape[0]
        # A reshape infers one size, but only one.
        self.sizes = tf.unstack(tf.shape(token_ids)) if batch is None else [batch, -1]
        real = tf.cast(padding_mask, tf.float32)
        self.tokens = tf.reshape(real, [*self.sizes, 1])
        rows, columns = self.sizes
        self.bias = tf.reshape((real - 1.0) * MASKED, [rows, 1, 1, columns])
        self.activate = ACTIVATIONS[self.config.activation]
        self.tanh, self.add = tf.tanh, tf.add

    def word_rows(self) -> Any:
        return self.stored[WORD].rows(self.ids)

    def positions(self) -> Any:
        places = tf.cumsum(self.mask, 1, exclusive=True)
        return self.stored[POSITION].rows(places)

    def attend(self, hidden: Any, path: str) -> Any:
        heads, dim = self.config.num_heads, self.config.key_dim

        def split(name: str) -> Any:
            flat = self.dense(hidden, f"{path}/{name}")
            parts = tf.reshape(flat, [*self.sizes, heads, dim])
            return tf.transpose(parts, [0, 2, 1, 3])

        scores = tf.matmul(split("query"), split("key"), transpose_b=True) + self.bias
        mixed = tf.matmul(tf.nn.softmax(scores), split("value"))
        mixed = tf.transpose(mixed, [0, 2, 1, 3])
        mixed = tf.reshape(mixed, [*self.sizes, heads * dim])
        return self.dense(mixed, f"{path}/attention_output")

    def product(self, inputs: Any, path: str) -> Any:
        return inputs @ self.weights[path]

    def dense(self, inputs: Any, path: str) -> Any:
        outputs = self.product(inputs, f"{path}/kernel")
        bias = self.weights.get(f"{path}/bias")
        return outputs if bias is None else outputs + bias

    def norm(self, hidden: Any, path: str) -> Any:
        centred = hidden - tf.reduce_mean(hidden, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.math.rsqrt(variance + self.config.layer_norm_epsilon)
        # Gamma first: as the last factor it would be folded into the kernels behind
        # it, and a kernel that comes behind two norms would be stored twice.
        scaled = centred * self.weights[f"{path}/gamma"] * scale
        return scaled + self.weights[f"{path}/beta"]

    def mean(self, rows: Any) -> Any:
        count = tf.maximum(tf.reduce_sum(self.tokens, axis=1), SMALLEST_COUNT)
        return tf.reduce_sum(rows * self.tokens, axis=1) / count

    def max(self, rows: Any) -> Any:
        return tf.reduce_max(rows + (self.tokens - 1.0) * MASKED, axis=1)

    def first(self, rows: Any) -> Any:
        return rows[:, 0, :]

    def unit(self, vectors: Any) -> Any:
        # Not `tf.square`: that becomes one operation for which XNNPACK has no kernel.
        square = tf.reduce_sum(vectors * vectors, axis=-1, keepdims=True)
        return vectors * tf.math.rsqrt(tf.maximum(square, SMALLEST_SQUARE))
