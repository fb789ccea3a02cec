"""Rows of the tab-separated files that evaluations read."""

import math
from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.readers.lines import read_lines


def read_table(path: str | Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) of a `.tsv`, plain or gzip: no header, no quoting.

    Args:
        path: The file.
        columns: Fields that every line must have.

    Raises:
        InputError: The file is missing, empty or damaged, a line is not UTF-8, or has
            another number of fields.
    """
    for number, line in read_lines(Path(path)):
        fields = line.split("\t")
        if len(fields) != columns:
            raise InputError(
                f"`{path}`, line {number}: a line must have {columns} tab-separated "
                f"fields. Received: {len(fields)}. Get a whole copy of the file."
            )
        yield number, fields


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
