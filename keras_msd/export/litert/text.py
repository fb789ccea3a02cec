"""A .tflite file that takes a string, for MediaPipe's TextEmbedder as it is."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.export.export_model import export_model
from keras_msd.export.litert.archive import with_files
from keras_msd.export.litert.convert import SIGNATURE, check_backend, convert
from keras_msd.export.litert.edit import TFLiteModel
from keras_msd.export.litert.kernels import quantize_kernels
from keras_msd.export.litert.mediapipe import FILE, load
from keras_msd.export.litert.network import LiteRTNetwork
from keras_msd.export.quantization import SCHEMES
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.graph import GraphTokenizer, inexact_feature
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

__all__ = ["QUANTIZE", "load", "write"]

QUANTIZE = ("fp16", "int8", "int4_table", "int4")

# One kernel under two names: tensorflow-text's, and the one MediaPipe registers.
TOKENIZE = "TFText>FastSentencepieceTokenize"
TOKENIZE_IN_MEDIAPIPE = "TFSentencepieceTokenizeOp"

HOW_TO_LOAD = """\
from mediapipe.tasks.python.text import TextEmbedder

with TextEmbedder.create_from_model_path("FOLDER/model.tflite") as embedder:
    # One text a call; MediaPipe ends it at a NUL character.
    vector = embedder.embed("A sentence.").embeddings[0].embedding  # float32 (dim,)
"""


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.tflite`, which MediaPipe's TextEmbedder loads.

    The input is one string, the output float32 `(1, dim)`. Tokenizer, network, pooling
    and normalisation are one graph of built-in operators and the tokenizer that
    MediaPipe brings. A sentence is computed at its own length; one of more than
    `encoder.max_length` tokens is cut as `encoder.encode` cuts it.

    Args:
        encoder: The encoder to write; its vocabulary is SentencePiece unigram.
        path: A folder that does not exist yet.
        quantize: How weights are stored, None or one of `QUANTIZE`.

    Returns:
        Facts for the card.

    Raises:
        InputError: `quantize` is unknown, Keras runs on another backend, a package is
            missing, or MediaPipe's tokenizer would give other ids than the encoder's.
    """
    checks.one_of((None, *QUANTIZE), quantize=quantize)
    check_backend()
    checks.require("mediapipe", "mediapipe", "A litert_text model")
    _check_tokenizer(encoder.tokenizer)
    scheme = SCHEMES[quantize]
    model = _convert(encoder, scheme.table)
    kernels = quantize_kernels(model, scheme.blocks)
    model.rename_custom(TOKENIZE, TOKENIZE_IN_MEDIAPIPE)
    model.keep_end_names()
    model.merge_buffers()
    path.mkdir(parents=True)
    (path / FILE).write_bytes(with_files(model.pack()))
    packages = ("tensorflow", "tensorflow-text", "mediapipe")
    return {
        "how_to_load": HOW_TO_LOAD,
        "libraries": {name: version(name) for name in packages},
        "kernels": kernels,
        "operators": model.operators(),
        "signatures": {
            SIGNATURE: {"text": "string[1]"},
            "output": {"embedding": f"float32[1, {encoder.dim}]"},
        },
        "warning": "A model is a program: load only one from a source you trust.",
    }


def _convert(encoder: Any, table: str) -> TFLiteModel:
    module = tf.Module()
    module.network = LiteRTNetwork(encoder.config, export_model(encoder, table))
    module.tokenizer = tokenizer = GraphTokenizer(encoder.tokenizer, encoder.max_length)

    @tf.function(input_signature=[tf.TensorSpec([1], tf.string, name="text")])
    def embed(text: Any) -> dict[str, Any]:
        ids = tokenizer.plain(text).values[: encoder.max_length - 2]
        ids = tf.concat([[tokenizer.start_id], ids, [tokenizer.end_id]], axis=0)
        token_ids = ids[tf.newaxis]
        return {"embedding": module.network(token_ids, tf.ones_like(token_ids))}

    return convert(module, embed)


def _check_tokenizer(tokenizer: Tokenizer) -> None:
    """Raise `InputError` where MediaPipe's tokenizer gives other ids than ours."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise _refused(f"kind {tokenizer.kind}")
    if feature := inexact_feature(tokenizer):
        raise _refused(feature)


def _refused(feature: str) -> InputError:
    return InputError(
        "A .tflite file that takes strings needs a unigram SentencePiece vocabulary "
        "without byte fallback, prepared as XLM-RoBERTa's is. Received: "
        f"{feature}. MediaPipe's tokenizer would give other ids without a word: try "
        "format='litert', which takes ids."
    )
