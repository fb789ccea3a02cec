"""A TensorFlow SavedModel: text in, vectors out, the tokenizer inside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_msd.checks import InputError, existing_folder
from keras_msd.export.formats import SCHEMES, Run, Scheme
from keras_msd.export.network import check_backend, export_model
from keras_msd.models.network import KERNELS
from keras_msd.quantization import BITS, quantize_table
from keras_msd.teachers.saved_model import load_saved_model
from keras_msd.teachers.teacher import SavedModelFolder
from keras_msd.tokenizers.graph import GraphTokenizer

VERSION = "1"  # the folder of a model's version, as TensorFlow Serving names them
PATTERN = frozenset("*?[\\")  # TensorFlow reads names of variables' files as patterns


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as a SavedModel, which needs neither Keras nor this package.

    It stands in the folder `1/`, so that TensorFlow Serving takes `path` as
    `model_base_path`. Signatures: `serving_default`: `text` string
    `(n,)` -> `embedding` float32 `(n, dim)`; `token_ids`: `token_ids`, `padding_mask`
    int32 `(n, length)` -> the same. Tokenizer, network, pooling and normalisation are
    one graph; texts longer than `encoder.max_length` tokens are cut as
    `encoder.encode` cuts them.

    Args:
        encoder: The encoder to write.
        path: A folder that does not exist yet.
        quantize: How weights are stored, a key of `SCHEMES`. The arithmetic is
            float32 all the same: files are smaller, a call is not faster.

    Returns:
        Facts for the card.

    Raises:
        InputError: Keras runs on another backend.
    """
    scheme = SCHEMES[quantize]
    check_backend("A SavedModel")
    _check_name(path)
    # The Keras model itself is never an attribute: its variables would be kept twice.
    module = tf.Module()
    module.weights, network = store_network(encoder, scheme)
    module.tokenizer = GraphTokenizer(encoder.tokenizer, encoder.max_length)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def from_text(text: Any) -> dict[str, Any]:
        return {"embedding": network(**module.tokenizer(text))}

    @tf.function(input_signature=IDS)
    def from_ids(token_ids: Any, padding_mask: Any) -> dict[str, Any]:
        return {"embedding": network(token_ids, padding_mask)}

    signatures = {"serving_default": from_text, "token_ids": from_ids}
    tf.saved_model.save(module, str(path / VERSION), signatures=signatures)
    return {
        "signatures": {
            "serving_default": {"text": "string[n]"},
            "token_ids": dict.fromkeys((spec.name for spec in IDS), "int32[n, length]"),
            "output": {"embedding": f"float32[n, {encoder.dim}]"},
        },
    }


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load a SavedModel as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The artefact's folder.
        threads: Threads that TensorFlow may use; it takes them only before its first
            operation in a process. By default its own choice.

    Raises:
        InputError: No SavedModel is there, it is damaged, or maps no text to vectors;
            or it is too late for `threads`.
    """
    folder = existing_folder(path, "artefact") / VERSION
    _check_name(folder)
    if threads is not None:
        _set_threads(threads)
    return load_saved_model(SavedModelFolder(folder))


def _check_name(folder: Path) -> None:
    if special := sorted(PATTERN.intersection(str(folder.absolute()))):
        raise InputError(
            f"TensorFlow reads no SavedModel from a path with {' '.join(special)}, "
            f"which it takes for a pattern. Received: `{folder}`. Rename the folder."
        )


def _set_threads(threads: int) -> None:
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    except RuntimeError as error:
        raise InputError(
            "TensorFlow takes `threads` only before its first operation in a process. "
            f"Received: threads={threads} after it. Load the artefact first, or leave "
            "`threads` out."
        ) from error


IDS = [
    tf.TensorSpec([None, None], tf.int32, name=name)
    for name in ("token_ids", "padding_mask")
]


def scale_values(values: tf.Tensor, scales: tf.Tensor, inputs: int) -> tf.Tensor:
    """Return a kernel from its numbers, `(groups, inputs / groups, outputs)`."""
    groups, outputs = scales.shape
    if values.dtype == tf.uint8:
        low = tf.bitwise.bitwise_and(values, 15)
        high = tf.bitwise.right_shift(values, 4)
        both = tf.concat([low, high], axis=0)[:inputs]
        numbers = tf.cast(both, tf.float32) - 8.0
    else:
        numbers = tf.cast(values, tf.float32)
    parts = tf.reshape(numbers, [groups, inputs // groups, outputs])
    return parts * scales[:, tf.newaxis]


class Weight(tf.Module):
    """One weight in its stored form.

    Args:
        variable: What is stored.
        dtype: What the network computes with.
    """

    def __init__(self, variable: tf.Variable, dtype: str) -> None:
        super().__init__(name="weight")
        self.variable, self.dtype = variable, dtype

    def expand(self, scale: Callable[..., tf.Tensor] = scale_values) -> tf.Tensor:
        """Return the weight as the network takes it."""
        return tf.cast(self.variable, self.dtype)


class Kernel(Weight):
    """The kernel of a matrix product in whole numbers, a scale for each output.

    With 4 bits each output has a scale for every group of inputs. Numbers are stored
    as `StoredTable` has them, transposed: inputs are the first axis.

    Args:
        kernel: Array of any rank; its first axis counts inputs, or all but the last.
        bits: 8 or 4.
        last: Whether outputs are the last axis alone.
        dtype: What the network computes with.
    """

    def __init__(self, kernel: np.ndarray, bits: int, last: bool, dtype: str) -> None:
        inputs = int(np.prod(kernel.shape[:-1])) if last else kernel.shape[0]
        table = quantize_table(kernel.reshape(inputs, -1).T, bits)
        super().__init__(tf.Variable(table.values.T, trainable=False), dtype)
        self.scales = tf.Variable(table.scales.T.astype(np.float32), trainable=False)
        self.shape, self.inputs = kernel.shape, inputs

    def expand(self, scale: Callable[..., tf.Tensor] = scale_values) -> tf.Tensor:
        """Return the kernel that the numbers stand for."""
        values, scales = self.variable.read_value(), self.scales.read_value()
        kernel = scale(values, scales, self.inputs)
        return tf.cast(tf.reshape(kernel, self.shape), self.dtype)


def store_network(
    encoder: Any, scheme: Scheme
) -> tuple[list[Weight], Callable[..., tf.Tensor]]:
    """Return an encoder's stored weights and the function that computes with them.

    A graph holds every weight once and in its stored form. It expands one once in a
    call, however often the unit is run; of the word table only the rows that are
    taken. The unit is one function of the graph, called again for every repeat.

    Args:
        encoder: What is stored; it is not changed.
        scheme: How.

    Returns:
        Weights, to be tracked by whatever is saved, and a `tf.function` from
        `token_ids` and `padding_mask` int32 `(n, length)` to float32 `(n, dim)`.
    """
    model = export_model(encoder, scheme.table)
    stored = [_stored(weight, scheme.blocks) for weight in model.weights]
    network = _in_parts if encoder.has_body else _whole
    compute = network(model)
    # A function, for a smaller graph; of one export, since its traces are in its file.
    scale = tf.function(scale_values, autograph=False)

    @tf.function(input_signature=IDS, autograph=False)
    def run(token_ids: Any, padding_mask: Any) -> tf.Tensor:
        values = [weight.expand(scale) for weight in stored]
        return tf.cast(compute(token_ids, padding_mask, values), tf.float32)

    return stored, run


def _stored(weight: Any, kind: str) -> Weight:
    is_float = weight.dtype in ("float32", "bfloat16")
    if kind in BITS and weight.path.endswith(KERNELS):
        kernel = keras.ops.convert_to_numpy(keras.ops.cast(weight, "float32"))
        last = weight.path.endswith("attention_output/kernel")
        return Kernel(kernel, BITS[kind], last, weight.dtype)
    # Scales can be smaller than float16's least number.
    if kind != "float32" and is_float and not weight.path.endswith("word_scales"):
        half = tf.Variable(tf.cast(weight.value, tf.float16), trainable=False)
        return Weight(half, weight.dtype)
    return Weight(weight.value, weight.dtype)


def _whole(model: keras.Model) -> Callable[..., tf.Tensor]:
    def compute(token_ids: Any, padding_mask: Any, values: list[Any]) -> tf.Tensor:
        with keras.StatelessScope(zip(model.weights, values, strict=True)):
            inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
            return model(inputs, training=False)

    return compute


def _in_parts(model: keras.Model) -> Callable[..., tf.Tensor]:
    """Return a function that calls the blocks of `body`, all of them one function.

    Calling the model would write every block and every repeat into the graph in full.
    """
    body = model.get_layer("body")
    token_ids, padding_mask = model.input["token_ids"], model.input["padding_mask"]
    before = keras.Model(model.input, body.input[0], name="before_body")
    after = keras.Model(
        [body.output, token_ids, padding_mask], model.output, name="after_body"
    )
    first = body.blocks[0]  # the others differ in their weights alone

    @tf.function(autograph=False)
    def block(hidden: Any, padding_mask: Any, values: list[Any]) -> tf.Tensor:
        with keras.StatelessScope(zip(first.weights, values, strict=True)):
            return first(hidden, padding_mask=padding_mask, training=False)

    def compute(token_ids: Any, padding_mask: Any, values: list[Any]) -> tf.Tensor:
        pairs = list(zip(model.weights, values, strict=True))
        value_of = {id(weight): value for weight, value in pairs}
        with keras.StatelessScope(pairs):
            hidden = before({"token_ids": token_ids, "padding_mask": padding_mask})
        mask = tf.cast(padding_mask, tf.bool)
        for layer in body.blocks * body.repeats:
            layer_values = [value_of[id(weight)] for weight in layer.weights]
            hidden = block(hidden, mask, layer_values)
        with keras.StatelessScope(pairs):
            return after([hidden, token_ids, padding_mask])

    return compute
