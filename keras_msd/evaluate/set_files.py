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

Read = Callable[[Path], list[Any]]


class Layout(NamedTuple):
    """One way in which a set is laid out.

    Attributes:
        name: Whole name of a file.
        read: Gives the rows of such a file.
        paths: Gives the files that are read for it, if others are, too.
    """

    name: re.Pattern[str]
    read: Read
    paths: Callable[[Path], list[Path]] = lambda path: [path]


class SetFile(NamedTuple):
    """A file of a set, and how it is laid out."""

    path: Path
    layout: Layout


def find_parts(
    folder: str | Path,
    layouts: Sequence[Layout],
    part: Callable[[re.Match[str]], str] = itemgetter(1),
) -> dict[str, list[SetFile]]:
    """Return the files of each part of a set, at any depth of `folder`.

    Args:
        folder: Where to look; its folders are looked through, too.
        layouts: The preferred one first.
        part: Says which part a file holds, from the match of its name; by default the
            first group.

    Raises:
        InputError: There is no such folder.
    """
    files = _files(existing_folder(folder, "folder of the set"))
    parts: dict[str, list[SetFile]] = {}
    for layout in layouts:
        for path in sorted(files):
            if match := layout.name.fullmatch(path.name):
                parts.setdefault(part(match), []).append(SetFile(path, layout))
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
    parts: Mapping[str, list[SetFile]],
    needed: Sequence[str],
    what: str,
    folder: str | Path,
    template: str = "",
) -> dict[str, list[SetFile]]:
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


def paths_of(parts: Mapping[str, list[SetFile]]) -> list[Path]:
    """Return all files that are read for some parts."""
    files = [file for part in parts.values() for file in part]
    return [path for file in files for path in file.layout.paths(file.path)]


def read_part(
    files: Sequence[SetFile], fact: Callable[[list[Any]], Any], pairs: int | None = None
) -> list[Any]:
    """Read the first file; the others, where there are some, must agree with it.

    Args:
        files: Files of one part, the preferred one first.
        fact: What all of them must have in common, from their rows.
        pairs: Rows that they must have; None for any number.

    Raises:
        InputError: A file has another number of rows, or two files differ.
    """
    first, *others = files
    rows = first.layout.read(first.path)
    if pairs is not None and len(rows) != pairs:
        raise InputError(
            f"`{first.path}` must have {pairs:,} pairs, as the set was published. "
            f"Received: {len(rows):,}. Get the file again, or give `pairs=None` if it "
            "is a set of your own."
        )
    for other in others:
        if fact(other.layout.read(other.path)) != fact(rows):
            raise InputError(
                f"`{first.path}` and `{other.path}` are called the same part of the "
                "set and differ. Move away the one that is not meant."
            )
    return rows


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
