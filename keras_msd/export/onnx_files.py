"""Loads the ONNX files that `onnx.py` writes."""

import functools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.arrays import pad_batch
from keras_msd.checks import (
    InputError,
    at_least,
    existing_file,
    existing_folder,
    explained,
    require,
    sentences,
)
from keras_msd.export.formats import Run
from keras_msd.export.portable import TokenRun, load_portable
from keras_msd.light import usable_processors

FILE = "model.onnx"
EXTRA = "onnx"
PURPOSE = "The ONNX format"
OPSET = 23  # the first with an attention operator; onnxruntime has it since 1.23
ANEW = "Take a whole copy, or export the encoder again."
ERRORS_ONLY = 3
LIBRARY = "onnxruntime_extensions._extensions_pydll"
TENSORFLOW = "tensorflow"
IDS, TEXT, OUTPUT = ("token_ids", "padding_mask"), "text", "embedding"
TOKENIZER = "tokenizer"  # metadata: the portable description of the tokenizer


def require_onnx() -> None:
    """Raise `InputError` unless what writes and runs ONNX files is installed."""
    for package in ("onnx", "onnxruntime"):
        require(package, EXTRA, PURPOSE)


def load_ids(path: str | Path, threads: int | None = None) -> Run:
    """Load `model.onnx` as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write_ids` wrote.
        threads: How many threads onnxruntime may use; by default one for each usable
            processor.

    Raises:
        InputError: The file is missing, damaged or another model, or onnxruntime is
            not installed.
    """
    session = open_session(path, IDS, threads)
    foreign = f"The metadata of `{Path(path) / FILE}` must be UTF-8. Export it again."
    with explained(foreign, UnicodeDecodeError):
        metadata = session.get_modelmeta().custom_metadata_map
    if TOKENIZER not in metadata:
        raise InputError(
            f"`{Path(path) / FILE}` must carry its tokenizer as the metadata "
            f"{TOKENIZER!r} and does not. Export the encoder again."
        )
    tokenizer = load_portable(metadata[TOKENIZER].encode(), f"`{Path(path) / FILE}`")

    def embed(rows: list[list[int]]) -> np.ndarray:
        batch = pad_batch(rows, tokenizer.pad_id, tokenizer.max_length, multiple=1)
        return session.run([OUTPUT], batch)[0]

    return TokenRun(tokenizer, embed)


def load_text(path: str | Path, threads: int | None = None) -> Run:
    """Load what `write_text` wrote; arguments and errors as for `load_ids`."""
    session = open_session(path, (TEXT,), threads, extensions=True)

    def run(texts: list[str]) -> np.ndarray:
        # The operator ends a text at NUL. Like it, the replacement is in no vocabulary.
        whole = [text.replace("\0", "\uffff") for text in sentences(texts)]
        return session.run([OUTPUT], {TEXT: np.array(whole, object)})[0]

    return run


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
        threads: As in `load_ids`.
        extensions: Whether the model has operators of onnxruntime-extensions.
        outputs: Names of what it must give.
        name: The file's.

    Returns:
        An `onnxruntime.InferenceSession`.

    Raises:
        InputError: The file is missing or another kind of model, or a package is not
            installed.
    """
    require("onnxruntime", EXTRA, PURPOSE)
    if extensions:
        load_extensions()
    path = existing_folder(folder, "artefact") / name
    content = existing_file(path, "model").read_bytes()
    check_self_contained(content, path)
    at_least(1, threads=threads)
    # onnxruntime has no common class of errors.
    with explained(
        lambda error: f"onnxruntime cannot load `{path}`: {error}. {ANEW}", Exception
    ):
        session = new_session(content, threads, extensions)
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
    runtime = require("onnxruntime", EXTRA, PURPOSE)
    runtime.disable_telemetry_events()  # the wheel of 1.31 can send usage data
    options = runtime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = threads or usable_processors()
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
        return require(
            "onnxruntime_extensions", EXTRA, "An ONNX file with its tokenizer inside"
        )
    finally:
        sys.setdlopenflags(flags)


def check_self_contained(content: bytes, path: Path) -> None:
    """Refuse a model that refers to weights in other files.

    onnxruntime opens these, some versions of it wherever they are. What we export keeps
    all in one file.

    Args:
        content: The model.
        path: Where it comes from, for messages.

    Raises:
        InputError: It says so, or is no protocol buffer; onnx is not installed.
    """
    onnx = require("onnx", EXTRA, PURPOSE)
    with explained(f"`{path}` is no whole ONNX model. {ANEW}", Exception):
        model = onnx.load_model_from_string(content)
    for tensor in _tensors(model):
        if tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise InputError(
                f"`{path}` must hold all its weights. Received: a tensor whose numbers "
                "are in another file, which the model names. Export the encoder again, "
                "or take a model of one file."
            )


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor in a protocol buffer, in graphs, branches and functions."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if hasattr(value, "__len__") else [value]:
                yield from _tensors(inner)
