"""onnxruntime-extensions in a process that may hold TensorFlow."""

import functools
import os
import sys
from typing import Any

from keras_msd import checks
from keras_msd.checks import InputError

LIBRARY = "onnxruntime_extensions._extensions_pydll"
TENSORFLOW = "tensorflow"


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
            "onnxruntime_extensions", "onnx", "An ONNX file with its tokenizer inside"
        )
    finally:
        sys.setdlopenflags(flags)
