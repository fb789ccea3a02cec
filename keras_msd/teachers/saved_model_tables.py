"""Which files fill the tables of a SavedModel: its own assets, or any others."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

TABLE = re.compile(r"InitializeTableFromTextFile(V\d)?")
FILE = 1  # of a table's inputs
CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def called(nodes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the functions that operations call, by name, each with its operation."""
    for node in nodes:
        for value in node.attr.values():
            for call in (value.func, *value.list.func):
                if call.name:
                    yield call.name, node


def tables_of_other_files(graph: Any) -> set[str]:
    """Return the operations that fill a table from what need not be an asset.

    A file name is followed from function to function up to what TensorFlow gives them
    when it loads the model, which is an asset's path only where it binds an asset. In
    SavedModels of TensorFlow 1 a name can be fed or not: none of theirs is followed.

    Args:
        graph: A `MetaGraphDef`.
    """
    functions = {one.signature.name: one for one in graph.graph_def.library.function}
    tables = [
        (name, node)
        for name, function in functions.items()
        for node in function.node_def
        if TABLE.fullmatch(node.op)
    ]
    if not graph.object_graph_def.nodes:
        main = graph.graph_def.node
        return {node.op for _, node in tables} | {
            node.op for node in main if TABLE.fullmatch(node.op)
        }
    if not tables:
        return set()
    names = _Names(functions, graph.object_graph_def)
    return {node.op for name, node in tables if not names.is_asset(name, node, FILE)}


class _Names:
    """Where tensors of functions come from.

    Args:
        functions: All of a graph, by name.
        objects: What says which of them are bound to assets.
    """

    def __init__(self, functions: dict[str, Any], objects: Any) -> None:
        self.objects = objects
        self.nodes = {
            name: {node.name: node for node in function.node_def}
            for name, function in functions.items()
        }
        self.arguments = {
            name: [argument.name for argument in function.signature.input_arg]
            for name, function in functions.items()
        }
        self.callers = defaultdict[str, list[tuple[str, Any]]](list)
        for name, function in functions.items():
            for other, node in called(function.node_def):
                self.callers[other].append((name, node))

    def is_asset(self, function: str, node: Any, place: int) -> bool:
        """Tell whether an input of an operation can be the path of an asset alone."""
        found, seen = False, set[tuple[str, str]]()
        waiting = [(function, node, place)]
        while waiting:
            function, node, place = waiting.pop()
            if place >= len(node.input):
                return False
            tensor = node.input[place].partition(":")[0]
            if (function, tensor) in seen:
                continue
            seen.add((function, tensor))
            if inner := self.nodes[function].get(tensor):
                if inner.op != "Identity":
                    return False
                waiting.append((function, inner, 0))
                continue
            if tensor not in self.arguments[function]:
                return False
            number = self.arguments[function].index(tensor)
            if function in self.objects.concrete_functions:
                if not self._bound_to_asset(function, number):
                    return False
                found = True
            callers = self.callers[function]
            if any(caller.op not in CALLS for _, caller in callers):
                return False
            waiting += [(name, caller, number) for name, caller in callers]
        return found

    def _bound_to_asset(self, function: str, number: int) -> bool:
        bound = self.objects.concrete_functions[function].bound_inputs
        number -= len(self.arguments[function]) - len(bound)  # they come last
        if number < 0 or not 0 <= bound[number] < len(self.objects.nodes):
            return False
        return self.objects.nodes[bound[number]].HasField("asset")
