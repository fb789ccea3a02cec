"""What a SavedModel would do beside computing, found before it is loaded."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.checks import InputError, explained
from keras_msd.files import read_bytes
from keras_msd.limits import GRAPH
from keras_msd.teachers.saved_model_folder import MODEL

# Operations of TensorFlow 2.21 that read or write files, use a network, call Python,
# or hold a graph of their own. Those of `TABLE` may read assets.
OUTSIDE = re.compile(
    r".*PyFunc.*"
    r"|(Read|Write)File|MatchingFiles|FileSystem.*|ImmutableConst|RecordInput"
    r"|FixedUnigramCandidateSampler|GenerateVocabRemapping|Skipgram"
    r"|CalibrationStatisticsSaver|DumpTensor"
    r"|LoadAndRemapMatrix|.*Reader(V\d)?|Reader.*|.*Dataset.*|.*Snapshot.*"
    r"|(Save|Restore|DTensorRestore).*|MergeV2Checkpoints|DistributedSave"
    r"|(Create|Write|Close|Flush)\w*Summary.*|SummaryWriter|ImportEvent"
    r"|StatsAggregator.*|Debug.*|PrintV2"
    r"|Rpc.*|Remote.*|.*(Send|Recv).*|.*Collective.*|.*Nccl.*|.*TPU.*"
    r"|WorkerHeartbeat|.*XlaHostCompute.*|XlaCustomCall.*"
)
TABLE = re.compile(r"InitializeTableFromTextFile(V\d)?")
FILE = 1  # of a table's inputs
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
DAMAGED = (
    "`{}` must be a whole SavedModel of TensorFlow 2. Received: {}. Take a whole copy, "
    "or export it again."
)
SUSPECT = "TensorFlow writes no such model: do not trust it, or export it again."
REPAIR = (
    "Load only what you trust; if you do, name them: "
    'load_teacher(folder, allow_operations=["..."]).'
)


def check_operations(folder: Path, allowed: Collection[str] = ()) -> None:
    """Refuse a SavedModel that does more than compute, without loading it.

    A filter of known names, no sandbox: native code that computes is trusted.

    Args:
        folder: Holds `saved_model.pb`.
        allowed: Names of operations that are let pass.

    Raises:
        InputError: The file is damaged or too large, an asset lies outside the folder
            or has parts, or there is an operation with files, a network or Python, or
            one that fills a table from a file that is no asset.
    """
    if not (folder / MODEL).is_file():
        raise InputError(DAMAGED.format(folder, f"no {MODEL}"))
    content = read_bytes(folder / MODEL, GRAPH, "Give a smaller model.")
    with explained(partial(DAMAGED.format, folder), DecodeError):
        model = saved_model_pb2.SavedModel.FromString(content)
    found: set[str] = set()
    for graph in model.meta_graphs:
        for asset in graph.asset_file_def:
            if Path(asset.filename).is_absolute() or ".." in Path(asset.filename).parts:
                raise InputError(
                    f"Every asset of `{folder}` must stay in its folder. Received: "
                    f"{asset.filename!r:.200}. {SUSPECT}"
                )
        assets = (it for it in graph.object_graph_def.nodes if it.HasField("asset"))
        if any(asset.children for asset in assets):  # which take the path's place
            raise InputError(
                f"An asset of `{folder}` must be one file. Received: an object with "
                f"others inside. {SUSPECT}"
            )
        operations = {node.op for node in _nodes(graph)}
        found.update(name for name in operations if OUTSIDE.fullmatch(name))
        found.update(_tables_of_other_files(graph))
    if outside := sorted(found.difference(allowed)):
        raise InputError(
            f"A SavedModel must only compute. Received: `{folder}` with operations "
            f"that reach files, a network or Python: {', '.join(outside)}. {REPAIR}"
        )


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield all operations but those that only a saver runs, which loading never asks.

    TensorFlow keeps with each model how to write and read its variables.
    """
    functions = {one.signature.name: one for one in graph.graph_def.library.function}
    nodes = list(graph.graph_def.node)
    objects = graph.object_graph_def
    if not objects.nodes:  # of TensorFlow 1: loading runs the graph itself
        yield from nodes
        for function in functions.values():
            yield from function.node_def
        return
    saver = graph.saver_def
    ends = {saver.restore_op_name, saver.save_tensor_name.partition(":")[0]}
    saving = {name for name, _ in _called(node for node in nodes if node.name in ends)}
    others = [node for node in nodes if node.name not in ends]
    for function in functions.values():
        others += function.node_def
    saving -= {name for name, _ in _called(others)} | set(objects.concrete_functions)
    for name, function in functions.items():
        if name not in saving:
            yield from function.node_def


def _called(nodes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the functions that operations call, by name, each with its operation."""
    for node in nodes:
        for value in node.attr.values():
            for call in (value.func, *value.list.func):
                if call.name:
                    yield call.name, node


def _tables_of_other_files(graph: Any) -> set[str]:
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
            for other, node in _called(function.node_def):
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
