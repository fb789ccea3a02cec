"""Tables of pairs: TSV, CSV, JSON Lines and parquet."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_file, explained, require
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import (
    DirtyRows,
    csv_rows,
    english_comes_second,
    read_lines,
    without_blank_end,
)
from keras_msd.data.readers.records import (
    NAMES,
    language_of,
    named_columns,
    pair_of,
    unwrapped,
)

# A score, or the number of a sentence in Tatoeba's export.
NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")
SEPARATORS = ",;\t"  # spreadsheets of many countries write a semicolon
FORM = '{"source": ..., "target": ...}'

Texts = Iterator[tuple[str, str]]


class Layout(NamedTuple):
    """What the columns of a TSV are.

    Attributes:
        width: How many a line has.
        texts: The places of source and translation.
        header: Whether the first line names the columns.
    """

    width: int
    texts: tuple[int, int]
    header: bool = False


def read_tsv(
    path: Path,
    language: str,
    source: str = ENGLISH,
    dirty: DirtyRows | None = None,
    columns: Sequence[str] | None = None,
) -> Texts:
    """Yield source and translation of every line: no quoting, tabs between columns.

    Of more than two columns those of numbers are passed over, if two are left: scores
    first, as `keras-msd mine` and WikiMatrix write them, or last, and the numbers of
    sentences in Tatoeba's export. A first line that names the columns, as in CSV, is
    no pair. Blank lines at the end are passed over.

    Args:
        path: A `.tsv` file.
        language: Code of the translations' language.
        source: Code of the sources' language.
        dirty: Which lines may be skipped; by default none.
        columns: The numbers of both columns from 1, or their names in the first line.

    Raises:
        InputError: The name says that English is the second column, it is not clear
            which two columns are the texts, a line has more or fewer columns than the
            first, or the file cannot be read.
    """
    if english_comes_second(path) and columns is None:
        raise InputError(
            f"`{path}`: the first column must be English, and the name says that it is "
            "the second. If English is the first, rename the file to "
            f"`<corpus>.en-{language}.tsv`; if not, say which column is which: "
            '`columns=["2", "1"]`.'
        )
    dirty, layout, tabs = dirty or DirtyRows(0), None, f"`{source}` TAB `{language}`"
    for number, line in without_blank_end(read_lines(path, dirty)):
        fields, where = line.split("\t"), f"`{path}`, line {number}"
        if layout is None and len(fields) > 1:
            layout = _layout(fields, (source, language), columns, where)
            if layout.header:
                continue
        count = layout.width if layout else 2
        if layout is None or len(fields) != count:
            texts = tabs if count == 2 else "as the first"
            dirty.skip(
                InputError(
                    f"{where}: a line must have {count} columns, {texts}. Received: "
                    f"{len(fields)} column{'s' * (len(fields) > 1)}, {line!r:.80}. "
                    "Remove the line or the tabs inside its sentences."
                )
            )
            continue
        yield fields[layout.texts[0]], fields[layout.texts[1]]


def _layout(
    fields: list[str],
    languages: tuple[str, str],
    columns: Sequence[str] | None,
    where: str,
) -> Layout:
    """Return what the columns are by the first line that has two or more."""
    count, names = len(fields), [field.strip() for field in fields]
    named = next((it for it in (*NAMES, languages) if {*it} <= {*names}), None)
    if columns is not None:
        by_name = not all(column.isdecimal() for column in columns)
        places = names if by_name else [str(place) for place in range(1, count + 1)]
        first, second = map(places.index, named_columns(columns, places, where) or ())
        return Layout(count, (first, second), by_name or named is not None)
    if named:
        return Layout(count, (names.index(named[0]), names.index(named[1])), True)
    if count == 2:
        return Layout(2, (0, 1))
    texts = [i for i, field in enumerate(fields) if not NUMBER.fullmatch(field)]
    if len(texts) != 2:
        raise InputError(
            f"{where}: a line must have 2 columns, `{languages[0]}` TAB "
            f"`{languages[1]}`, or two and numbers. Received: {count} columns, of "
            f"which {len(texts)} are no numbers, {fields!r:.80}. Say which are the "
            'texts: `columns=["1", "2"]`, or `--columns 1,2`.'
        )
    return Layout(count, (texts[0], texts[1]))


def read_csv(
    path: Path,
    language: str,
    source: str = ENGLISH,
    dirty: DirtyRows | None = None,
    columns: Sequence[str] | None = None,
) -> Texts:
    """Yield source and translation of every row behind the first, which has names.

    The columns are called `source` and `target`, by the codes of their languages, or
    `english` and `non_english`; others are passed over.

    Args:
        path: A `.csv` file.
        language: Code of the translations' language.
        source: Code of the other language.
        dirty: Which rows with more or fewer fields may be skipped; by default none.
        columns: The names of both texts' columns, where they are others, or their
            numbers from 1.

    Raises:
        InputError: There is no row, a column is not there, a row has more or fewer
            fields than the first, or the file cannot be read.
    """
    rows, dirty = _csv_rows(path), dirty or DirtyRows(0)
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


def csv_languages(path: Path) -> tuple[None, str | None]:
    """Return the one column that can be a language beside English."""
    return None, language_of(next(_csv_rows(path))[1])


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that have a field, the first with names of columns."""
    _, head = next(read_lines(path))
    separator = max(SEPARATORS, key=head.count)
    rows = ((where, row) for where, row in csv_rows(path, separator) if row)
    where, names = next(rows, (str(path), list[str]()))
    if not names:
        raise InputError(
            f"`{path}` must have a row with names of columns. Received: empty rows. "
            "Give a file with pairs."
        )
    names = [name.strip() for name in names]
    yield where, [name.lower() if len(name) < 4 else name for name in names]
    yield from rows


def read_jsonl(
    path: Path,
    language: str,
    source: str = ENGLISH,
    dirty: DirtyRows | None = None,
    columns: Sequence[str] | None = None,
) -> Texts:
    """Yield source and translation of every line, a JSON object.

    A line is `{"source": ..., "target": ...}`, `{"<source>": ..., "<language>": ...}`,
    `{"english": ..., "non_english": ...}`, or `{"translation": {...}}` around one of
    them; other keys are passed over, and so are blank lines at the end.

    Args:
        path: A `.jsonl`, `.ndjson` or `.json` file.
        language: Code of the translations' language.
        source: Code of the other language.
        dirty: Which lines may be skipped; by default none.
        columns: The keys of both texts, where they are others.

    Raises:
        InputError: A line is no such object, or the file cannot be read.
    """
    dirty = dirty or DirtyRows(0)
    for number, line in without_blank_end(read_lines(path, dirty)):
        try:
            row, where = json_object(path, number, line), f"`{path}`, line {number}"
            texts = pair_of(row, language, source, where, "an object", columns)
        except InputError as error:
            dirty.skip(error)
            continue
        yield texts


def jsonl_languages(path: Path) -> tuple[None, str | None]:
    """Return the one key of the first line that can be a language beside English."""
    return None, language_of(json_object(path, *next(read_lines(path))))


def json_object(path: Path, number: int, line: str, form: str = FORM) -> dict[str, Any]:
    """Return the object of a line, or the one under its key `translation`.

    Args:
        path: The file, for messages.
        number: Number of the line, for messages.
        line: The line.
        form: How a line is to be written, for messages.

    Raises:
        InputError: The line is no JSON object.
    """
    item, fault = None, None
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        fault = error
    if not isinstance(item, dict):
        repair, start = f"Write it as {form}.", line.lstrip()[:1]
        if number == 1 and start in ("[", "{"):  # one value in many lines
            items = "'.[]'" if start == "[" else "."
            repair = (
                f"Write one object a line, such as {form}: jq -c {items} {path.name}"
            )
        raise InputError(
            f"`{path}`, line {number}: a line must be a JSON object. Received: "
            f"{line!r:.80}{f' ({fault})' if fault else ''}. {repair}"
        ) from fault
    return unwrapped(item)


def read_parquet(
    path: Path,
    language: str,
    source: str = ENGLISH,
    columns: Sequence[str] | None = None,
) -> Texts:
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
    for number, row in enumerate(parquet_rows(path), 1):
        where = f"`{path}`, row {number}"
        yield pair_of(row, language, source, where, columns=columns)


def parquet_languages(path: Path) -> tuple[None, str | None]:
    """Return the one column that can be a language beside English."""
    return None, next(map(language_of, parquet_rows(path)), None)


def parquet_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a parquet file by the names of their columns."""
    existing_file(path, "parquet file")
    parquet = require("pyarrow.parquet", "parquet", "Reading parquet files")
    arrow = require("pyarrow", "parquet", "Reading parquet files")
    damage = f"`{path}` is no parquet file, or a damaged one. Write it again."
    with explained(damage, arrow.ArrowInvalid, OSError):
        with path.open("rb") as handle, parquet.ParquetFile(handle) as file:
            for batch in file.iter_batches():
                yield from map(unwrapped, batch.to_pylist())
