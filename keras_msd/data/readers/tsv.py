"""TSV: one pair a line, source, a tab, its translation, or scores too; no quoting."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import (
    DirtyRows,
    english_comes_second,
    read_lines,
    without_blank_end,
)
from keras_msd.data.readers.records import NAMES, named_columns

# A score, or the number of a sentence in Tatoeba's export.
NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")


class Layout(NamedTuple):
    """What the columns of a file are.

    Attributes:
        width: How many a line has.
        texts: The places of source and translation.
        numbers: The places of numbers, which are passed over.
        header: Whether the first line names the columns.
    """

    width: int
    texts: tuple[int, int]
    numbers: tuple[int, ...]
    header: bool


def read(
    path: Path,
    language: str,
    source: str = ENGLISH,
    dirty: DirtyRows | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every line.

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
            first or text where that has a number, or the file cannot be read.
    """
    if english_comes_second(path) and columns is None:
        raise InputError(
            f"`{path}`: the first column must be English, and the name says that it is "
            "the second. If English is the first, rename the file to "
            f"`<corpus>.en-{language}.tsv`; if not, say which column is which: "
            '`columns=["2", "1"]`.'
        )
    dirty, layout = dirty or DirtyRows(0), None
    for number, line in without_blank_end(read_lines(path, dirty)):
        fields, where = line.split("\t"), f"`{path}`, line {number}"
        if layout is None and len(fields) > 1:
            layout = _layout(fields, language, source, columns, where)
            if layout.header:
                continue
        count = layout.width if layout else 2
        if layout is None or len(fields) != count:
            error = _other_count(count, fields, line, source, language, where)
            dirty.skip(error)
            continue
        wrong = [fields[i] for i in layout.numbers if not NUMBER.fullmatch(fields[i])]
        if wrong:
            error = InputError(
                f"{where}: a column that the first line has a number in must have one. "
                f"Received: {wrong[0]!r:.40}. Remove the line, or give `columns`."
            )
            dirty.skip(error)
            continue
        first, second = layout.texts
        yield fields[first], fields[second]


def _layout(
    fields: list[str],
    language: str,
    source: str,
    columns: Sequence[str] | None,
    where: str,
) -> Layout:
    """Return what the columns are by the first line that has two or more."""
    count = len(fields)
    names = [field.strip() for field in fields]
    known = [*NAMES, (source, language)]
    named = next((keys for keys in known if {*keys} <= {*names}), None)
    if columns is not None:
        header = not all(column.isdecimal() for column in columns)
        keys = named_columns(columns, names if header else _numbers(count), where)
        places = names if header else _numbers(count)
        first, second = (places.index(key) for key in keys or ())
        return Layout(count, (first, second), (), header or named is not None)
    if named:
        return Layout(count, (names.index(named[0]), names.index(named[1])), (), True)
    if count == 2:
        return Layout(2, (0, 1), (), False)
    numbers = [i for i, field in enumerate(fields) if NUMBER.fullmatch(field)]
    texts = [i for i in range(count) if i not in numbers]
    if len(texts) != 2:
        raise InputError(
            f"{where}: a line must have 2 columns, `{source}` TAB `{language}`, or two "
            f"and numbers. Received: {count} columns, of which {len(texts)} are no "
            f'numbers, {fields!r:.80}. Say which are the texts: `columns=["1", "2"]`, '
            "or `--columns 1,2`."
        )
    return Layout(count, (texts[0], texts[1]), tuple(numbers), False)


def _numbers(count: int) -> list[str]:
    return [str(place) for place in range(1, count + 1)]


def _other_count(
    count: int, fields: list[str], line: str, source: str, language: str, where: str
) -> InputError:
    texts = f", `{source}` TAB `{language}`" if count == 2 else ", as the first"
    return InputError(
        f"{where}: a line must have {count} columns{texts}. Received: {len(fields)} "
        f"column{'s' * (len(fields) > 1)}, {line!r:.80}. Remove the line or the tabs "
        "inside its sentences."
    )
