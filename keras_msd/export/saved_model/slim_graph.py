"""Take out of a SavedModel what a tiny network's graph does not need to run."""

from itertools import count
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.files import atomic_path

SHAPES = "_output_shapes"  # derived anew when the graph is loaded
COLOCATED, AT = "_class", b"loc:@"


def slim_graph(folder: Path) -> None:
    """Shorten the names inside a SavedModel's functions and drop derived attributes.

    Operations, constants, signatures, variables and names of functions are untouched.
    The graph of an encoder of a few megabytes is a twentieth of its file otherwise.

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
    with atomic_path(path) as temporary:
        temporary.write_bytes(model.SerializeToString(deterministic=True))


def _shorten(function: Any) -> None:
    taken = {argument.name for argument in function.signature.input_arg}
    free = (name for name in map("n{:x}".format, count()) if name not in taken)
    short = {node.name: next(free) for node in function.node_def}
    for node in function.node_def:
        node.attr.pop(SHAPES, None)
        node.name = short[node.name]
        node.input[:] = [_renamed(one, short) for one in node.input]
        colocated = node.attr[COLOCATED].list.s if COLOCATED in node.attr else []
        colocated[:] = [
            AT + _renamed(one.removeprefix(AT).decode(), short).encode()
            for one in colocated
        ]
    for results in (function.ret, function.control_ret):
        for key, value in list(results.items()):
            results[key] = _renamed(value, short)


def _renamed(reference: str, short: dict[str, str]) -> str:
    """Return `^node`, `node:output:0` or `node` with the node's new name."""
    control = "^" if reference.startswith("^") else ""
    node, *output = reference.removeprefix("^").split(":")
    return control + ":".join([short.get(node, node), *output])
