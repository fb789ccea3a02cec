"""What an export does to a SavedModel that TensorFlow wrote.

Requests that warm TensorFlow Serving up are put where it looks for them; what a tiny
network's graph does not need to run is taken out, and so is what a process counted.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.arrays import pad_batch
from keras_msd.files import atomic_path

WARM_UP = "assets.extra/tf_serving_warmup_requests"
SHORT = "ok"
SENTENCE = "Der Zug nach Zürich kommt heute zehn Minuten später an."
LONG = "The ferry leaves at seven, whatever the weather, and nobody minds. " * 20
BATCHES = ([SHORT], [SENTENCE], [LONG], [SENTENCE, "", LONG, SHORT], [SENTENCE] * 32)

# Fields of the messages that a request is made of (tensorflow_serving/apis:
# prediction_log.proto, predict.proto, model.proto). Each has a length and bytes.
PREDICT_LOG = 6  # of PredictionLog
REQUEST = 1  # of PredictLog
MODEL, INPUTS = 1, 2  # of PredictRequest
NAME, SIGNATURE = 1, 3  # of ModelSpec
KEY, VALUE = 1, 2  # of an entry of a map

SHAPES = "_output_shapes"  # derived anew when the graph is loaded
GIVEN_NAME = "_user_specified_name"  # of a captured weight it is a count
FINGERPRINT = "fingerprint.pb"
COLOCATED, AT = "_class", b"loc:@"


def write_warm_up(folder: Path, encoder: Any) -> int:
    """Write requests that a server runs before it takes the first real one.

    The first call of a signature is many times slower than later ones. Requests are of
    one sentence and of many, short, long and empty, for both signatures.

    Args:
        folder: Of one version of the model, with `saved_model.pb`.
        encoder: Its tokenizer makes the token ids.

    Returns:
        How many requests there are.

    Source: TensorFlow Serving, "SavedModel Warmup": a TFRecord file of PredictionLog.
    """
    requests = list(_requests(encoder))
    path = folder / WARM_UP
    path.parent.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            writer.write(request)
    return len(requests)


def _requests(encoder: Any) -> Iterator[bytes]:
    pad_id, longest = encoder.tokenizer.pad_id, encoder.max_length
    for texts in BATCHES:
        yield _prediction_log("serving_default", {"text": texts})
        ids = encoder.tokenizer.encode(texts, longest)
        yield _prediction_log("token_ids", pad_batch(ids, pad_id, longest=longest))


def _prediction_log(signature: str, inputs: Mapping[str, Any]) -> bytes:
    # A server gives the request to the model it is warming up, whatever its name.
    model = _field(NAME, b"encoder") + _field(SIGNATURE, signature.encode())
    request = _field(MODEL, model)
    for name, value in inputs.items():
        tensor = _field(VALUE, message_bytes(tf.make_tensor_proto(value)))
        entry = _field(KEY, name.encode()) + tensor
        request += _field(INPUTS, entry)
    return _field(PREDICT_LOG, _field(REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer that has a length: number, length, bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return a number seven bits a byte, the lowest first, the top bit on all but one.

    Source: Protocol Buffers, "Encoding".
    """
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def slim_graph(folder: Path) -> None:
    """Shorten the names inside a SavedModel's functions and drop derived attributes.

    Operations, constants, signatures and variables are untouched. The graph of an
    encoder of a few megabytes is a twentieth of its file otherwise. TensorFlow ends
    names of functions in a count of all that a process made, and keeps functions in
    the order of their names' hashes: they are numbered from 0 here, in the order in
    which they were made, so that equal encoders give equal files. The fingerprint,
    which is of the graph as it was and holds a drawn number, is removed; it is
    optional.

    Args:
        folder: Holds `saved_model.pb`, which is replaced.
    """
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel()
    model.ParseFromString(path.read_bytes())
    for graph in model.meta_graphs:
        for node in graph.graph_def.node:
            node.attr.pop(SHAPES, None)
        for function in graph.graph_def.library.function:
            _shorten(function)
        _number_functions(graph)
    with atomic_path(path) as temporary:
        temporary.write_bytes(message_bytes(model))
    (folder / FINGERPRINT).unlink(missing_ok=True)


def message_bytes(message: Any) -> bytes:
    """Return the bytes of a message, the same in every process: maps by their keys.

    What protobuf calls deterministic leaves the order open of two keys of which one
    begins with the other, such as "T" and "Tshape".
    """
    content = b""
    for field, value in message.ListFields():
        if field.message_type is None:
            alone = type(message)(**{field.name: value})
            content += alone.SerializeToString()
        elif field.message_type.GetOptions().map_entry:
            for key in sorted(value):
                entry = _entry_field(KEY, key) + _entry_field(VALUE, value[key])
                content += _field(field.number, entry)
        else:
            items = [value] if isinstance(value, Message) else value
            content += b"".join(_field(field.number, message_bytes(it)) for it in items)
    return content


def _entry_field(number: int, value: Any) -> bytes:
    """Return a key or value of a map, written even where it is zero or empty.

    An entry is no message that protobuf writes alike in every process: in some it
    writes the field that was not given, too.
    """
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else message_bytes(value)
    return _field(number, content)


def _number_functions(graph: Any) -> None:
    library = graph.graph_def.library.function
    made = sorted(library, key=lambda one: int(one.signature.name.rpartition("_")[2]))
    names = {
        one.signature.name: f"{one.signature.name.rpartition('_')[0]}_{number}"
        for number, one in enumerate(made)
    }
    functions = [type(one).FromString(one.SerializeToString()) for one in made]
    nodes = [*graph.graph_def.node, *(n for one in functions for n in one.node_def)]
    for one in functions:
        one.signature.name = names[one.signature.name]
        for argument in one.arg_attr.values():
            if GIVEN_NAME in argument.attr and argument.attr[GIVEN_NAME].s.isdigit():
                del argument.attr[GIVEN_NAME]
    for node in nodes:
        for value in node.attr.values():
            for called in (value.func, *value.list.func):
                if called.name:
                    called.name = names[called.name]
    del library[:]
    library.extend(functions)
    _name_objects(graph.object_graph_def, names)


def _name_objects(objects: Any, names: dict[str, str]) -> None:
    """Call functions by their new names in the description of Python's objects."""
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


def _shorten(function: Any) -> None:
    taken = {argument.name for argument in function.signature.input_arg}
    free = (name for name in map("n{:x}".format, count()) if name not in taken)
    short = {node.name: next(free) for node in function.node_def}
    for node in function.node_def:
        node.attr.pop(SHAPES, None)
        node.name = short[node.name]
        node.input[:] = [_renamed(reference, short) for reference in node.input]
        colocated = node.attr[COLOCATED].list.s if COLOCATED in node.attr else []
        colocated[:] = [
            AT + _renamed(place.removeprefix(AT).decode(), short).encode()
            for place in colocated
        ]
    for results in (function.ret, function.control_ret):
        for key, value in list(results.items()):
            results[key] = _renamed(value, short)


def _renamed(reference: str, short: dict[str, str]) -> str:
    """Return `^node`, `node:output:0` or `node` with the node's new name."""
    control = "^" if reference.startswith("^") else ""
    node, *output = reference.removeprefix("^").split(":")
    return control + ":".join([short.get(node, node), *output])
