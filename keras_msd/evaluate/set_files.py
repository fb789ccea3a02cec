"""The files of evaluation sets: found in a folder by their names, and read."""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_folder
from keras_msd.data.readers.lines import read_lines


class SetFile(NamedTuple):
    """A file of a set, and what gives its rows."""

    path: Path
    read: Callable[[Path], Any]

    def rows(self, pairs: int | None = None) -> list[Any]:
        """Return the rows of the file.

        Args:
            pairs: How many there must be; None for any number.

        Raises:
            InputError: There are more or fewer.
        """
        rows = self.read(self.path)
        if pairs is not None and len(rows) != pairs:
            raise InputError(
                f"`{self.path}` must have {pairs:,} pairs, as the set was published. "
                f"Received: {len(rows):,}. Get the file again."
            )
        return rows


def find_parts(
    folder: str | Path,
    layouts: Mapping[str, Callable[[Path], Any]],
    part: Callable[[re.Match[str]], str] = itemgetter(1),
) -> dict[str, SetFile]:
    """Return the file of each part of a set, at any depth of `folder`.

    Args:
        folder: Where to look; its folders are looked through, too.
        layouts: Patterns of whole names of files, each with what reads such a file. Of
            several files of a part the one of the first pattern is taken.
        part: Says which part a file holds, from the match of its name; by default the
            first group.

    Raises:
        InputError: There is no such folder.
    """
    files = sorted(_files(existing_folder(folder, "folder of the set")))
    parts: dict[str, SetFile] = {}
    for name, read in layouts.items():
        for path in files:
            if match := re.fullmatch(name, path.name):
                parts.setdefault(part(match), SetFile(path, read))
    return parts


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder at any depth, links to folders followed."""
    files, walked = [], set()
    for top, folders, names in os.walk(folder, followlinks=True):
        place = os.path.realpath(top)
        if place in walked:  # a link in a circle
            folders.clear()
            continue
        walked.add(place)
        files += [Path(top, name) for name in names]
    return files


def check_parts(
    parts: Mapping[str, SetFile],
    needed: Sequence[str],
    what: str,
    folder: str | Path,
    template: str = "",
) -> dict[str, SetFile]:
    """Return the files of the parts that are needed.

    Args:
        parts: The parts there are, as `find_parts` gives them.
        needed: The parts there must be, one or more.
        what: The set, how its files are called and where they come from.
        folder: The folder that was looked through.
        template: Name of a part's file in our layout, as `str.format` takes it.

    Raises:
        InputError: Parts are missing; all of them are named.
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
    """Yield (where it stands, for messages; fields) of each line of a `.tsv`.

    Plain or gzip; no header, no quoting.

    Raises:
        InputError: The file is missing, empty or damaged, or a line is not UTF-8.
    """
    for number, line in read_lines(Path(path)):
        yield f"`{path}`, line {number}", line.split("\t")


def read_table(path: str | Path, columns: int) -> Iterator[tuple[str, list[str]]]:
    """Yield what `tabbed` does, once every line has as many fields as `columns`.

    Raises:
        InputError: As `tabbed`, or a line has another number of fields.
    """
    for where, fields in tabbed(path):
        if len(fields) != columns:
            raise InputError(
                f"{where}: a line must have {columns} tab-separated fields. Received: "
                f"{len(fields)}. Get a whole copy of the file."
            )
        yield where, fields


def finite_number(text: str, where: str) -> float:
    """Return the number that `text` is; raise `InputError` unless it is finite."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"{where}: a score must be a finite number. Received: {text!r:.40}."
        )
    return number
