"""TensorFlow starts without a word when a command needs it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

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
    finder = _AtImport()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _AtImport:
    """Finds TensorFlow as Python does; where it is imported, that is done quietly."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name) if name == "tensorflow" else None
        if spec is not None and spec.loader is not None:
            _make_quiet(spec.loader)
        return spec


def _make_quiet(loader: Any) -> None:
    execute = loader.exec_module

    def quietly(module: Any) -> None:
        with sieved_stderr():
            execute(module)
        _calm_logger()

    loader.exec_module = quietly  # of this loader, which loads nothing else


def _calm_logger() -> None:
    import logging

    # A run makes many models, and TensorFlow takes each new one for a retracing.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
