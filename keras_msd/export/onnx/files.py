"""ONNX files: written, and opened in onnxruntime."""

import functools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd import checks
from keras_msd.checks import InputError, existing_folder

if TYPE_CHECKING:
    import onnx

FILE = "model.onnx"
EXTRA = "onnx"
PURPOSE = "The ONNX format"
# Versions of ONNX's operators that we can write, and the first onnxruntime to run each:
# https://onnxruntime.ai/docs/reference/compatibility.html
RUNTIMES = {
    13: "1.6",
    14: "1.8",
    15: "1.9",
    16: "1.11",
    17: "1.12",
    18: "1.14",
    23: "1.23",
}
OPSET = 23  # of our own writer: the first with an attention operator
LARGEST = 2**31 - 1  # bytes in a protocol buffer
ERRORS_ONLY = 3
LIBRARY = "onnxruntime_extensions._extensions_pydll"
TENSORFLOW = "tensorflow"


def save(model: "onnx.ModelProto", folder: Path, name: str = FILE) -> None:
    """Check a model and write it as a file; the same model gives the same bytes.

    Raises:
        InputError: It is larger than an ONNX file may be.
    """
    content = serialized(model)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def serialized(model: "onnx.ModelProto") -> bytes:
    """Check a model and return its bytes; the same model gives the same ones.

    Raises:
        InputError: It is larger than an ONNX file may be.
    """
    import onnx

    check_size(sum(len(tensor.raw_data) for tensor in model.graph.initializer))
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def check_size(size: int) -> None:
    """Raise `InputError` unless weights of `size` bytes fit into an ONNX file."""
    if size > LARGEST:
        raise InputError(
            f"An ONNX file must be smaller than {LARGEST} bytes. Received: weights of "
            f"{size} bytes. Give quantize='fp16' or 'int8', or trim the vocabulary."
        )


def open_session(
    folder: str | Path,
    inputs: Iterable[str],
    threads: int | None = None,
    extensions: bool = False,
    outputs: Sequence[str] = ("embedding",),
    name: str = FILE,
) -> Any:
    """Open an ONNX file in a folder, whose checksum `read_card` has compared.

    Args:
        folder: Holds the file.
        inputs: Names of what the model must take.
        threads: How many threads onnxruntime may use; by default its own choice.
        extensions: Whether the model has operators of onnxruntime-extensions.
        outputs: Names of what it must give.
        name: The file's.

    Returns:
        An `onnxruntime.InferenceSession`.

    Raises:
        InputError: The file is missing or another kind of model, or a package is not
            installed.
    """
    checks.require("onnxruntime", EXTRA, PURPOSE)
    if extensions:
        load_extensions()
    path = existing_folder(folder, "artefact") / name
    content = checks.existing_file(path, "model").read_bytes()
    check_self_contained(content, path)
    checks.at_least(1, threads=threads)
    try:
        session = new_session(content, threads, extensions)
    except Exception as error:  # onnxruntime has no common class of errors
        raise InputError(
            f"`{path}` is not a model that onnxruntime can load: {error}. Take a whole "
            "copy, or export the encoder again."
        ) from error
    names = {value.name for value in session.get_inputs()}
    given = [value.name for value in session.get_outputs()]
    if names != set(inputs) or given != list(outputs):
        raise InputError(
            f"`{path}` must take {', '.join(sorted(inputs))} and give "
            f"{', '.join(outputs)}. Received: {', '.join(sorted(names))} and "
            f"{', '.join(given)}. Give the file of an exported encoder."
        )
    return session


def new_session(
    content: bytes, threads: int | None = None, extensions: bool = False
) -> Any:
    """Return an `onnxruntime.InferenceSession`; arguments as in `open_session`."""
    runtime = checks.require("onnxruntime", EXTRA, PURPOSE)
    runtime.disable_telemetry_events()  # the wheel of 1.31 can send usage data
    options = runtime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    if threads is not None:
        options.intra_op_num_threads = options.inter_op_num_threads = threads
    if extensions:
        options.register_custom_ops_library(load_extensions().get_library_path())
    return runtime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )


@functools.cache
def load_extensions() -> Any:
    """Import onnxruntime-extensions so that TensorFlow cannot disturb it.

    Both carry protocol buffers and SentencePiece. Imported second in the ordinary way,
    the library calls TensorFlow's copies, and the process dies when a tokenizer is
    made; bound to its own symbols it works.

    Raises:
        InputError: It is not installed, or somebody has imported it after TensorFlow.
    """
    order = list(sys.modules)
    both = LIBRARY in order and TENSORFLOW in order
    if both and order.index(TENSORFLOW) < order.index(LIBRARY):
        raise InputError(
            "onnxruntime_extensions was imported after tensorflow, and its tokenizers "
            "would end the process. Import it first, or leave the import to keras_msd."
        )
    flags = sys.getdlopenflags()
    # Where the flag is missing (macOS), libraries bind to their own symbols anyway.
    sys.setdlopenflags(flags | getattr(os, "RTLD_DEEPBIND", 0))
    try:
        return checks.require(
            "onnxruntime_extensions", EXTRA, "An ONNX file with its tokenizer inside"
        )
    finally:
        sys.setdlopenflags(flags)


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
