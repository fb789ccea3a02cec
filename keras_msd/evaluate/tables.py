"""Rows of the gzip-compressed, tab-separated files that evaluations read."""

import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError, existing_file


def read_table(path: str | Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) of a `.tsv.gz` file: UTF-8, no header, no quoting.

    Args:
        path: The file.
        columns: Fields that every line must have.

    Raises:
        InputError: The file is missing, broken or no gzip, a line is not UTF-8, or
            has another number of fields.
    """
    path = existing_file(path, "evaluation file")
    number = 0
    try:
        with gzip.open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                fields = line.decode("utf-8").rstrip("\r\n").split("\t")
                if len(fields) != columns:
                    raise InputError(
                        f"{path}, line {number}: a line must have {columns} "
                        f"tab-separated fields. Received: {len(fields)}."
                    )
                yield number, fields
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 at byte {error.start} of the line. "
            "Convert the file to UTF-8."
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{path}, after line {number}: not a whole gzip file ({error}). "
            "Fetch it again."
        ) from error
    if not number:
        raise InputError(f"{path} is empty. Fetch it again.")


def finite_number(text: str, where: str, what: str = "a score") -> float:
    """Return the number that `text` is; raise `InputError` unless it is finite."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"{where}: {what} must be a finite number. Received: {text!r:.40}."
        )
    return number
