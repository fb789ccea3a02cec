"""An encoder's network in the operations that LiteRT's CPU kernels, XNNPACK, run."""

from typing import Any

import keras
import tensorflow as tf

from keras_msd.export.network import MASKED, SMALLEST_COUNT, states
from keras_msd.layers.pooling import SMALLEST_SQUARE
from keras_msd.layers.recurrent_encoder import ACTIVATIONS


class LiteRTNetwork(tf.Module):
    """Maps token ids and their mask to a vector as the encoder's Keras model does.

    The layers of Keras mask attention by a selection and cut the position table by a
    length known only at run time: XNNPACK has no kernels for that, so that a graph
    would leave it at every layer. Here masks are added and positions are looked up.
    Where the batch has a known size, all of the layers are one piece for XNNPACK; where
    it has not, the reshapes around attention stay outside.

    Args:
        config: The encoder's `EncoderConfig`.
        model: Its Keras model, or the one with a stored word table of `export_model`.
    """

    def __init__(self, config: Any, model: keras.Model) -> None:
        super().__init__()
        self.settings = config
        # A function: layers as attributes would have their variables kept twice.
        self.layer = model.get_layer
        self.named = {weight.path: weight.value for weight in model.weights}

    def __call__(self, token_ids: Any, padding_mask: Any) -> Any:
        """Return the sentence's vector.

        Shapes: `token_ids`, `padding_mask` int32 `(batch, length)`, padding only at the
        right; returns float32 `(batch, dim)`.
        """
        operations = _Operations(self, token_ids, padding_mask)
        return states(operations, self.settings)[1]


class _Operations:
    """See `export.network.Operations`."""

    def __init__(
        self, network: LiteRTNetwork, token_ids: Any, padding_mask: Any
    ) -> None:
        self.named, self.layer = network.named, network.layer
        self.config = network.settings
        self.ids, self.mask = token_ids, padding_mask
        batch = token_ids.shape[0]
        # A reshape infers one size, but only one.
        self.sizes = tf.unstack(tf.shape(token_ids)) if batch is None else [batch, -1]
        real = tf.cast(padding_mask, tf.float32)
        self.tokens = tf.reshape(real, [*self.sizes, 1])
        rows, columns = self.sizes
        self.bias = tf.reshape((real - 1.0) * MASKED, [rows, 1, 1, columns])
        self.activate = keras.activations.get(ACTIVATIONS[self.config.activation])
        self.tanh, self.add = tf.tanh, tf.add

    def word_rows(self) -> Any:
        return self.layer("embedding").word_rows(self.ids)

    def positions(self) -> Any:
        table = self.named["embedding/position"][self.config.position_offset :]
        # The type of every token is 0, so its row joins the table of positions.
        table = table + self.named["embedding/type"][0]
        return tf.gather(table, tf.cumsum(self.mask, 1, exclusive=True))

    def attend(self, hidden: Any, path: str) -> Any:
        heads, width = self.config.num_heads, self.config.hidden_dim

        def split(name: str, scale: float = 1.0) -> Any:
            flat = self.dense(hidden, f"{path}/{name}", scale)
            parts = tf.reshape(flat, [*self.sizes, heads, width // heads])
            return tf.transpose(parts, [0, 2, 1, 3])

        # The scale joins the kernel, a constant.
        query = split("query", (width // heads) ** -0.5)
        scores = tf.matmul(query, split("key"), transpose_b=True) + self.bias
        mixed = tf.matmul(tf.nn.softmax(scores), split("value"))
        mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [*self.sizes, width])
        return self.dense(mixed, f"{path}/attention_output")

    def product(self, inputs: Any, path: str) -> Any:
        return inputs @ self.named[path]

    def dense(self, inputs: Any, path: str, scale: float = 1.0) -> Any:
        kernel, bias = self.named[f"{path}/kernel"], self.named.get(f"{path}/bias")
        outputs = inputs @ (tf.reshape(kernel, [inputs.shape[-1], -1]) * scale)
        return outputs if bias is None else outputs + tf.reshape(bias, [-1]) * scale

    def norm(self, hidden: Any, path: str) -> Any:
        centred = hidden - tf.reduce_mean(hidden, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.math.rsqrt(variance + self.config.layer_norm_epsilon)
        # Gamma first: as the last factor it would be folded into the kernels behind
        # it, and a kernel that comes behind two norms would be stored twice.
        scaled = centred * self.named[f"{path}/gamma"] * scale
        return scaled + self.named[f"{path}/beta"]

    def scale(self, vector: Any, path: str) -> Any:
        return self.named[path] * vector

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
