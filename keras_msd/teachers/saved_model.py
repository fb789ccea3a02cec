"""SavedModels that others published, as functions from sentences to vectors.

A SavedModel is a program: loading and calling it runs what its author put there, with
your rights. Load only one from a source that you trust.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_msd.arrays import by_length
from keras_msd.checks import InputError, explained
from keras_msd.io.files import GRAPH, read_bytes, read_toml
from keras_msd.runtimes import begin
from keras_msd.teachers.teacher import MODEL, checked
from keras_msd.tokenizers.graph import tensorflow_text

BATCH = 64  # sentences in one call
FLOATS = (tf.float32, tf.float16, tf.bfloat16, tf.float64)


class Call(NamedTuple):
    """A way to call a SavedModel.

    Attributes:
        name: "__call__", or the name of a signature.
        apply: From a tensor to what `outputs` describes.
        inputs: A `tf.TensorSpec`, or a table or list of them.
        outputs: A `tf.TensorSpec`, or a table of them.
    """

    name: str
    apply: Callable[[Any], Any]
    inputs: Any
    outputs: Any

    def __str__(self) -> str:
        """Write the call with the shapes of inputs and outputs."""
        return f"{self.name}({self.inputs}) -> {self.outputs}"


def load_saved_model(
    folder: Path, allow_operations: Collection[str] = ()
) -> Callable[[list[str]], np.ndarray]:
    """Load a published SavedModel with `tf.saved_model.load`.

    Its `__call__`, or else its signature `serving_default`, maps text, string `(n,)`,
    to vectors, float `(n, dim)`; or to a table of tensors with the vectors under
    `default` or `pooled_output`, or alone. So do LEALLA 1, Universal Sentence Encoder 3
    and 4, the multilingual ones 2 and 3, and what `export` writes. Models in TensorFlow
    Hub's format for TensorFlow 1 are not read.

    Args:
        folder: Holds `saved_model.pb`.
        allow_operations: Names of operations with files, a network or Python that it
            may hold; any other is refused before it is loaded.

    Returns:
        A function from sentences to float32 `(n, dim)`, as the model gives them.

    Raises:
        InputError: It cannot be loaded, holds an operation that is not allowed, or maps
            no text to vectors; the message lists the calls that were found.

    Source: www.tensorflow.org/hub/common_saved_model_apis/text and the models' pages.
    """
    begin("tensorflow")
    # It registers the operations of tokenizers, such as that of multilingual USE.
    tensorflow_text("A SavedModel")
    check_operations(folder, allow_operations)
    try:
        model = tf.saved_model.load(str(folder))
    # TensorFlow promises no kind of error for a damaged file.
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise InputError(DAMAGED.format(folder, cause)) from error
    calls = _find_calls(model)
    for call in calls:
        if (
            call.name in ("__call__", "serving_default")
            and _is_tensor(call.inputs, 1, tf.string)
            and _is_tensor(_vectors_of(call.outputs), 2, *FLOATS)
        ):
            # The model owns the variables that are read: it must live as long.
            return partial(_in_batches, call.apply, str(folder), model)
    listed = "; ".join(map(str, calls)) or "nothing to call"
    raise InputError(
        "A SavedModel must map a string tensor (n,) to vectors (n, dim), as LEALLA and "
        f"the Universal Sentence Encoder do. Received: `{folder}` with {listed}. Give "
        "its encode function as a callable teacher instead."
    )


def _in_batches(
    apply: Callable[[Any], Any], name: str, _model: Any, texts: list[str]
) -> np.ndarray:
    begin("tensorflow")
    if not texts:  # the width of a vector is known from one
        return _in_batches(apply, name, _model, ["a"])[:0]
    vectors: dict[int, np.ndarray] = {}
    for rows in by_length(texts, BATCH):
        batch = [texts[row] for row in rows]
        found = checked(name, _vectors_of(apply(tf.constant(batch))), batch)
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
        key = next(iter(inputs), "")
        apply = partial(_by_name, signature, key)
        inputs = inputs[key] if len(inputs) == 1 else inputs
        calls.append(Call(name, apply, inputs, signature.structured_outputs))
    return calls


def _by_name(signature: Any, key: str, tensor: tf.Tensor) -> Any:
    return signature(**{key: tensor})


def _is_tensor(spec: Any, rank: int, *dtypes: tf.DType) -> bool:
    """Tell whether `spec` is of one tensor of `rank`, any batch and one of `dtypes`."""
    return (
        isinstance(spec, tf.TensorSpec | tf.Tensor)
        and spec.dtype in dtypes
        and (spec.shape.rank is None or spec.shape.as_list()[:1] == [None])
        and spec.shape.rank in (None, rank)
    )


def _vectors_of(outputs: Any) -> Any:
    """Return the sentence vectors among what a model gives, or None."""
    if not isinstance(outputs, Mapping):
        return outputs
    for name in ("default", "pooled_output"):
        if name in outputs:
            return outputs[name]
    return next(iter(outputs.values())) if len(outputs) == 1 else None


_OPERATIONS = read_toml(Path(__file__).with_name("operations.toml"))
OUTSIDE = re.compile("|".join(_OPERATIONS["outside"]))
DAMAGED = (
    "`{}` must be a whole SavedModel of TensorFlow 2. Received: {}. Take a whole copy, "
    "or export it again."
)
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
        InputError: The file is damaged or too large, or there is an operation with
            files, a network or Python.
    """
    if not (folder / MODEL).is_file():
        raise InputError(DAMAGED.format(folder, f"no {MODEL}"))
    content = read_bytes(folder / MODEL, GRAPH, "Give a smaller model.")
    with explained(partial(DAMAGED.format, folder), DecodeError):
        model = saved_model_pb2.SavedModel.FromString(content)
    names = {node.op for graph in model.meta_graphs for node in _nodes(graph)}
    outside = {name for name in names if OUTSIDE.fullmatch(name)}.difference(allowed)
    if outside:
        raise InputError(
            f"A SavedModel must only compute. Received: `{folder}` with operations "
            f"that reach files, a network or Python: {', '.join(sorted(outside))}. "
            f"{REPAIR}"
        )


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield all operations but those that only a saver runs, which loading never asks.

    TensorFlow keeps with each model how to write and read its variables.
    """
    functions = {one.signature.name: one for one in graph.graph_def.library.function}
    nodes = list(graph.graph_def.node)
    inner = [node for function in functions.values() for node in function.node_def]
    if not graph.object_graph_def.nodes:  # of TensorFlow 1: loading runs them all
        yield from nodes + inner
        return
    saver = graph.saver_def
    ends = {saver.restore_op_name, saver.save_tensor_name.partition(":")[0]}
    saving = set(_called(node for node in nodes if node.name in ends))
    saving -= set(_called(node for node in nodes if node.name not in ends))
    saving -= {*_called(inner), *graph.object_graph_def.concrete_functions}
    for name, function in functions.items():
        if name not in saving:
            yield from function.node_def


def _called(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the functions that operations call."""
    for node in nodes:
        for value in node.attr.values():
            yield from (call.name for call in (value.func, *value.list.func))
