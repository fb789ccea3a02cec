"""TensorFlow starts without a word when a command needs it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras_msd.lazy import AtImport
from keras_msd.stderr import LEVEL, sieved_stderr


@contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Let TensorFlow start without a word, should something within import it.

    It is imported deep below, by Keras or by us, or not at all. A level that the user
    has set stays: with `TF_CPP_MIN_LOG_LEVEL=0` all lines of it are shown.
    """
    # It reports processor and driver on every start; real errors are exceptions.
    os.environ.setdefault(LEVEL, "3")
    if "tensorflow" in sys.modules:
        _calm_logger()
        yield
        return
    finder = AtImport("tensorflow", _quietly)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _quietly(execute: Callable[[Any], None], module: Any) -> None:
    with sieved_stderr():
        execute(module)
    _calm_logger()


def _calm_logger() -> None:
    import logging

    # A run makes many models, and TensorFlow takes each new one for a retracing.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
