"""The files of an evaluation set, found in a folder by their names."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_folder

Read = Callable[[Path], list[Any]]


class Layout(NamedTuple):
    """One way in which a set is laid out.

    Attributes:
        name: Whole name of a file.
        read: Gives the rows of such a file.
    """

    name: re.Pattern[str]
    read: Read


class Found(NamedTuple):
    """A file, and how it is read."""

    path: Path
    read: Read


def find_parts(
    folder: str | Path,
    layouts: Sequence[Layout],
    part: Callable[[re.Match[str]], str | None],
) -> dict[str, list[Found]]:
    """Return the files of each part of a set, at any depth of `folder`.

    Args:
        folder: Where to look; its folders are looked through, too.
        layouts: The preferred one first.
        part: Says which part a file holds, from the match of its name; None for one
            that is not wanted.

    Raises:
        InputError: There is no such folder.
    """
    files = _files(existing_folder(folder, "folder of the set"))
    found: dict[str, list[Found]] = {}
    for layout in layouts:
        for path in sorted(files):
            match = layout.name.fullmatch(path.name)
            key = part(match) if match else None
            if key is not None:
                found.setdefault(key, []).append(Found(path, layout.read))
    return found


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder at any depth, links to folders followed.

    What `get_corpus` has fetched so far, and not turned into sets, is no part of one.
    """
    files, walked = [], set()
    for top, folders, names in os.walk(folder, followlinks=True):
        place = os.path.realpath(top)
        if place in walked:  # a link in a circle
            folders.clear()
            continue
        walked.add(place)
        if "sources" in folders and "downloads" in folders:
            folders.remove("downloads")
        files += [Path(top, name) for name in names]
    return files


def check_parts(
    found: Iterable[str], wanted: Sequence[str], what: str, folder: str | Path
) -> None:
    """Raise `InputError` naming every part that is wanted and has no file.

    Args:
        found: The parts there are.
        wanted: The parts there must be, one or more.
        what: The set, how its files are called and where they come from.
        folder: The folder that was looked through.
    """
    if not wanted:
        raise InputError("Name at least one part of the set. Received: none.")
    there = set(found)
    if missing := [part for part in wanted if part not in there]:
        raise InputError(
            f"`{folder}` lacks {', '.join(missing)} of {what} Found: "
            f"{', '.join(sorted(there)) or 'none'}."
        )


def read_part(
    files: Sequence[Found], fact: Callable[[list[Any]], Any], pairs: int | None = None
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
    rows = first.read(first.path)
    if pairs is not None and len(rows) != pairs:
        raise InputError(
            f"`{first.path}` must have {pairs:,} pairs, as the set was published. "
            f"Received: {len(rows):,}. Get the file again, or give `pairs=None` if it "
            "is a set of your own."
        )
    for other in others:
        if fact(other.read(other.path)) != fact(rows):
            raise InputError(
                f"`{first.path}` and `{other.path}` are called the same part of the "
                "set and differ. Move away the one that is not meant."
            )
    return rows


def sorted_gold(rows: Sequence[tuple[float, str, str]]) -> list[float]:
    """Return what two files of one similarity track have in common."""
    return sorted(row[0] for row in rows)


def mean_scores(tracks: Mapping[str, float]) -> float:
    """Return the unweighted mean of some tracks, to four decimals."""
    return round(sum(tracks.values()) / len(tracks), 4)
