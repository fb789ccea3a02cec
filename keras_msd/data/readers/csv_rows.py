"""Rows of a CSV file, in which a text may hold commas, quotes and line feeds."""

import csv
from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.readers.lines import read_lines


def csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (where it stands, for messages; fields) of each row.

    Raises:
        InputError: The file is not CSV, or cannot be read.
    """
    reader = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    try:
        for fields in reader:
            yield f"`{path}`, line {reader.line_num}", fields
    except csv.Error as error:
        raise InputError(
            f"`{path}`, line {reader.line_num}: the file must be CSV ({error}). Get it "
            "again."
        ) from error
