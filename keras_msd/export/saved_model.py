"""A TensorFlow SavedModel: text in, vectors out, the tokenizer inside."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text

from keras_msd.checks import InputError, existing_folder
from keras_msd.data.graph_tokenizer import GraphTokenizer
from keras_msd.evaluate.cost import cost
from keras_msd.export.artefact import Run
from keras_msd.export.parity import ExportError

LARGEST = 1.05  # variables may take this many times the parameters' bytes

HOW_TO_LOAD = """\
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

model = tf.saved_model.load("FOLDER")
encode = model.signatures["serving_default"]
vectors = encode(text=tf.constant(["A sentence."]))["embedding"]  # float32 (n, dim)
"""


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as a SavedModel, which needs neither Keras nor this package.

    Signatures: `serving_default`: `text` string `(n,)` -> `embedding` float32
    `(n, dim)`; `token_ids`: `token_ids`, `padding_mask` int32 `(n, length)` -> the
    same. Tokenizer, network, pooling and normalisation are one graph; texts longer
    than `encoder.max_length` tokens are cut as `encoder.encode` cuts them.

    Args:
        encoder: The encoder to write.
        path: A folder that does not exist yet.
        quantize: Only None; other formats shrink weights.

    Returns:
        Facts for the card.

    Raises:
        InputError: `quantize` is given, or Keras runs on another backend.
        ExportError: The variables take more than 1.05 times the parameters' bytes.
    """
    if quantize is not None:
        raise InputError(
            "A SavedModel keeps its weights as they are. Received: "
            f"quantize={quantize!r}. Leave `quantize` out."
        )
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "A SavedModel is written under Keras' TensorFlow backend. Received: "
            f"{keras.backend.backend()}. Save the encoder, set "
            "KERAS_BACKEND=tensorflow, load it and export it there."
        )
    model, module = encoder.model, tf.Module()
    # The Keras model itself is never an attribute: its variables would be kept twice.
    module.weights = [weight.value for weight in model.weights]
    module.tokenizer = GraphTokenizer(encoder.tokenizer, encoder.max_length)

    def embed(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"embedding": tf.cast(model(inputs, training=False), tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def from_text(text: Any) -> dict[str, Any]:
        return embed(module.tokenizer(text))

    ids = [
        tf.TensorSpec([None, None], tf.int32, name=name)
        for name in ("token_ids", "padding_mask")
    ]

    @tf.function(input_signature=ids)
    def from_ids(token_ids: Any, padding_mask: Any) -> dict[str, Any]:
        return embed({"token_ids": token_ids, "padding_mask": padding_mask})

    signatures = {"serving_default": from_text, "token_ids": from_ids}
    tf.saved_model.save(module, str(path), signatures=signatures)
    stored, parameters = _variable_bytes(path), cost(encoder)["bytes"]
    if stored > LARGEST * parameters:
        raise ExportError(
            f"The variables must take at most {LARGEST} x {parameters} bytes. "
            f"Received: {stored}. Nothing was kept."
        )
    return {
        "how_to_load": HOW_TO_LOAD,
        "variable_bytes": stored,
        "libraries": {
            "tensorflow": tf.__version__,
            "tensorflow-text": tensorflow_text.__version__,
        },
        "signatures": {
            "serving_default": {"text": "string[n]"},
            "token_ids": {
                "token_ids": "int32[n, length]",
                "padding_mask": "int32[n, length]",
            },
            "output": {"embedding": f"float32[n, {encoder.dim}]"},
        },
        "warning": "A SavedModel is a program: load only one from a source you trust.",
    }


def load(path: str | Path) -> Run:
    """Load a SavedModel as a function from sentences to float32 `(n, dim)`.

    Raises:
        InputError: No SavedModel is there, or it has no `serving_default` from `text`.
    """
    path = existing_folder(path, "SavedModel")
    try:
        model = tf.saved_model.load(str(path))
        serve = model.signatures["serving_default"]
    except (OSError, KeyError, ValueError, tf.errors.OpError) as error:
        raise InputError(
            f"`{path}` is not a SavedModel with the signature serving_default: "
            f"{error}. Export the encoder again."
        ) from error

    def run(texts: list[str]) -> np.ndarray:
        # The model owns the variables that `serve` reads, so it must stay alive.
        _ = model
        return serve(text=tf.constant(texts, tf.string))["embedding"].numpy()

    return run


def _variable_bytes(path: Path) -> int:
    reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    dtypes = reader.get_variable_to_dtype_map()
    return sum(
        int(np.prod(shape, dtype=np.int64)) * dtypes[name].size
        for name, shape in reader.get_variable_to_shape_map().items()
        if dtypes[name] != tf.string  # the description of the objects, not a weight
    )
