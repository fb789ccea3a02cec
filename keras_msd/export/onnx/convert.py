"""Keras networks as ONNX by tf2onnx: for old runtimes, and networks of any form.

The writer of `network` has fewer and faster operators, but one opset and one form of
network. tf2onnx converts whatever Keras runs on TensorFlow.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from keras_msd.checks import InputError, one_of, require
from keras_msd.export.network import check_backend
from keras_msd.export.onnx.files import EXTRA, OPSET, RUNTIMES, check_size, serialized
from keras_msd.files import atomic_path

if TYPE_CHECKING:
    import onnx


def convert_network(network: keras.Model, path: str | Path, opset: int = 15) -> Path:
    """Write a functional Keras network as an ONNX file.

    For networks that are no encoder of ours, such as one that a `Stage` trained; an
    encoder is better served by `Encoder.export`, which proves what it writes. Inputs
    and outputs keep names, types and known sizes; a size that is None may be anything.
    Without loops in it, the same network gives the same bytes.

    Args:
        network: A functional `keras.Model`, run as in inference.
        path: The file to write, such as "network.onnx".
        opset: Version of ONNX's operators, from 13 to 18.

    Returns:
        `path`.

    Raises:
        InputError: `opset` is none of them, the network is not functional or has an
            operation that ONNX lacks, Keras runs on another backend than TensorFlow,
            the file would be over 2 GiB, or a package is not installed.

    Example:
        >>> import keras
        >>> x = keras.Input((3,), name="x")
        >>> network = keras.Model(x, keras.layers.Dense(2, name="y")(x))
        >>> path = msd.export.onnx.convert_network(network, "network.onnx", opset=17)
        >>> import onnxruntime
        >>> session = onnxruntime.InferenceSession(path)
        >>> session.run(["y"], {"x": np.ones((4, 3), np.float32)})[0].shape
        (4, 2)
    """
    model = converted(network, opset)
    with atomic_path(path) as temporary:
        temporary.write_bytes(serialized(model))
    return Path(path)


def converted(
    network: keras.Model,
    opset: int,
    outputs: Sequence[str] | None = None,
    axes: Sequence[str] | None = None,
) -> "onnx.ModelProto":
    """Return a network as an ONNX model.

    Args:
        network: A functional `keras.Model`.
        opset: From 13 to 18.
        outputs: Names of the outputs; by default those of the network.
        axes: Names of the axes of any size, which are then the same for all inputs; by
            default "batch" for the first and one of its own for each other.

    Raises:
        InputError: See `convert_network`.
    """
    one_of([known for known in RUNTIMES if known < OPSET], opset=opset)
    for package in ("onnx", "tf2onnx"):
        require(package, EXTRA, f"ONNX at opset {opset}")
    check_backend(f"ONNX at opset {opset}")
    if not (hasattr(network, "inputs") and hasattr(network, "output")):
        raise InputError(
            "`network` must be a functional Keras model, whose inputs are known. "
            f"Received: {type(network).__name__}. Make it by `keras.Model(inputs, "
            "outputs)`; that of an encoder is `encoder.model`."
        )
    import tensorflow as tf
    import tf2onnx

    values = [weight.value for weight in network.weights]
    check_size(sum(v.shape.num_elements() * v.dtype.size for v in values))
    names = list(outputs or _output_names(network))
    specs = {x.name: tf.TensorSpec(x.shape, x.dtype, x.name) for x in network.inputs}

    @tf.function(input_signature=list(specs.values()), autograph=False)
    def run(*tensors: Any) -> dict[str, Any]:
        given = dict(zip(specs, tensors, strict=True))
        fed = keras.tree.map_structure(lambda x: given[x.name], network.input)
        results = keras.tree.flatten(network(fed, training=False))
        return dict(zip(names, results, strict=True))

    model, _ = tf2onnx.convert.from_function(run, list(specs.values()), opset)
    _check_operators(model)
    for value in (*model.graph.input, *model.graph.output):
        _name_axes(value, axes)
    for values, order in ((model.graph.input, specs), (model.graph.output, names)):
        place = {name: number for number, name in enumerate(order)}
        values.sort(key=lambda value: place[value.name])
    return model


def _output_names(network: keras.Model) -> Sequence[str]:
    """Return the keys of a dict of outputs, else the layers that they come from."""
    if isinstance(network.output, dict):
        return keras.tree.flatten({key: key for key in network.output})
    names = network.output_names
    if len(set(names)) == len(names):
        return names
    return [f"{name}_{index}" for index, name in enumerate(names)]


def _check_operators(model: "onnx.ModelProto") -> None:
    """Raise `InputError` where tf2onnx left an operation of TensorFlow's."""
    from onnx import defs

    nodes = {(node.op_type, node.domain) for node in model.graph.node}
    if foreign := sorted(name for name, domain in nodes if not defs.has(name, domain)):
        raise InputError(
            "Every operation of the network must have a form in ONNX. Received: "
            f"{', '.join(foreign)}. Write it with other `keras.ops`."
        )


def _name_axes(value: "onnx.ValueInfoProto", axes: Sequence[str] | None) -> None:
    for index, size in enumerate(value.type.tensor_type.shape.dim):
        if not size.HasField("dim_value"):
            alone = f"{value.name}_{index}" if index else "batch"
            size.dim_param = axes[index] if axes else alone
