"""MediaPipe's TextEmbedder as the runtime of an artefact."""

import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.export.artefact import Run
from keras_msd.export.litert.archive import read_files

FILE = "model.tflite"


def load(path: str | Path, threads: int | None = None) -> Run:
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
    mediapipe = checks.require(
        "mediapipe.tasks.python.text", "mediapipe", "A litert_text model"
    )
    file = Path(path) / FILE
    read_files(file)
    try:
        embedder = mediapipe.TextEmbedder.create_from_model_path(str(file))
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"`{file}` is not a model for MediaPipe's TextEmbedder: {error}. Export "
            "the encoder again with format='litert_text'."
        ) from error
    _close_at_exit(embedder)

    def embed(text: str) -> np.ndarray:
        # MediaPipe takes C strings, which end at NUL. Like NUL, the replacement is in
        # no vocabulary.
        result = embedder.embed(text.replace("\0", "\uffff"))
        return result.embeddings[0].embedding

    def run(texts: list[str]) -> np.ndarray:
        # The width is not known before there is a vector.
        vectors = [embed(text) for text in texts or [""]]
        return np.array(vectors, np.float32)[: len(texts)]

    return run


def _close_at_exit(embedder: Any) -> None:
    """Close an embedder that is still open when Python ends.

    One that nobody needs any more closes itself. Python's end comes too late for that:
    MediaPipe's thread is gone then, also where `atexit` calls back.
    """
    find = weakref.ref(embedder)

    def close() -> None:
        if (left := find()) is not None:
            left.close()

    threading._register_atexit(close)  # type: ignore[attr-defined]
