"""Kernels of a .tflite model in fewer bits."""

from collections import Counter
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from keras_msd import checks
from keras_msd.export.litert.edit import TFLiteModel

LARGEST = {"int8": 127, "int4": 7}
BLOCK = 32  # inputs that share a scale; XNNPACK takes multiples of 32
SMALLEST = np.finfo(np.float16).smallest_subnormal
CLIPS = np.linspace(1.0, 0.7, 7, dtype=np.float32)


def quantize_kernels(model: TFLiteModel, kind: str) -> dict[str, int]:
    """Store the kernel of every fully connected operation as `kind`, in place.

    A kernel stays one tensor, however many operations use it. With whole numbers
    XNNPACK turns each row of activations into int8 while the model runs, and multiplies
    as whole numbers. Biases and all else stay as they are. The converter's own
    quantisation is not used: it also shortens the scales of a stored word table.

    Args:
        model: Has float32 kernels; is changed.
        kind: "float32" changes nothing; "float16" is expanded when the model is
            loaded; "int8" has a scale for each output; "int4" has one for every 32
            inputs of an output, and a kernel whose inputs are no multiple of 32 has
            8 bits.

    Returns:
        How many kernels are stored in each way.

    Raises:
        InputError: `kind` is "int4" and every kernel would have 8 bits.
    """
    checks.one_of(("float32", "float16", *LARGEST), kind=kind)
    stored: Counter[str] = Counter()
    for index in _kernels(model):
        tensor = model.graph.tensors[index]
        data = model.content.buffers[tensor.buffer].data.tobytes()
        kernel = np.frombuffer(data, np.float32).reshape(tensor.shape)
        own = "int8" if kind == "int4" and kernel.shape[1] % BLOCK else kind
        stored[own] += 1
        if own == "float16":
            _halve(model, index, kernel)
        elif own == "int4":
            _to_four_bits(model, tensor, kernel)
        elif own == "int8":
            _to_eight_bits(model, tensor, kernel)
    if kind == "int4" and stored["int8"] and not stored["int4"]:
        raise checks.InputError(
            "A LiteRT kernel in 4 bits needs a multiple of 32 inputs. Received: none "
            f"of {stored['int8']} kernels with one. Use quantize='int4_table', which "
            "is the same with such kernels."
        )
    return dict(stored)


def _kernels(model: TFLiteModel) -> list[int]:
    """Return the distinct constant tensors that are float32 kernels."""
    found: dict[int, None] = {}
    for operator in model.graph.operators:
        code = model.content.operatorCodes[operator.opcodeIndex].builtinCode
        if code == schema.BuiltinOperator.FULLY_CONNECTED:
            tensor = model.graph.tensors[operator.inputs[1]]
            constant = model.content.buffers[tensor.buffer].data is not None
            if constant and tensor.type == schema.TensorType.FLOAT32:
                found[int(operator.inputs[1])] = None
    return list(found)


def _halve(model: TFLiteModel, index: int, kernel: np.ndarray) -> None:
    """Store float16, and one operation that makes it float32 for all its users."""
    wide = _add_tensor(model, kernel.shape, schema.TensorType.FLOAT32)
    tensor = model.graph.tensors[index]
    _store(model, tensor, kernel.astype(np.float16), schema.TensorType.FLOAT16)
    users = [one for one in model.graph.operators if index in one.inputs]
    for operator in users:
        inputs = np.asarray(operator.inputs, np.int32)
        operator.inputs = np.where(inputs == index, np.int32(wide), inputs)
    codes = model.content.operatorCodes
    kind = schema.BuiltinOperator.DEQUANTIZE
    places = [place for place, code in enumerate(codes) if code.builtinCode == kind]
    if not places:
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = kind
        code.version = 3  # the first that takes float16
        codes.append(code)
        places = [len(codes) - 1]
    operator = schema.OperatorT()
    operator.opcodeIndex = places[0]
    operator.inputs, operator.outputs = [index], [wide]
    # Not at the start: XNNPACK would get a piece of its own there.
    model.graph.operators.insert(model.graph.operators.index(users[0]), operator)


def _to_eight_bits(model: TFLiteModel, tensor: Any, kernel: np.ndarray) -> None:
    scales = _scales(kernel, "int8")
    _store(model, tensor, _rounded(kernel, scales, "int8"), schema.TensorType.INT8)
    tensor.quantization = schema.QuantizationParametersT()
    tensor.quantization.scale = scales[:, 0]
    tensor.quantization.zeroPoint = np.zeros(len(kernel), np.int64)


def _to_four_bits(model: TFLiteModel, tensor: Any, kernel: np.ndarray) -> None:
    blocks = kernel.reshape(-1, BLOCK)
    scales = _clipped(blocks)
    numbers = _rounded(blocks, scales, "int4").reshape(-1, 2) & 15
    packed = numbers[:, 0] | numbers[:, 1] << 4
    _store(model, tensor, packed, schema.TensorType.INT4)
    scales = scales.reshape(len(kernel), -1).astype(np.float16)
    details = schema.BlockwiseQuantizationT()
    details.scales = _add_tensor(model, scales.shape, schema.TensorType.FLOAT16)
    details.zeroPoints, details.blockSize = -1, BLOCK
    model.content.buffers.append(schema.BufferT())
    stored = model.graph.tensors[details.scales]
    stored.buffer = len(model.content.buffers) - 1
    _store(model, stored, scales, schema.TensorType.FLOAT16)
    tensor.quantization = schema.QuantizationParametersT()
    tensor.quantization.details = details
    tensor.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization


def _add_tensor(model: TFLiteModel, shape: tuple[int, ...], kind: int) -> int:
    tensor = schema.TensorT()
    tensor.shape, tensor.type, tensor.hasRank = list(shape), kind, True
    model.graph.tensors.append(tensor)
    return len(model.graph.tensors) - 1


def _store(model: TFLiteModel, tensor: Any, values: np.ndarray, kind: int) -> None:
    data = np.frombuffer(values.tobytes(), np.uint8)
    model.content.buffers[tensor.buffer].data = data
    tensor.type = kind


def _scales(rows: np.ndarray, kind: str) -> np.ndarray:
    """Return a scale for each row, `(n, 1)`, with which its largest number fits."""
    scales = np.abs(rows).max(axis=1, keepdims=True) / LARGEST[kind]
    return np.where(scales > 0, scales, np.float32(1)).astype(np.float32)


def _clipped(rows: np.ndarray) -> np.ndarray:
    """Return, for each row, the float16 scale of least squared error among a few."""
    full = _scales(rows, "int4")
    best, least = full, np.full(full.shape, np.inf, np.float32)
    for clip in CLIPS:
        tried = np.maximum(full * clip, SMALLEST).astype(np.float16).astype(np.float32)
        error = np.square(_rounded(rows, tried, "int4") * tried - rows)
        error = error.sum(axis=1, keepdims=True)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return best


def _rounded(rows: np.ndarray, scales: np.ndarray, kind: str) -> np.ndarray:
    numbers = np.rint(rows / scales)
    return np.clip(numbers, -LARGEST[kind], LARGEST[kind]).astype(np.int8)
