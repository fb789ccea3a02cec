"""Corpus readers, one format a file; `READERS` maps a format to its `read` function.

A reader is `read(path, language)` and yields `(English, other language)`.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from keras_msd import checks

READERS = {
    "gettext": "keras_msd.data.readers.gettext.read",
    "jsonl": "keras_msd.data.readers.jsonl.read",
    "moses": "keras_msd.data.readers.moses.read",
    "tmx": "keras_msd.data.readers.tmx.read",
    "tsv": "keras_msd.data.readers.tsv.read",
}

Reader = Callable[[Path, str], Iterator[tuple[str, str]]]


def reader(format: str) -> Reader:
    """Return the function that `READERS` lists under a format's name.

    Raises:
        InputError: No reader has that name.
    """
    checks.one_of(READERS, format=format)
    module, _, function = READERS[format].rpartition(".")
    return getattr(import_module(module), function)
