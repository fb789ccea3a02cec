"""What a SavedModel would do beside computing, found before it is loaded."""

import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.checks import InputError, explained
from keras_msd.files import read_bytes
from keras_msd.limits import GRAPH
from keras_msd.teachers.saved_model_folder import MODEL
from keras_msd.teachers.saved_model_tables import called, tables_of_other_files

# Operations of TensorFlow 2.21 that read or write files, use a network, call Python,
# or hold a graph of their own. Tables are also filled from files: `saved_model_tables`.
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
        found.update(tables_of_other_files(graph))
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
    saving = {name for name, _ in called(node for node in nodes if node.name in ends)}
    others = [node for node in nodes if node.name not in ends]
    for function in functions.values():
        others += function.node_def
    saving -= {name for name, _ in called(others)} | set(objects.concrete_functions)
    for name, function in functions.items():
        if name not in saving:
            yield from function.node_def
