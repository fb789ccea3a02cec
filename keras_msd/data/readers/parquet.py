"""Parquet: a table with named columns, read by pyarrow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_msd.checks import existing_file, explained, require
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.records import language_of, pair_of, unwrapped


def read(
    path: Path,
    language: str,
    source: str = ENGLISH,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every row.

    The columns are called as those of CSV; or one, `translation`, has both.

    Args:
        path: A `.parquet` file.
        language: Code of the translations' language.
        source: Code of the other language.
        columns: The names of both texts' columns, where they are others.

    Raises:
        InputError: pyarrow is not installed (extra `parquet`), a row has no such texts,
            or the file cannot be read.
    """
    for number, row in enumerate(rows(path), 1):
        where = f"`{path}`, row {number}"
        yield pair_of(row, language, source, where, columns=columns)


def first_language(path: Path) -> str | None:
    """Return the one column that can be a language beside English."""
    return next((language_of(row) for row in rows(path)), None)


def rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a parquet file by the names of their columns."""
    existing_file(path, "parquet file")
    parquet = require("pyarrow.parquet", "parquet", "Reading parquet files")
    arrow = require("pyarrow", "parquet", "Reading parquet files")
    damage = f"`{path}` is no parquet file, or a damaged one. Write it again."
    with explained(damage, arrow.ArrowInvalid, OSError):
        with path.open("rb") as handle, parquet.ParquetFile(handle) as file:
            for batch in file.iter_batches():
                yield from map(unwrapped, batch.to_pylist())
