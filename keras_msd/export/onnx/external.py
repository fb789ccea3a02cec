"""Detect ONNX files whose weights are stored in other files."""

from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError

# Fields of the messages of onnx.proto that lead to tensors, and to what message.
TENSOR = "TensorProto"
FIELDS = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "GraphProto": {1: "NodeProto", 5: TENSOR, 15: "SparseTensorProto"},
    "SparseTensorProto": {1: TENSOR, 2: TENSOR},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        **{5: TENSOR, 6: "GraphProto", 10: TENSOR, 11: "GraphProto"},
        **{22: "SparseTensorProto", 23: "SparseTensorProto"},
    },
}
ELSEWHERE = 13, 14  # of TensorProto: external_data, data_location
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5  # how a field is written
FIXED = {EIGHT: 8, FOUR: 4}
BITS = 64  # of a number; one that goes on for ever ends there


def check_self_contained(content: bytes, path: Path) -> None:
    """Refuse a model that refers to weights in other files.

    onnxruntime opens these, some versions of it wherever they are. What we export keeps
    all in one file. No package is needed for the look.

    Args:
        content: The model.
        path: Where it comes from, for messages.

    Raises:
        InputError: It says so, or is no protocol buffer.

    Source: onnx.proto of ONNX 1.23; Protocol Buffers, "Encoding".
    """
    pending = [("ModelProto", memoryview(content))]
    try:
        while pending:
            message, data = pending.pop()
            for number, value in _fields(data):
                if message == TENSOR:
                    if number in ELSEWHERE:
                        raise InputError(
                            f"`{path}` must hold all its weights. Received: a tensor "
                            "whose numbers are in another file, which the model names. "
                            "Export the encoder again, or take a model of one file."
                        )
                elif inner := FIELDS[message].get(number):
                    pending.append((inner, value))
    except IndexError as error:
        raise InputError(
            f"`{path}` is no whole ONNX model. Take a whole copy, or export the "
            "encoder again."
        ) from error


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of each field; `IndexError` where it is no message."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind, size = tag & 7, FIXED.get(tag & 7, 0)
        if kind in (VARINT, LENGTH):
            value, place = _varint(data, place)
            size = value if kind == LENGTH else 0
        elif kind not in FIXED:
            raise IndexError(f"a field of kind {kind}")
        if place + size > len(data):
            raise IndexError(f"a field up to byte {place + size}")
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """Return the number that is written at a place, and the place behind it."""
    value = shift = 0
    while data[place] & 128 and shift < BITS:
        value |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
    return value | data[place] << shift, place + 1
