"""A TensorFlow SavedModel: text in, vectors out, the tokenizer inside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.checks import InputError, existing_folder, explained
from keras_msd.export.formats import Run
from keras_msd.export.tensorflow_network import IDS, TensorFlowNetwork
from keras_msd.io.files import atomic_path
from keras_msd.quantize import SCHEMES
from keras_msd.teachers.saved_model import load_saved_model
from keras_msd.tokenizers.graph import GraphTokenizer

VERSION = "1"  # the folder of a model's version, as TensorFlow Serving names them
PATTERN = frozenset("*?[\\")  # TensorFlow reads names of variables' files as patterns
MODEL, FINGERPRINT = "saved_model.pb", "fingerprint.pb"
GIVEN_NAME = "_user_specified_name"  # of a captured weight it is a count


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as a SavedModel, which needs neither Keras nor this package.

    It stands in the folder `1/`, so that TensorFlow Serving takes `path` as
    `model_base_path`. Signatures: `serving_default`: `text` string
    `(n,)` -> `embedding` float32 `(n, dim)`; `token_ids`: `token_ids`, `padding_mask`
    int32 `(n, length)`, padding only at the right -> the same. Tokenizer, network,
    pooling and normalisation are one graph; texts longer than `encoder.max_length`
    tokens are cut as `encoder.encode` cuts them.

    Args:
        encoder: The encoder to write; one of `Encoder.from_model` only in float32.
        path: A folder that does not exist yet.
        quantize: How weights are stored, a key of `SCHEMES`. The arithmetic is
            float32 all the same: files are smaller, a call is not faster.

    Returns:
        No facts for the card.

    Raises:
        InputError: TensorFlow cannot write to `path`, or the encoder has your own
            Keras model, and `quantize` is given or Keras runs on another backend.
    """
    _check_name(path)
    module = tf.Module()
    own_model = encoder.normalized is None  # the only kind that does not say
    if own_model and quantize is None:
        # The Keras model is no attribute: its variables would be kept twice.
        module.weights = [weight.value for weight in encoder.model.weights]
        network = _own_network(encoder.model)
    else:
        module.network = TensorFlowNetwork(encoder, SCHEMES[quantize])
        network = module.network
    module.tokenizer = GraphTokenizer(encoder.tokenizer, encoder.max_length)
    run = tf.function(network, input_signature=IDS, autograph=False)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def from_text(text: Any) -> dict[str, Any]:
        return {"embedding": run(**module.tokenizer(text))}

    @tf.function(input_signature=IDS)
    def from_ids(token_ids: Any, padding_mask: Any) -> dict[str, Any]:
        return {"embedding": run(token_ids, padding_mask)}

    signatures = {"serving_default": from_text, "token_ids": from_ids}
    tf.saved_model.save(module, str(path / VERSION), signatures=signatures)
    make_repeatable(path / VERSION)
    return {}


def _own_network(model: keras.Model) -> Callable[[Any, Any], tf.Tensor]:
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "Your own Keras model is exported under Keras' TensorFlow backend. "
            f"Received: {keras.backend.backend()}. Set KERAS_BACKEND=tensorflow."
        )

    def network(token_ids: Any, padding_mask: Any) -> tf.Tensor:
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        return tf.cast(model(inputs, training=False), tf.float32)

    return network


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
    return load_saved_model(folder)


def _check_name(folder: Path) -> None:
    if special := sorted(PATTERN.intersection(str(folder.absolute()))):
        raise InputError(
            f"TensorFlow reads no SavedModel from a path with {' '.join(special)}, "
            f"which it takes for a pattern. Received: `{folder}`. Rename the folder."
        )


def _set_threads(threads: int) -> None:
    late = (
        "TensorFlow takes `threads` only before its first operation in a process. "
        f"Received: threads={threads} after it. Load the artefact first, or leave "
        "`threads` out."
    )
    with explained(late, RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)


def make_repeatable(folder: Path) -> None:
    """Number the functions of a SavedModel from 0, and order its maps by their keys.

    Operations, constants, signatures and variables are untouched. The fingerprint is of
    the graph before and holds a random number; it is optional, and is removed.

    Args:
        folder: Holds `saved_model.pb`, which is replaced.
    """
    path = folder / MODEL
    model = saved_model_pb2.SavedModel()
    model.ParseFromString(path.read_bytes())
    for graph in model.meta_graphs:
        _number_functions(graph)
    with atomic_path(path) as temporary:
        temporary.write_bytes(message_bytes(model))
    (folder / FINGERPRINT).unlink(missing_ok=True)


def _number_functions(graph: Any) -> None:
    """Name functions in the order in which they were made."""
    library = graph.graph_def.library.function
    made = sorted(library, key=lambda one: int(one.signature.name.rpartition("_")[2]))
    names = {
        one.signature.name: f"{one.signature.name.rpartition('_')[0]}_{number}"
        for number, one in enumerate(made)
    }
    functions = [type(one).FromString(one.SerializeToString()) for one in made]
    for one in functions:
        one.signature.name = names[one.signature.name]
        for argument in one.arg_attr.values():
            if GIVEN_NAME in argument.attr and argument.attr[GIVEN_NAME].s.isdigit():
                del argument.attr[GIVEN_NAME]
    nodes = [*graph.graph_def.node, *(n for one in functions for n in one.node_def)]
    for node in nodes:
        for value in node.attr.values():
            for called in (value.func, *value.list.func):
                if called.name:
                    called.name = names[called.name]
    del library[:]
    library.extend(functions)
    _name_objects(graph.object_graph_def, names)


def _name_objects(objects: Any, names: dict[str, str]) -> None:
    """Use the new names in the description of Python's objects."""
    concrete = {
        names[name]: type(function).FromString(function.SerializeToString())
        for name, function in objects.concrete_functions.items()
    }
    objects.concrete_functions.clear()
    for name, function in concrete.items():
        objects.concrete_functions[name].CopyFrom(function)
    for node in objects.nodes:
        if node.HasField("function"):
            listed = node.function.concrete_functions
            listed[:] = [names[name] for name in listed]
        if node.HasField("bare_concrete_function"):
            bare = node.bare_concrete_function
            bare.concrete_function_name = names[bare.concrete_function_name]


def message_bytes(message: Any) -> bytes:
    """Return the bytes of a protocol buffer, with maps in the order of their keys.

    protobuf's own deterministic bytes leave the order open of two keys of which one
    begins with the other, such as "T" and "Tshape".
    """
    kinds = message.DESCRIPTOR.fields
    if not any(kind.message_type for kind in kinds):
        # Written in Python, protobuf puts both fields of a map's entry beside either.
        return message.SerializeToString()
    content = b""
    for field, value in message.ListFields():
        if field.message_type is None:
            alone = type(message)(**{field.name: value})
            content += alone.SerializeToString()
            continue
        items = [value] if isinstance(value, Message) else value
        if field.message_type.GetOptions().map_entry:
            entry = value.GetEntryClass()
            items = [entry(key=key, value=value[key]) for key in sorted(value)]
        for item in items:
            own = message_bytes(item)
            content += _varint(field.number << 3 | 2) + _varint(len(own)) + own
    return content


def _varint(number: int) -> bytes:
    """Return a number seven bits a byte, the lowest first, the top bit on all but one.

    Source: Protocol Buffers, "Encoding".
    """
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])
