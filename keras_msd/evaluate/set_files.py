"""Find the files of evaluation sets in a folder by their names, and read them."""

import glob
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_folder
from keras_msd.data.readers.lines import read_lines


class SetFile(NamedTuple):
    """A file of a set, and the function that reads its rows."""

    path: Path
    read: Callable[[Path], Any]

    def rows(self, pairs: int | None = None) -> list[Any]:
        """Return the rows of the file.

        Args:
            pairs: Required number of rows; None for any number.

        Raises:
            InputError: The file has more or fewer rows.
        """
        rows = self.read(self.path)
        if pairs is not None and len(rows) != pairs:
            raise InputError(
                f"`{self.path}` must have {pairs:,} pairs, as in the published set. "
                f"Received: {len(rows):,}. Download the file again."
            )
        return rows


def find_parts(
    folder: str | Path,
    layouts: Mapping[str, Callable[[Path], Any]],
    part: Callable[[re.Match[str]], str] = itemgetter(1),
) -> dict[str, SetFile]:
    """Return the file of each part of a set, at any depth of `folder`.

    Args:
        folder: Folder to search, with all its subfolders.
        layouts: Regular expressions for whole file names, each with the function that
            reads such a file. If a part has several files, the first expression wins.
        part: Function that maps the match of a file name to the name of the part;
            default the first group.

    Raises:
        InputError: The folder does not exist.
    """
    existing_folder(folder, "folder of the set")
    names = sorted(glob.glob("**", root_dir=folder, recursive=True))  # through links
    files = [Path(folder, name) for name in names]
    parts: dict[str, SetFile] = {}
    for name, read in layouts.items():
        for path in files:
            if match := re.fullmatch(name, path.name):
                parts.setdefault(part(match), SetFile(path, read))
    return parts


def check_parts(
    parts: Mapping[str, SetFile],
    needed: Sequence[str],
    what: str,
    folder: str | Path,
    template: str = "",
) -> dict[str, SetFile]:
    """Return the files of the needed parts.

    Args:
        parts: The parts that exist, from `find_parts`.
        needed: Names of one or more parts.
        what: The set, its file names and their source, for the error message.
        folder: The folder that was searched, for the error message.
        template: Format string for the name of a part's file in our layout, for the
            error message.

    Raises:
        InputError: Parts are missing; the message names all of them.
    """
    if not needed:
        raise InputError("Name at least one part of the set. Received: none.")
    if missing := [part for part in needed if part not in parts]:
        first = (
            f" Add `{template.format(missing[0])}`, for example." if template else ""
        )
        raise InputError(
            f"`{folder}` lacks {', '.join(missing)} of {what} Found: "
            f"{', '.join(sorted(parts)) or 'none'}.{first}"
        )
    return {part: parts[part] for part in needed}


def tabbed(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (file and line number, for messages; fields) for each line of a `.tsv`.

    The file may be gzipped. It has no header and no quoting.

    Raises:
        InputError: The file is missing, empty or damaged, or a line is not UTF-8.
    """
    for number, line in read_lines(Path(path)):
        yield f"`{path}`, line {number}", line.split("\t")


def read_table(path: str | Path, columns: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of `tabbed`, checked to have `columns` fields.

    Raises:
        InputError: See `tabbed`; or a line has another number of fields.
    """
    for where, fields in tabbed(path):
        if len(fields) != columns:
            raise InputError(
                f"{where}: a line must have {columns} tab-separated fields. Received: "
                f"{len(fields)}. Download the file again."
            )
        yield where, fields


def finite_number(text: str, where: str) -> float:
    """Convert a text to a number; raise `InputError` unless it is finite."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"{where}: a score must be a finite number. Received: {text!r:.40}."
        )
    return number
