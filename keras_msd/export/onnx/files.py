"""ONNX files: written with a checksum at their end, opened in onnxruntime."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd import checks
from keras_msd.checks import InputError, existing_folder
from keras_msd.export.onnx.extensions import load_extensions

if TYPE_CHECKING:
    import onnx

FILE = "model.onnx"
EXTRA = "onnx"
LARGEST = 2**31 - 1  # bytes in a protocol buffer
# A metadata entry `sha256` as ONNX spells it: the last field of the file, over all that
# stands before it. Whoever opens the file can check it without a parser.
SEAL = b"\x72\x4a\x0a\x06sha256\x12\x40"
ERRORS_ONLY = 3


def require_onnx() -> None:
    """Raise `InputError` unless what writes and runs ONNX files is installed."""
    for module in ("onnx", "onnxruntime"):
        checks.require(module, EXTRA, "The ONNX format")


def save(model: "onnx.ModelProto", folder: Path) -> None:
    """Check a model and write it as `model.onnx`; the same model gives the same bytes.

    Raises:
        InputError: It is larger than an ONNX file may be.
    """
    import onnx

    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size > LARGEST:
        raise InputError(
            f"An ONNX file must be smaller than {LARGEST} bytes. Received: weights of "
            f"{size} bytes. Give quantize='fp16' or 'int8', or trim the vocabulary."
        )
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString(deterministic=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_bytes(content + seal(content))


def seal(content: bytes) -> bytes:
    """Return what stands at the end of a file after `content`."""
    return SEAL + hashlib.sha256(content).hexdigest().encode()


def read_sealed(path: Path) -> bytes:
    """Read a file that `save` wrote.

    Raises:
        InputError: It is missing, no file of ours, or damaged.
    """
    content = checks.existing_file(path, "model").read_bytes()
    end = len(content) - len(seal(b""))
    if end <= 0 or content[end : end + len(SEAL)] != SEAL:
        raise InputError(
            f"`{path}` does not end in the checksum that exported encoders carry: it "
            f"is another file, or cut ({len(content)} bytes). Take a whole copy, or "
            "export the encoder again."
        )
    if content[end:] != seal(content[:end]):
        raise InputError(
            f"`{path}` differs from the checksum that it carries. Take a whole copy, "
            "or export the encoder again."
        )
    return content


def open_session(
    folder: str | Path,
    inputs: Iterable[str],
    threads: int | None = None,
    extensions: bool = False,
) -> Any:
    """Open the `model.onnx` in a folder.

    Args:
        folder: Holds the file.
        inputs: Names that the model must have.
        threads: How many threads onnxruntime may use; by default its own choice.
        extensions: Whether the model has operators of onnxruntime-extensions.

    Returns:
        An `onnxruntime.InferenceSession`.

    Raises:
        InputError: The file is missing, damaged, or another kind of model; or a package
            is not installed.
    """
    runtime = checks.require("onnxruntime", EXTRA, "The ONNX format")
    path = existing_folder(folder, "artefact") / FILE
    content = read_sealed(path)
    options = runtime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    if threads is not None:
        checks.at_least(1, threads=threads)
        options.intra_op_num_threads = options.inter_op_num_threads = threads
    if extensions:
        options.register_custom_ops_library(load_extensions().get_library_path())
    try:
        session = runtime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime has no common class of errors
        raise InputError(
            f"`{path}` is not a model that onnxruntime can load: {error}. Take a whole "
            "copy, or export the encoder again."
        ) from error
    found = {one.name for one in session.get_inputs()}
    outputs = [one.name for one in session.get_outputs()]
    if found != set(inputs) or outputs != ["embedding"]:
        raise InputError(
            f"`{path}` must take {', '.join(sorted(inputs))} and give embedding. "
            f"Received: {', '.join(sorted(found))} and {', '.join(outputs)}. Give the "
            "file of an exported encoder."
        )
    return session


def versions(*modules: str) -> dict[str, str]:
    """Return the installed version of each module, for the card."""
    return {
        name.replace("_", "-"): checks.require(name, EXTRA, "ONNX").__version__
        for name in modules
    }
