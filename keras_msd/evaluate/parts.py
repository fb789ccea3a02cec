"""Parts of evaluation sets: the files of each language, and halves.

One half is for tuning, one for scores that are published. Only the English text decides
the half of a pair, so it is the same in every language.
"""

import glob
import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from keras_msd.checks import InputError, existing_folder, one_of

WHOLE: Final = "all"
CHOOSE: Final = "choose"
REPORT: Final = "report"
Part = Literal["all", "choose", "report"]
PARTS = get_args(Part)


class SetFile(NamedTuple):
    """One part of a set, such as a language: its files, and what reads them.

    Attributes:
        paths: The files.
        read: From their paths to the content of the part.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("a.txt").write_text("A text.")
        >>> part = msd.evaluate.SetFile((Path("a.txt"),), Path.read_text)
        >>> part.read(*part.paths)
        'A text.'
    """

    paths: tuple[Path, ...]
    read: Callable[..., Any]


def read_parts(parts: Mapping[str, SetFile]) -> dict[str, Any]:
    """Return the content of each part of a set."""
    return {name: part.read(*part.paths) for name, part in parts.items()}


def paths_below(folder: str | Path) -> list[Path]:
    """Return all paths in a folder and its subfolders, also through links.

    Raises:
        InputError: The folder does not exist.
    """
    existing_folder(folder, "folder of the set")
    names = sorted(glob.glob("**", root_dir=folder, recursive=True))
    return [Path(folder, name) for name in names]


def find_parts(
    folder: str | Path,
    layouts: Mapping[str, Callable[..., Any]],
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
    files = paths_below(folder)
    parts: dict[str, SetFile] = {}
    for name, read in layouts.items():
        for path in files:
            if match := re.fullmatch(name, path.name):
                parts.setdefault(part(match), SetFile((path,), read))
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


def texts_by_id(rows: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """Return texts by id, in their order.

    Args:
        rows: (file and line number, for messages; id and text) of each line.

    Raises:
        InputError: An id is used twice.
    """
    texts: dict[str, str] = {}
    for where, (one, text) in rows:
        if one in texts:
            raise InputError(
                f"{where}: an id may be used once. Received: {one!r:.60} again. Remove "
                "one of the lines, or give it another id; of a published set, download "
                "the file again."
            )
        texts[one] = text
    return texts


def named(part: str) -> dict[str, str]:
    """Return `part` as a keyword argument; nothing for the whole set."""
    return {} if part == WHOLE else {"part": part}


def finite(text: str, where: str, what: str) -> float:
    """Return a number of a file.

    Args:
        text: The field.
        where: File and line number, for the error message.
        what: What the number is, for the error message.

    Raises:
        InputError: It is no number, or not finite.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"{where}: {what} must be a finite number. Received: {text!r:.40}. Correct "
            "the line."
        )
    return value


def half_of(text: str) -> str:
    """Return the half of an English sentence: "choose" or "report".

    The half is "choose" if the first byte of the SHA-256 of the text (NFC, stripped,
    UTF-8) is even, and "report" if it is odd.
    """
    first = hashlib.sha256(_plain(text).encode()).digest()[0]
    return REPORT if first % 2 else CHOOSE


def halves(pairs: Iterable[Sequence[str]]) -> list[str]:
    """Return the half of each pair of English sentences; no sentence is in both.

    Pairs that share a sentence, directly or through other pairs, are in one half. It is
    the half of their smallest sentence, by code points.
    """
    smaller: dict[str, str] = {}  # a smaller linked sentence, or the sentence itself

    def smallest(text: str) -> str:
        while (below := smaller.setdefault(text, text)) != text:
            smaller[text] = smaller[below]  # a shortcut for the next search
            text = smaller[text]
        return text

    pairs = [(_plain(first), _plain(second)) for first, second in pairs]
    for pair in pairs:
        low, high = sorted(map(smallest, pair))
        smaller[high] = low
    return [half_of(smallest(first)) for first, _ in pairs]


def rows_of(part: str, of: Iterable[str], what: str) -> list[int]:
    """Return the rows of a part.

    Args:
        part: "all", "choose" or "report".
        of: The half of each row.
        what: Name of the rows, for the error message.

    Raises:
        InputError: There is no such part, or it has no row.
    """
    one_of(PARTS, part=part)
    rows = [row for row, half in enumerate(of) if part in (WHOLE, half)]
    if not rows:
        raise InputError(
            f"{what} must have a pair to score. Received: none in the part {part!r}. "
            "Add pairs, or score all of them."
        )
    return rows


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()
