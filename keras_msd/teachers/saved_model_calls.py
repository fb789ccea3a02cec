"""What a loaded SavedModel can be called with, and what it answers."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

Apply = Callable[[Any], Any]


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
        """Write the call as in `__call__(string[?]) -> float32[?, 512]`."""
        return f"{self.name}({_written(self.inputs)}) -> {_written(self.outputs)}"


def find_calls(model: Any) -> list[Call]:
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
    # Keras traces `__call__` once for training and once for inference.
    return list({str(call): call for call in calls}.values())


def _by_name(signature: Any, only: str | None, inputs: Any) -> Any:
    return signature(**(inputs if only is None else {only: inputs}))


def is_tensor(spec: Any, rank: int, *dtypes: tf.DType) -> bool:
    """Tell whether `spec` is of one tensor of `rank`, any batch and one of `dtypes`."""
    return (
        isinstance(spec, tf.TensorSpec | tf.Tensor)
        and spec.dtype in dtypes
        and (spec.shape.rank is None or spec.shape.as_list()[:1] == [None])
        and spec.shape.rank in (None, rank)
    )


def vectors_of(outputs: Any) -> Any:
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


def gives_vectors(call: Call) -> bool:
    """Tell whether a call gives float vectors `(n, dim)`."""
    floats = (tf.float32, tf.float16, tf.bfloat16, tf.float64)
    return is_tensor(vectors_of(call.outputs), 2, *floats)


def _written(structure: Any) -> str:
    if isinstance(structure, Mapping):
        pairs = (f"{name}: {_written(value)}" for name, value in structure.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(structure, list | tuple):
        return "[" + ", ".join(map(_written, structure)) + "]"
    if not isinstance(structure, tf.TensorSpec | tf.Tensor):
        return repr(structure)
    if structure.shape.rank is None:
        return f"{structure.dtype.name}[...]"
    sizes = ("?" if size is None else str(size) for size in structure.shape)
    return f"{structure.dtype.name}[{', '.join(sizes)}]"
