"""LiteRT files: written with a seal, opened in their runtimes without TensorFlow.

TFLite's associated files are a zip archive behind the model; runtimes skip it. One
entry is the model's own SHA-256: runtimes in C++ trust the offsets that a model holds,
and a damaged one can end the process.
"""

import hashlib
import io
import threading
import weakref
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checks import InputError, existing_file, require
from keras_msd.export.formats import FORMATS, Run
from keras_msd.export.portable import TokenRun, load_portable
from keras_msd.stderr import sieved_stderr

FILE = FORMATS["litert"].model_file
SIGNATURE = "serving_default"
INPUTS = ("token_ids", "padding_mask")
TOKENIZER = "tokenizer.json"
SEAL = "model.sha256"
IDENTIFIER = b"TFL3"
DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is written
UNIX = 3


def with_files(model: bytes, files: Mapping[str, bytes] | None = None) -> bytes:
    """Return `model` followed by an archive of `files` and its seal, uncompressed."""
    content = io.BytesIO(model)
    seal = hashlib.sha256(model).hexdigest().encode()
    with zipfile.ZipFile(content, "a") as archive:
        for name, data in {**(files or {}), SEAL: seal}.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = UNIX
            archive.writestr(entry, data)
    return content.getvalue()


def read_files(path: str | Path) -> tuple[bytes, dict[str, bytes]]:
    """Return the model in a .tflite file and the files behind it, once it is whole.

    Raises:
        InputError: There is no such file, it is no .tflite file or none of ours, or
            not a byte-for-byte copy of what was written.
    """
    path = existing_file(path, "model")
    content = path.read_bytes()
    if content[4:8] != IDENTIFIER:
        raise InputError(
            f"`{path}` must be a .tflite file. Received: {len(content)} bytes that "
            f"start with {content[:8]!r}. Export the encoder again."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("its files are compressed")
            if sum(entry.file_size for entry in entries) > len(content):
                raise ValueError("its files overlap")
            files = {entry.filename: archive.read(entry) for entry in entries}
            start = min(entry.header_offset for entry in entries)
        seal = files.pop(SEAL)
    # A damaged archive makes zipfile raise nearly anything.
    except Exception as error:
        raise InputError(
            f"`{path}` has no readable seal behind the model ({error!r}): it is cut "
            "short, damaged, or was not exported by keras_msd. Take a whole copy."
        ) from error
    model = content[:start]
    if hashlib.sha256(model).hexdigest().encode() != seal:
        raise InputError(
            f"`{path}` differs from its own checksum. Take a whole copy, or export "
            "the encoder again."
        )
    return model, files


def require_litert() -> Any:
    """Import LiteRT's interpreter, or raise `InputError` naming what to install."""
    return require(
        "ai_edge_litert.interpreter", "litert", "A LiteRT model of token ids"
    )


def open_interpreter(runtime: Any, file: Path, threads: int = 1) -> Any:
    """Return LiteRT's interpreter of a model, with its tensors allocated.

    Raises:
        RuntimeError, ValueError: LiteRT cannot take the model.
    """
    interpreter = runtime.Interpreter(str(file), num_threads=threads)
    with sieved_stderr():  # XNNPACK notes its first use
        interpreter.allocate_tensors()
    return interpreter


def load_ids(path: str | Path, threads: int | None = None) -> Run:
    """Load a model in LiteRT as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder with `model.tflite`.
        threads: How many the runtime may use; by default one.

    Raises:
        InputError: There is no model, it is not one of ours, or damaged; or LiteRT is
            not installed.
    """
    runtime = require_litert()
    file = Path(path) / FILE
    _, files = read_files(file)
    if TOKENIZER not in files:
        raise InputError(
            f"`{file}` must hold its tokenizer as {TOKENIZER}. Received: "
            f"{', '.join(sorted(files)) or 'no file'}. A litert_text model takes "
            "strings; load that with MediaPipe."
        )
    tokenizer = load_portable(files[TOKENIZER], f"`{file}`")
    try:
        interpreter = open_interpreter(runtime, file, threads or 1)
        call = interpreter.get_signature_runner(SIGNATURE)
        inputs, outputs = call.get_input_details(), call.get_output_details()
        width = int(outputs["embedding"]["shape"][-1])
        if set(inputs) != set(INPUTS):
            raise ValueError(f"its inputs are {', '.join(inputs)}")
    except (RuntimeError, ValueError, KeyError) as error:
        raise InputError(
            f"`{file}` is no LiteRT model of token ids: {error}. Export the encoder "
            "again."
        ) from error

    # An interpreter has one set of tensors, which the next call resizes and fills.
    lock = threading.Lock()

    def embed(rows: list[list[int]]) -> np.ndarray:
        vectors = np.empty((len(rows), width), np.float32)
        for row, ids in enumerate(rows):
            token_ids = np.array([ids], np.int32)
            mask = np.ones_like(token_ids)
            with lock:
                vector = call(token_ids=token_ids, padding_mask=mask)["embedding"]
            vectors[row] = vector
        return vectors

    return TokenRun(tokenizer, embed)


def load_text(path: str | Path, threads: int | None = None) -> Run:
    """Load a model in MediaPipe as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder with `model.tflite`.
        threads: Only 1, which is what MediaPipe uses on a computer.

    Raises:
        InputError: There is no model, it is not one of ours, or damaged; mediapipe is
            not installed; or `threads` is another number.
    """
    if threads not in (None, 1):
        raise InputError(
            "MediaPipe runs a text model on one thread. Received: "
            f"threads={threads}. Leave `threads` out."
        )
    mediapipe = require(
        "mediapipe.tasks.python.text", "mediapipe", "A litert_text model"
    )
    file = Path(path) / FILE
    read_files(file)
    try:
        with sieved_stderr():  # XNNPACK notes its first use
            embedder = mediapipe.TextEmbedder.create_from_model_path(str(file))
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"`{file}` is not a model for MediaPipe's TextEmbedder: {error}. Export "
            "the encoder again with format='litert_text'."
        ) from error

    def embed(text: str) -> np.ndarray:
        # MediaPipe takes C strings, which end at NUL. Like NUL, the replacement is in
        # no vocabulary.
        result = embedder.embed(text.replace("\0", "\uffff"))
        return result.embeddings[0].embedding

    def run(texts: list[str]) -> np.ndarray:
        # The width is not known before there is a vector.
        vectors = [embed(text) for text in texts or [""]]
        return np.array(vectors, np.float32)[: len(texts)]

    _close_with(run, embedder)
    return run


def _close_with(run: Run, embedder: Any) -> None:
    """Close an embedder when the function that uses it goes, or Python ends.

    The finalizer keeps the embedder alive until then: one that is collected as part of
    a cycle waits forever for its thread, which Python ended a moment earlier. When
    Python ends, `atexit` is too late for MediaPipe's thread; threading's call is not.
    """
    close = weakref.finalize(run, embedder.close)
    close.atexit = False
    threading._register_atexit(close)  # type: ignore[attr-defined]


class Delegation(NamedTuple):
    """What the runtime does with a model.

    Attributes:
        delegated: How often XNNPACK runs an operator, by the operator's name.
        left: The same for operators that the runtime itself runs.
        partitions: Pieces that XNNPACK got; one is best, as each costs a hand-over.
    """

    delegated: dict[str, int]
    left: dict[str, int]
    partitions: int


def delegation(interpreter: Any) -> Delegation:
    """Ask an interpreter what it gave to XNNPACK.

    Args:
        interpreter: A LiteRT `Interpreter` whose tensors are allocated.
    """
    # There is no public list. A delegate appears as one more operator, from the tensors
    # it needs to those it gives; what lies between them is what it runs.
    operators = interpreter._get_ops_details()
    pieces = [item for item in operators if item["op_name"] == "DELEGATE"]
    plain = [item for item in operators if item["op_name"] != "DELEGATE"]
    makers = {tensor: operator for operator in plain for tensor in operator["outputs"]}
    inside = set[int]()
    for piece in pieces:
        received, pending = set(piece["inputs"]), list(piece["outputs"])
        while pending:
            tensor = pending.pop()
            maker = makers.get(tensor)
            if tensor in received or maker is None or maker["index"] in inside:
                continue
            inside.add(maker["index"])
            pending.extend(maker["inputs"])
    counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for operator in plain:
        counts[operator["index"] not in inside][operator["op_name"]] += 1
    delegated, left = (dict(sorted(count.items())) for count in counts)
    return Delegation(delegated, left, len(pieces))
