"""An encoder's network in the operations that LiteRT's CPU kernels, XNNPACK, run."""

from typing import Any

import keras
import tensorflow as tf

from keras_msd import checks
from keras_msd.layers.pooling import SMALLEST_SQUARE
from keras_msd.layers.recurrent_encoder import ACTIVATIONS

MASKED = 1e9  # taken from an attention score, or a value, that does not count
SMALLEST_COUNT = 1e-9


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

    Raises:
        InputError: The pooling is none that is written here.
    """

    def __init__(self, config: Any, model: keras.Model) -> None:
        super().__init__()
        checks.one_of(POOLS, pooling=config.pooling)
        self.settings = config
        self.pool = POOLS[config.pooling]
        # A function: layers as attributes would have their variables kept twice.
        self.layer = model.get_layer
        self.named = {weight.path: weight.value for weight in model.weights}
        self.activation = keras.activations.get(ACTIVATIONS[config.activation])

    def __call__(self, token_ids: Any, padding_mask: Any) -> Any:
        """Return the sentence's vector.

        Shapes: `token_ids`, `padding_mask` int32 `(batch, length)`, padding only at the
        right; returns float32 `(batch, dim)`.
        """
        config = self.settings
        batch = token_ids.shape[0]
        # A reshape infers one size, but only one.
        sizes = tf.unstack(tf.shape(token_ids)) if batch is None else [batch, -1]
        real = tf.cast(padding_mask, tf.float32)
        tokens = tf.reshape(real, [*sizes, 1])
        words = self.layer("embedding").word_rows(token_ids)
        hidden = self._embed(words, padding_mask)
        scores = tf.reshape((real - 1.0) * MASKED, [sizes[0], 1, 1, sizes[1]])
        for index in list(range(config.num_layers)) * config.repeats:
            hidden = self._block(hidden, scores, sizes, f"body/block_{index}")
        vector = self.pool(hidden, tokens)
        if config.projection_dim is not None:
            vector = self.layer("projection")(vector)
        if config.word_branch:
            branch = _mean(words, tokens) @ self.named["word_branch/projection"]
            weight = self.named["word_branch/body_weight"]
            vector = _unit(branch) + weight * _unit(vector)
        return _unit(vector) if config.normalize else vector

    def _embed(self, words: Any, padding_mask: Any) -> Any:
        config = self.settings
        if config.bottleneck_dim is not None:
            words = words @ self.named["embedding/projection"]
        table = self.named["embedding/position"][config.position_offset :]
        # The type of every token is 0, so its row joins the table of positions.
        table = table + self.named["embedding/type"][0]
        hidden = words + tf.gather(table, tf.cumsum(padding_mask, 1, exclusive=True))
        if config.embedding_layer_norm:
            hidden = self._layer_norm(hidden, "embedding/layer_norm")
        return hidden

    def _block(self, hidden: Any, scores: Any, sizes: Any, path: str) -> Any:
        attention = f"{path}/self_attention_layer"
        first = self.settings.normalize_first
        norm, second_norm = f"{attention}_norm", f"{path}/feedforward_layer_norm"

        inner = self._layer_norm(hidden, norm) if first else hidden
        hidden = hidden + self._attend(inner, scores, sizes, attention)
        hidden = hidden if first else self._layer_norm(hidden, norm)

        inner = self._layer_norm(hidden, second_norm) if first else hidden
        inner = self._dense(inner, f"{path}/feedforward_intermediate_dense")
        inner = self._dense(self.activation(inner), f"{path}/feedforward_output_dense")
        hidden = hidden + inner
        return hidden if first else self._layer_norm(hidden, second_norm)

    def _attend(self, hidden: Any, scores: Any, sizes: Any, path: str) -> Any:
        heads, width = self.settings.num_heads, self.settings.hidden_dim

        def split(name: str, scale: float = 1.0) -> Any:
            flat = self._dense(hidden, f"{path}/{name}", scale)
            parts = tf.reshape(flat, [*sizes, heads, width // heads])
            return tf.transpose(parts, [0, 2, 1, 3])

        # The scale joins the kernel, a constant.
        query = split("query", (width // heads) ** -0.5)
        scores = tf.matmul(query, split("key"), transpose_b=True) + scores
        mixed = tf.matmul(tf.nn.softmax(scores), split("value"))
        mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [*sizes, width])
        return self._dense(mixed, f"{path}/attention_output")

    def _dense(self, inputs: Any, path: str, scale: float = 1.0) -> Any:
        kernel, bias = self.named[f"{path}/kernel"], self.named[f"{path}/bias"]
        kernel = tf.reshape(kernel, [inputs.shape[-1], -1])
        return inputs @ (kernel * scale) + tf.reshape(bias, [-1]) * scale

    def _layer_norm(self, hidden: Any, path: str) -> Any:
        centred = hidden - tf.reduce_mean(hidden, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.math.rsqrt(variance + self.settings.layer_norm_epsilon)
        # Gamma first: as the last factor it would be folded into the kernels behind
        # it, and a kernel that comes behind two norms would be stored twice.
        scaled = centred * self.named[f"{path}/gamma"] * scale
        return scaled + self.named[f"{path}/beta"]


def _mean(rows: Any, tokens: Any) -> Any:
    count = tf.reduce_sum(tokens, axis=1)
    return tf.reduce_sum(rows * tokens, axis=1) / tf.maximum(count, SMALLEST_COUNT)


def _first(rows: Any, tokens: Any) -> Any:
    del tokens
    return rows[:, 0, :]


def _max(rows: Any, tokens: Any) -> Any:
    return tf.reduce_max(rows + (tokens - 1.0) * MASKED, axis=1)


POOLS = {"mean": _mean, "cls": _first, "max": _max}


def _unit(vectors: Any) -> Any:
    # Not `tf.square`: that becomes one operation for which XNNPACK has no kernel.
    square = tf.reduce_sum(vectors * vectors, axis=-1, keepdims=True)
    return vectors * tf.math.rsqrt(tf.maximum(square, SMALLEST_SQUARE))
