"""CSV: the first row names the columns, each other one is a pair."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import DirtyRows, csv_rows, read_lines
from keras_msd.data.readers.records import language_of, named_columns, pair_of

NAMED = re.compile(r"sep=(.)\s*")  # what Excel asks for in the first line
SEPARATORS = ",;\t"  # spreadsheets of many countries write a semicolon


def read(
    path: Path,
    language: str,
    source: str = ENGLISH,
    dirty: DirtyRows | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every row.

    The columns are called `source` and `target`, by the codes of their languages, or
    `english` and `non_english`; others are passed over.

    Args:
        path: A `.csv` or `.csv.gz` file.
        language: Code of the translations' language.
        source: Code of the other language.
        dirty: Which rows with more or fewer fields may be skipped; by default none.
        columns: The names of both texts' columns, where they are others, or their
            numbers from 1.

    Raises:
        InputError: There is no row, a column is not there, a row has more or fewer
            fields than the first, or the file cannot be read.
    """
    rows, dirty = _rows(path), dirty or DirtyRows(0)
    where, names = next(rows)
    columns = named_columns(columns, names, where)
    for where, fields in rows:
        if len(fields) != len(names):
            error = InputError(
                f"{where}: a row must have {len(names)} fields, as the first. "
                f"Received: {len(fields)}, {fields!r:.80}. Put quotes around texts "
                "that hold the separator."
            )
            # A quote that nobody closed takes in rows behind: they would go unseen.
            if any("\n" in field for field in fields):
                raise error
            dirty.skip(error)
            continue
        row = dict(zip(names, fields, strict=True))
        yield pair_of(row, language, source, where, columns=columns)


def first_language(path: Path) -> str | None:
    """Return the one column that can be a language beside English."""
    return language_of(next(_rows(path))[1])


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that have a field, the first with names of columns."""
    _, head = next(read_lines(path))
    named = NAMED.fullmatch(head)
    separator = named[1] if named else max(SEPARATORS, key=head.count)
    rows = ((where, row) for where, row in csv_rows(path, separator) if row)
    where, names = next(rows, (str(path), list[str]()))
    if named:
        where, names = next(rows, (str(path), list[str]()))
    if not names:
        raise InputError(
            f"`{path}` must have a row with names of columns. Received: empty rows. "
            "Give a file with pairs."
        )
    names = [name.strip() for name in names]
    yield where, [name.lower() if len(name) < 4 else name for name in names]
    yield from rows
