"""LiteRT models of token ids, and of a string for MediaPipe, made from an encoder."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_msd.checks import require
from keras_msd.export.formats import SCHEMES
from keras_msd.export.litert.files import (
    FILE,
    INPUTS,
    SIGNATURE,
    require_litert,
    with_tokenizer,
)
from keras_msd.export.litert.model import TFLiteModel, quantize_kernels
from keras_msd.export.network import (
    MASKED,
    SMALLEST_COUNT,
    check_backend,
    export_model,
    states,
)
from keras_msd.export.portable import copy_reader, describe
from keras_msd.layers.pooling import SMALLEST_SQUARE
from keras_msd.layers.recurrent_encoder import ACTIVATIONS
from keras_msd.tokenizers.graph import GraphTokenizer

# One kernel under two names: tensorflow-text's, and the one MediaPipe registers.
TOKENIZE = "TFText>FastSentencepieceTokenize"
TOKENIZE_IN_MEDIAPIPE = "TFSentencepieceTokenizeOp"


def write_ids(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.tflite`, its tokenizer's description inside.

    The signature `serving_default` takes `token_ids`, `padding_mask` int32
    `(n, length)`, padding only at the right, and gives `embedding` float32 `(n, dim)`.
    A runtime resizes it to any batch and any length up to `encoder.max_length` in a
    fraction of a sentence's time and packs the weights once; a signature for each of a
    few lengths would pack them again. Sentences one by one, unpadded, are fastest. All
    operators are built in, and all with much to compute run in XNNPACK.

    Args:
        encoder: The encoder to write.
        path: A folder that does not exist yet.
        quantize: How weights are stored, a key of `SCHEMES`.

    Returns:
        Facts for the card.

    Raises:
        InputError: Keras runs on another backend, LiteRT is not installed, or the
            tokenizer cannot travel in a file.
    """
    scheme = SCHEMES[quantize]
    check_backend("A .tflite file")
    require_litert()
    description = describe(encoder.tokenizer, encoder.max_length)
    network = LiteRTNetwork(encoder.config, export_model(encoder, scheme.table))
    ids = [tf.TensorSpec([None, None], tf.int32, name=name) for name in INPUTS]

    @tf.function(input_signature=ids, autograph=False)
    def embed(token_ids: Any, padding_mask: Any) -> dict[str, Any]:
        return {"embedding": network(token_ids, padding_mask)}

    model = convert(network, embed)
    shapes = dict.fromkeys(INPUTS, "int32[n, length]"), f"float32[n, {encoder.dim}]"
    facts = _write(model, scheme.blocks, path, shapes, description)
    copy_reader(path)
    return facts


def write_text(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.tflite`, which MediaPipe's TextEmbedder loads.

    The input is one string, the output float32 `(1, dim)`. Tokenizer, network, pooling
    and normalisation are one graph of built-in operators and the tokenizer that
    MediaPipe brings. A sentence is computed at its own length; one of more than
    `encoder.max_length` tokens is cut as `encoder.encode` cuts it.

    Args:
        encoder: The encoder to write; its vocabulary is SentencePiece unigram.
        path: A folder that does not exist yet.
        quantize: How weights are stored, a key of `SCHEMES`.

    Returns:
        Facts for the card.

    Raises:
        InputError: Keras runs on another backend, a package is missing, or MediaPipe's
            tokenizer would give other ids than the encoder's.
    """
    scheme = SCHEMES[quantize]
    check_backend("A .tflite file")
    require("mediapipe", "mediapipe", "A litert_text model")
    module = tf.Module()
    module.network = LiteRTNetwork(encoder.config, export_model(encoder, scheme.table))
    module.tokenizer = tokenizer = GraphTokenizer(encoder.tokenizer, encoder.max_length)

    @tf.function(input_signature=[tf.TensorSpec([1], tf.string, name="text")])
    def embed(text: Any) -> dict[str, Any]:
        ids = tokenizer.plain(text).values[: encoder.max_length - 2]
        ids = tf.concat([[tokenizer.start_id], ids, [tokenizer.end_id]], axis=0)
        token_ids = ids[tf.newaxis]
        return {"embedding": module.network(token_ids, tf.ones_like(token_ids))}

    converted = convert(module, embed)
    converted.rename_custom(TOKENIZE, TOKENIZE_IN_MEDIAPIPE)
    shapes = {"text": "string[1]"}, f"float32[1, {encoder.dim}]"
    return _write(converted, scheme.blocks, path, shapes)


def convert(module: tf.Module, embed: Any) -> TFLiteModel:
    """Convert a function with float32 kernels to the signature `SIGNATURE`.

    Operators that LiteRT does not have become custom operators of the same name:
    compare `operators()` of the result with what the runtime registers.

    Args:
        module: Tracks the variables and tables that the function uses; others would
            not reach the file.
        embed: A `tf.function` with an input signature, returning a dictionary.
    """
    # A SavedModel keeps the signature's names.
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={SIGNATURE: embed})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        converter.allow_custom_ops = True
        model = TFLiteModel(converter.convert())
    model.gather_halves()
    return model


def _write(
    model: TFLiteModel,
    blocks: str,
    path: Path,
    shapes: tuple[dict[str, str], str],
    description: bytes | None = None,
) -> dict[str, Any]:
    """Write a converted model with its kernels stored as `blocks`; return facts."""
    kernels = quantize_kernels(model, blocks)
    model.name_tensors()
    model.merge_buffers()
    content = model.pack()
    path.mkdir(parents=True)
    (path / FILE).write_bytes(
        content if description is None else with_tokenizer(content, description)
    )
    return {
        "kernels": kernels,
        "operators": model.operators(),
        "signatures": {SIGNATURE: shapes[0], "output": {"embedding": shapes[1]}},
    }


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
    """The operations of `states`."""

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
