"""SavedModels that others published, as functions from sentences to vectors.

A SavedModel is a program: loading and calling it runs what its author put there, with
your rights. Load only one from a source that you trust.
"""

import inspect
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.arrays import by_length, pad_batch
from keras_msd.checks import InputError, explained
from keras_msd.files import read_bytes
from keras_msd.limits import GRAPH
from keras_msd.teachers.teacher import MODEL, SavedModelFolder
from keras_msd.teachers.vectors import checked
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.graph import tensorflow_text
from keras_msd.tokenizers.tokenizer_json import WordPieceTokenizer

Apply = Callable[[Any], Any]
BATCH = 64  # sentences in one call
IDS = ("input_word_ids", "input_mask", "input_type_ids")
LENGTH = 128  # tokens, as LaBSE's preprocessor packs them
SHAPES = (
    "a string tensor (n,) to vectors (n, dim), as LEALLA and the Universal Sentence "
    "Encoder do; or be `preprocessor` and `encoder` in one folder, from strings to "
    "tensors by name and from these to `default` or `pooled_output`, as LaBSE 2; or "
    f"map {', '.join(IDS)} to vectors and hold `vocab_file`, as LaBSE 1"
)


class Call(NamedTuple):
    """A way to call a SavedModel.

    Attributes:
        name: "__call__", or the name of a signature.
        apply: Takes tensors in the structure of `inputs`, gives that of `outputs`.
        inputs: A `tf.TensorSpec`, or a table or list of them.
        outputs: The same of what comes out.
    """

    name: str
    apply: Apply
    inputs: Any
    outputs: Any

    def __str__(self) -> str:
        """Write the call with the shapes of inputs and outputs."""
        return f"{self.name}({self.inputs}) -> {self.outputs}"


def load_saved_model(
    folder: SavedModelFolder, allow_operations: Collection[str] = ()
) -> Callable[[list[str]], np.ndarray]:
    """Load a published SavedModel with `tf.saved_model.load`.

    Three shapes are read, of `__call__` or else of the signature `serving_default`:

    - Text: string `(n,)` to float `(n, dim)`. LEALLA 1, Universal Sentence Encoder 3
      and 4, the multilingual ones 2 and 3, and what `export` writes.
    - Preprocessor and encoder, two SavedModels. The first maps string `(n,)` to tensors
      by name (LaBSE's: `input_word_ids`, `input_mask`, `input_type_ids`, each int32
      `(n, 128)`), the second maps these to outputs by name, among them `default` or
      `pooled_output`, float `(n, dim)`. LaBSE 2 and its preprocessor
      universal-sentence-encoder-cmlm/multilingual-preprocess; every text encoder with
      TensorFlow Hub's interface of two steps.
    - Ids: the same three tensors int `(n, length)`, by name or in this order, to such
      outputs or to a list that starts with the vectors. The model holds `vocab_file`, a
      WordPiece vocabulary, and `do_lower_case`; tokens are made here, at most 128 of a
      sentence, start and end included. LaBSE 1.

    Models in TensorFlow Hub's format for TensorFlow 1 are not read. Vectors are as the
    model gives them: scaling those of LaBSE 2 to length one is left to the caller.

    Args:
        folder: Where its parts lie.
        allow_operations: Names of operations with files, a network or Python that it
            may hold; any other is refused before it is loaded.

    Returns:
        A function from sentences to float32 `(n, dim)`.

    Raises:
        InputError: It cannot be loaded, holds an operation that is not allowed, or has
            none of these shapes; the message lists the calls that were found.

    Source: www.tensorflow.org/hub/common_saved_model_apis/text and the models' pages.
    """
    # It registers the operations of tokenizers, such as that of multilingual USE.
    tensorflow_text("A SavedModel")
    models = {
        path: _load(path, allow_operations) for path in folder if path is not None
    }
    calls = {path: _find_calls(model) for path, model in models.items()}
    after = _usable(calls[folder.encoder])
    if folder.preprocessor is None:
        apply = _from_text(after) or _from_ids(after, models[folder.encoder])
    else:
        apply = _in_two_steps(_usable(calls[folder.preprocessor]), after)
    if apply is None:
        listed = (
            f"`{path}` with {'; '.join(map(str, ways)) or 'nothing to call'}"
            for path, ways in calls.items()
        )
        raise InputError(
            f"A SavedModel must map {SHAPES}. Received: {', '.join(listed)}. Give its "
            "encode function as a callable teacher instead."
        )
    # The models own the variables that are read: they must live as long as the result.
    return partial(_in_batches, apply, str(folder.encoder), tuple(models.values()))


def _load(folder: Path, allowed: Collection[str]) -> Any:
    check_operations(folder, allowed)
    try:
        return tf.saved_model.load(str(folder))
    # TensorFlow promises no kind of error for a damaged file.
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise InputError(DAMAGED.format(folder, said)) from error


def _usable(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.name in ("__call__", "serving_default")]


def _takes_text(call: Call) -> bool:
    return _is_tensor(call.inputs, 1, tf.string)


def _from_text(calls: list[Call]) -> Apply | None:
    for call in calls:
        if _takes_text(call) and _gives_vectors(call):
            apply = call.apply
            return lambda texts: apply(tf.constant(texts))
    return None


def _in_two_steps(before: list[Call], after: list[Call]) -> Apply | None:
    for first in filter(_takes_text, before):
        for second in filter(_gives_vectors, after):
            between = (first.outputs, second.inputs)
            if (
                all(isinstance(tensors, Mapping) for tensors in between)
                and first.outputs.keys() == second.inputs.keys()
            ):
                apply, then = first.apply, second.apply
                return lambda texts: then(apply(tf.constant(texts)))
    return None


def _from_ids(calls: list[Call], model: Any) -> Apply | None:
    vocabulary = getattr(model, "vocab_file", None)
    # Anything else that has a path could name any file.
    if not isinstance(vocabulary, tf.saved_model.Asset):
        return None
    if not hasattr(model, "do_lower_case"):
        return None
    for call in filter(_gives_vectors, calls):
        specs = call.inputs
        if isinstance(specs, Mapping) and set(specs) == set(IDS):
            specs = [specs[name] for name in IDS]
        if (
            isinstance(specs, list | tuple)
            and len(specs) == len(IDS)
            and all(_is_tensor(spec, 2, tf.int32, tf.int64) for spec in specs)
        ):
            tokenizer = WordPieceTokenizer.from_file(
                Path(os.fsdecode(vocabulary.asset_path.numpy())),
                {"do_lower_case": bool(model.do_lower_case.numpy())},
            )
            return partial(_tokenized, tokenizer, call, specs[0])
    return None


def _tokenized(tokenizer: Tokenizer, call: Call, spec: Any, texts: list[str]) -> Any:
    fixed = None if spec.shape.rank is None else spec.shape[1]
    longest = fixed or LENGTH
    batch = pad_batch(
        tokenizer.encode(texts, longest),
        tokenizer.pad_id,
        longest=longest,
        multiple=fixed or 8,
    )
    ids, mask = batch["token_ids"], batch["padding_mask"]
    arrays = (ids, mask, np.zeros_like(ids))
    tensors = [tf.constant(array, spec.dtype) for array in arrays]
    if isinstance(call.inputs, Mapping):
        return call.apply(dict(zip(IDS, tensors, strict=True)))
    return call.apply(type(call.inputs)(tensors))


def _in_batches(
    apply: Apply, name: str, _models: tuple[Any, ...], texts: list[str]
) -> np.ndarray:
    vectors: dict[int, np.ndarray] = {}
    if not texts:  # the width of a vector is known from one
        return _in_batches(apply, name, _models, ["a"])[:0]
    for rows in by_length(texts, BATCH):
        batch = [texts[row] for row in rows]
        found = checked(name, _vectors_of(apply(batch)), batch)
        vectors |= zip(rows, found, strict=True)
    return np.stack([vectors[row] for row in range(len(texts))])


def _find_calls(model: Any) -> list[Call]:
    """Return every way to call a model: `__call__` in inference, then signatures."""
    calls = []
    if callable(model):
        function = model.__call__
        named = inspect.signature(function).parameters
        options = {"training": False} if "training" in named else {}
        apply = partial(function, **options)
        for trace in getattr(function, "concrete_functions", ()):
            given, _ = trace.structured_input_signature
            if given:
                outputs = trace.structured_outputs
                calls.append(Call("__call__", apply, given[0], outputs))
    for name, signature in getattr(model, "signatures", {}).items():
        _, inputs = signature.structured_input_signature
        keys = list(inputs)
        only = keys[0] if len(keys) == 1 else None
        apply = partial(_by_name, signature, only)
        inputs = inputs if only is None else inputs[only]
        calls.append(Call(name, apply, inputs, signature.structured_outputs))
    return calls


def _by_name(signature: Any, only: str | None, inputs: Any) -> Any:
    return signature(**(inputs if only is None else {only: inputs}))


def _is_tensor(spec: Any, rank: int, *dtypes: tf.DType) -> bool:
    """Tell whether `spec` is of one tensor of `rank`, any batch and one of `dtypes`."""
    return (
        isinstance(spec, tf.TensorSpec | tf.Tensor)
        and spec.dtype in dtypes
        and (spec.shape.rank is None or spec.shape.as_list()[:1] == [None])
        and spec.shape.rank in (None, rank)
    )


def _vectors_of(outputs: Any) -> Any:
    """Return the sentence vectors among what a model gives, or None.

    In a table they are `default`, or else `pooled_output`, or else the only entry; in a
    list they come first.
    """
    if isinstance(outputs, Mapping):
        for name in ("default", "pooled_output"):
            if name in outputs:
                return outputs[name]
        return next(iter(outputs.values())) if len(outputs) == 1 else None
    if isinstance(outputs, list | tuple):
        return outputs[0] if outputs else None
    return outputs


def _gives_vectors(call: Call) -> bool:
    """Tell whether a call gives float vectors `(n, dim)`."""
    floats = (tf.float32, tf.float16, tf.bfloat16, tf.float64)
    return _is_tensor(_vectors_of(call.outputs), 2, *floats)


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
