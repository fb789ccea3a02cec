"""TSV: one pair a line, source, a tab, its translation; no header, no quoting."""

from collections.abc import Iterator
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.pair import ENGLISH
from keras_msd.data.readers.lines import DirtyRows, english_comes_second, read_lines


def read(
    path: Path, language: str, source: str = ENGLISH, dirty: DirtyRows | None = None
) -> Iterator[tuple[str, str]]:
    """Yield both columns of every line.

    Args:
        path: A `.tsv` or `.tsv.gz` file.
        language: Code of the second column.
        source: Code of the first column.
        dirty: Which lines may be skipped; by default none.

    Raises:
        InputError: The name says that English is the second column, a line has not
            exactly two columns, or the file cannot be read.
    """
    if english_comes_second(path):
        raise InputError(
            f"`{path}`: the first column must be English, and the name says that it is "
            "the second. If English is the first, rename the file to "
            f"`<corpus>.en-{language}.tsv`; if not, swap the columns, too."
        )
    dirty = dirty or DirtyRows(0)
    for number, line in read_lines(path, dirty):
        columns = line.split("\t")
        if len(columns) != 2:
            error = InputError(
                f"`{path}`, line {number}: a line must have 2 columns, `{source}` "
                f"TAB `{language}`. Received: {len(columns)} "
                f"column{'s' * (len(columns) > 1)}, {line!r:.80}. Remove the line or "
                "the tabs inside its sentences."
            )
            dirty.skip(error)
            continue
        yield columns[0], columns[1]
