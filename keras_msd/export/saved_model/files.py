"""What a tiny network's SavedModel does not need to run is taken out of its graph."""

from itertools import count
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.files import atomic_path

KEY, VALUE = 1, 2  # of an entry of a map
SHAPES = "_output_shapes"  # derived anew when the graph is loaded
GIVEN_NAME = "_user_specified_name"  # of a captured weight it is a count
FINGERPRINT = "fingerprint.pb"
COLOCATED, AT = "_class", b"loc:@"


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


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer that has a length: number, length, bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return a number seven bits a byte, the lowest first, the top bit on all but one.

    Source: Protocol Buffers, "Encoding".
    """
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


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
