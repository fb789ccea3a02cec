"""LiteRT files, opened in their runtimes without TensorFlow.

TFLite's associated files, such as a tokenizer, are a zip archive behind the model;
runtimes skip it.
"""

import io
import queue
import threading
import weakref
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError, existing_file, explained, require
from keras_msd.export.formats import Run
from keras_msd.export.portable import TokenRun, load_portable
from keras_msd.light import usable_processors
from keras_msd.runtimes import sieved_stderr

FILE = "model.tflite"
SIGNATURE = "serving_default"
INPUTS = ("token_ids", "padding_mask")
TOKENIZER = "tokenizer.json"
DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is written
UNIX = 3
MOST_BYTES = 50_000_000  # of a description, as the readers under export/


def with_tokenizer(model: bytes, description: bytes) -> bytes:
    """Return `model` followed by an archive of its tokenizer."""
    content = io.BytesIO(model)
    with zipfile.ZipFile(content, "a") as archive:
        entry = zipfile.ZipInfo(TOKENIZER, DATE)
        entry.create_system = UNIX
        archive.writestr(entry, description, zipfile.ZIP_DEFLATED, 9)
    return content.getvalue()


def read_tokenizer(path: Path) -> bytes:
    """Return the tokenizer's description behind the model in a .tflite file.

    Raises:
        InputError: There is no such file, or none behind it.
    """
    existing_file(path, "model")

    def damaged(error: Exception) -> str:
        return (
            f"`{path}` must hold its tokenizer as {TOKENIZER} ({error!r}). Take a "
            "whole copy. A litert_text model takes strings: load that with MediaPipe."
        )

    # A damaged archive makes zipfile raise nearly anything.
    with explained(damaged, Exception):
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo(TOKENIZER)
            if entry.file_size > MOST_BYTES:
                raise ValueError(f"it would have {entry.file_size:,} bytes")
            return archive.read(entry)


def require_litert() -> Any:
    """Import LiteRT's interpreter, or raise `InputError` naming what to install."""
    return require(
        "ai_edge_litert.interpreter", "litert", "A LiteRT model of token ids"
    )


def load_ids(path: str | Path, threads: int | None = None) -> Run:
    """Load a model in LiteRT as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder with `model.tflite`, whose checksum `read_card` has compared:
            LiteRT trusts the offsets in a model, and a damaged one can end the process.
        threads: How many sentences it may embed at a time, each on one thread; by
            default as many as there are usable processors.

    Raises:
        InputError: There is no model, it is not one of ours, or LiteRT is not
            installed.
    """
    runtime = require_litert()
    file = Path(path) / FILE
    tokenizer = load_portable(read_tokenizer(file), f"`{file}`")

    def foreign(error: Exception) -> str:
        return f"`{file}` is no LiteRT model of token ids: {error}. Export it again."

    def opened() -> Any:
        interpreter = runtime.Interpreter(str(file), num_threads=1)
        with sieved_stderr():  # XNNPACK notes its first use
            interpreter.allocate_tensors()
        return interpreter.get_signature_runner(SIGNATURE)

    with explained(foreign, RuntimeError, ValueError, KeyError):
        call = opened()
        inputs, outputs = call.get_input_details(), call.get_output_details()
        width = int(outputs["embedding"]["shape"][-1])
        if set(inputs) != set(INPUTS):
            raise ValueError(f"its inputs are {', '.join(inputs)}")

    count = threads or usable_processors()
    # An interpreter has one set of tensors, which a call resizes and fills, so it works
    # for one thread at a time. Those behind the first are made when they are needed.
    idle: queue.LifoQueue[Any] = queue.LifoQueue()
    opening = threading.Lock()  # of the process's stderr
    for runner in [None] * (count - 1) + [call]:
        idle.put(runner)

    def vector(ids: list[int]) -> Any:
        token_ids = np.array([ids], np.int32)
        runner = idle.get()
        try:
            if runner is None:
                with opening:
                    runner = opened()
            mask = np.ones_like(token_ids)
            return runner(token_ids=token_ids, padding_mask=mask)["embedding"][0]
        finally:
            idle.put(runner)

    def embed(rows: list[list[int]]) -> np.ndarray:
        if min(len(rows), count) < 2:
            vectors = list(map(vector, rows))
        else:
            with ThreadPoolExecutor(min(len(rows), count)) as pool:
                vectors = list(pool.map(vector, rows))
        return np.array(vectors, np.float32).reshape(len(rows), width)

    return TokenRun(tokenizer, embed)


def load_text(path: str | Path, threads: int | None = None) -> Run:
    """Load a model in MediaPipe as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder with `model.tflite`.
        threads: Only 1, which is what MediaPipe uses on a computer.

    Raises:
        InputError: There is no model, it is not one of ours, mediapipe is not
            installed, or `threads` is another number.
    """
    if threads not in (None, 1):
        raise InputError(
            "MediaPipe runs a text model on one thread. Received: "
            f"threads={threads}. Leave `threads` out."
        )
    mediapipe = require(
        "mediapipe.tasks.python.text", "mediapipe", "A litert_text model"
    )
    file = existing_file(Path(path) / FILE, "model")

    def foreign(error: Exception) -> str:
        return (
            f"`{file}` is not a model for MediaPipe's TextEmbedder: {error}. Export "
            "the encoder again with format='litert_text'."
        )

    with explained(foreign, RuntimeError, ValueError):
        with sieved_stderr():  # XNNPACK notes its first use
            embedder = mediapipe.TextEmbedder.create_from_model_path(str(file))

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
