"""LiteRT models of token ids, and of a string for MediaPipe, made from an encoder."""

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_msd.checks import require
from keras_msd.export.formats import FULL, SCHEMES
from keras_msd.export.litert.files import (
    FILE,
    INPUTS,
    SIGNATURE,
    require_litert,
    with_tokenizer,
)
from keras_msd.export.litert.model import TFLiteModel, quantize_kernels
from keras_msd.export.portable import copy_reader, describe
from keras_msd.export.tensorflow_network import TensorFlowNetwork
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
        InputError: LiteRT is not installed, or the tokenizer cannot travel in a file.
    """
    require_litert()
    description = describe(encoder.tokenizer, encoder.max_length)
    network = _network(encoder, quantize)
    ids = [tf.TensorSpec([None, None], tf.int32, name=name) for name in INPUTS]

    @tf.function(input_signature=ids, autograph=False)
    def embed(token_ids: Any, padding_mask: Any) -> dict[str, Any]:
        return {"embedding": network(token_ids, padding_mask)}

    model = convert(network, embed)
    facts = _write(model, quantize, path, description)
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
        InputError: A package is missing, or MediaPipe's tokenizer would give other ids
            than the encoder's.
    """
    require("mediapipe", "mediapipe", "A litert_text model")
    module = tf.Module()
    module.network = _network(encoder, quantize)
    module.tokenizer = tokenizer = GraphTokenizer(encoder.tokenizer, encoder.max_length)

    @tf.function(input_signature=[tf.TensorSpec([1], tf.string, name="text")])
    def embed(text: Any) -> dict[str, Any]:
        ids = tokenizer.plain(text).values[: encoder.max_length - 2]
        ids = tf.concat([[tokenizer.start_id], ids, [tokenizer.end_id]], axis=0)
        token_ids = ids[tf.newaxis]
        return {"embedding": module.network(token_ids, tf.ones_like(token_ids))}

    converted = convert(module, embed)
    converted.rename_custom(TOKENIZE, TOKENIZE_IN_MEDIAPIPE)
    return _write(converted, quantize, path)


def _network(encoder: Any, quantize: str | None) -> TensorFlowNetwork:
    # `quantize_kernels` changes the kernels once they are converted.
    return TensorFlowNetwork(encoder, FULL._replace(table=SCHEMES[quantize].table))


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
    quantize: str | None,
    path: Path,
    description: bytes | None = None,
) -> dict[str, Any]:
    """Write a converted model with its kernels in fewer bits; return facts."""
    kernels = quantize_kernels(model, SCHEMES[quantize].blocks)
    model.name_tensors()
    content = model.pack()
    path.mkdir(parents=True)
    (path / FILE).write_bytes(
        content if description is None else with_tokenizer(content, description)
    )
    return {"kernels": kernels, "operators": model.operators()}
