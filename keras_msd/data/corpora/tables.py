"""Write rows as gzip-compressed TSV, complete or not at all."""

import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.cleaning import normalise
from keras_msd.files import atomic_path

Write = Callable[..., None]


@contextmanager
def table(path: Path) -> Iterator[Write]:
    """Yield `write(*fields)`, which appends a row to `path`; equal rows, equal bytes.

    The fields are normalised, so that none holds a tab or an end of line.
    """
    with (
        atomic_path(path) as temporary,
        open(temporary, "wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        io.TextIOWrapper(packed, "utf-8", newline="\n") as text,
    ):

        def write(*fields: str) -> None:
            text.write("\t".join(map(normalise, fields)) + "\n")

        yield write


def score(text: str, low: float, high: float, where: str) -> str:
    """Return a score as written; raise `InputError` unless it is in [low, high]."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise InputError(
            f"{where}: a score must be a number from {low:g} to {high:g}. Received: "
            f"{text!r:.40}. Get the file again."
        )
    return text.strip()
