"""A LiteRT model of token ids, for phones: built-in operators only."""

import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.export.artefact import Run
from keras_msd.export.export_model import export_model
from keras_msd.export.litert.archive import read_files, with_files
from keras_msd.export.litert.convert import SIGNATURE, check_backend, convert
from keras_msd.export.litert.delegation import Delegation, delegation
from keras_msd.export.litert.edit import TFLiteModel
from keras_msd.export.litert.kernels import quantize_kernels
from keras_msd.export.litert.network import LiteRTNetwork
from keras_msd.export.parity import ExportError
from keras_msd.export.portable import copy_reader, describe, load_portable
from keras_msd.export.quantization import SCHEMES

QUANTIZE = ("fp16", "int8", "int4_table", "int4")
FILE = "model.tflite"
TOKENIZER = "tokenizer.json"
INPUTS = ("token_ids", "padding_mask")
# What a phone must not compute outside of XNNPACK.
HEAVY = ("BATCH_MATMUL", "FULLY_CONNECTED", "GELU", "MEAN", "SOFTMAX")

HOW_TO_LOAD = """\
import sys
import zipfile

import numpy as np
from ai_edge_litert.interpreter import Interpreter

sys.path.append("FOLDER")
from portable_tokenizer import PortableTokenizer  # a file of this folder

model = "FOLDER/model.tflite"  # also a zip archive that holds the tokenizer
with zipfile.ZipFile(model) as archive:
    tokenizer = PortableTokenizer(archive.read("tokenizer.json"))
embed = Interpreter(model).get_signature_runner("serving_default")
vectors = []
for ids in tokenizer.encode(["A sentence."]):
    ids = np.array([ids], np.int32)
    vectors += list(embed(token_ids=ids, padding_mask=np.ones_like(ids))["embedding"])
"""


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
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
        quantize: How weights are stored, None or one of `QUANTIZE`.

    Returns:
        Facts for the card.

    Raises:
        InputError: `quantize` is unknown, Keras runs on another backend, LiteRT is not
            installed, or the tokenizer cannot travel in a file.
        ExportError: The network needs an operator that is not built in, or the
            runtime leaves one with much to compute out of XNNPACK.
    """
    checks.one_of((None, *QUANTIZE), quantize=quantize)
    check_backend()
    runtime = _runtime()
    description = describe(encoder.tokenizer, encoder.max_length)
    scheme = SCHEMES[quantize]
    model = _convert(encoder, scheme.table)
    kernels = quantize_kernels(model, scheme.blocks)
    model.keep_end_names()
    model.merge_buffers()
    operators = model.operators()
    _check_builtin(operators)
    path.mkdir(parents=True)
    content = with_files(model.pack(), {TOKENIZER: description})
    (path / FILE).write_bytes(content)
    copy_reader(path)
    interpreter = runtime.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    found = delegation(interpreter)
    _check_delegated(found)
    return {
        "how_to_load": HOW_TO_LOAD,
        "libraries": {name: version(name) for name in ("tensorflow", "ai-edge-litert")},
        "kernels": kernels,
        "operators": operators,
        "not_delegated": found.left,
        "partitions": found.partitions,
        "signatures": {
            SIGNATURE: dict.fromkeys(INPUTS, "int32[n, length]"),
            "output": {"embedding": f"float32[n, {encoder.dim}]"},
        },
        "warning": "A model is a program: load only one from a source you trust.",
    }


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load a model in LiteRT as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder with `model.tflite`.
        threads: How many the runtime may use; by default one.

    Raises:
        InputError: There is no model, it is not one of ours, or damaged; or LiteRT is
            not installed.
    """
    runtime = _runtime()
    file = Path(path) / FILE
    _, files = read_files(file)
    if TOKENIZER not in files:
        raise InputError(
            f"`{file}` must hold its tokenizer as {TOKENIZER}. Received: "
            f"{', '.join(sorted(files)) or 'no file'}. A litert_text model takes "
            "strings; load that with MediaPipe."
        )
    tokenizer = load_portable(files[TOKENIZER])
    try:
        interpreter = runtime.Interpreter(str(file), num_threads=threads or 1)
        embed = interpreter.get_signature_runner(SIGNATURE)
        inputs, outputs = embed.get_input_details(), embed.get_output_details()
        width = int(outputs["embedding"]["shape"][-1])
        if set(inputs) != set(INPUTS):
            raise ValueError(f"its inputs are {', '.join(inputs)}")
    except (RuntimeError, ValueError, KeyError) as error:
        raise InputError(
            f"`{file}` is no LiteRT model of token ids: {error}. Export the encoder "
            "again."
        ) from error

    # An interpreter has one set of tensors, which the next call resizes and fills.
    lock = threading.Lock()

    def run(texts: list[str]) -> np.ndarray:
        vectors = np.empty((len(texts), width), np.float32)
        for row, ids in enumerate(tokenizer.encode(texts)):
            token_ids = np.array([ids], np.int32)
            mask = np.ones_like(token_ids)
            with lock:
                made = embed(token_ids=token_ids, padding_mask=mask)["embedding"]
            vectors[row] = made
        return vectors

    return run


def _runtime() -> Any:
    return checks.require(
        "ai_edge_litert.interpreter", "litert", "A LiteRT model of token ids"
    )


def _convert(encoder: Any, table: str) -> TFLiteModel:
    network = LiteRTNetwork(encoder.config, export_model(encoder, table))
    ids = [tf.TensorSpec([None, None], tf.int32, name=name) for name in INPUTS]

    @tf.function(input_signature=ids, autograph=False)
    def embed(token_ids: Any, padding_mask: Any) -> dict[str, Any]:
        return {"embedding": network(token_ids, padding_mask)}

    return convert(network, embed)


def _check_builtin(operators: dict[str, int]) -> None:
    foreign = [name for name in operators if not hasattr(schema.BuiltinOperator, name)]
    if foreign:
        raise ExportError(
            "A LiteRT model of token ids must have built-in operators only. Received: "
            f"{', '.join(foreign)}. Nothing was kept; export a SavedModel."
        )


def _check_delegated(found: Delegation) -> None:
    left = [name for name in HEAVY if name in found.left]
    if left:
        raise ExportError(
            "XNNPACK must run every operator with much to compute. Received: "
            f"{', '.join(left)} outside of it. Nothing was kept."
        )
