"""Make the files of a SavedModel depend on the model alone, not on the process.

TensorFlow ends names of functions in a count of all functions of the process, keeps
them in the order of their names' hashes, and writes maps in any order.
"""

from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.io.files import atomic_path

MODEL, FINGERPRINT = "saved_model.pb", "fingerprint.pb"
GIVEN_NAME = "_user_specified_name"  # of a captured weight it is a count


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
