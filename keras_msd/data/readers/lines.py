"""What a corpus file's name says, and its lines or CSV rows, plain or gzip, UTF-8."""

import csv
import gzip
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO, BinaryIO

from keras_msd.checks import InputError, existing_file, explained
from keras_msd.data.pair import CODE, ENGLISH
from keras_msd.limits import LINE

PAIR = re.compile(rf"(?:^|[._-])({CODE})-({CODE})$")
LONGEST = LINE.most
SHOWN, KINDS = 5, 50  # of the dirty rows of a file, of the faults that are told apart
PLACE = re.compile(r"\b(?:line|row) \d+")


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, through gzip if its first two bytes say so.

    Raises:
        InputError: The file is missing, empty, or a damaged gzip file (raised where
            the reading inside the `with` block meets the damage).
    """
    existing_file(path, "text file")
    with path.open("rb") as raw:
        magic = raw.read(2)
        if not magic:
            raise InputError(f"`{path}` is empty. Give a file with at least one line.")
        raw.seek(0)
        if magic != b"\x1f\x8b":
            yield raw
            return
        damage = (EOFError, gzip.BadGzipFile, zlib.error)
        with explained(partial(_damaged, path), *damage), gzip.open(raw) as unpacked:
            yield unpacked  # type: ignore[misc]


def _damaged(path: Path, error: Exception) -> str:
    return (
        f"`{path}` is a damaged or truncated gzip file ({error}). Download or compress "
        "it again."
    )


class DirtyRows:
    """Rows of one file that cannot be read and are skipped, up to a number.

    Args:
        most: Rows to skip; one more ends the reading.

    Attributes:
        count: Rows that were skipped.
    """

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self._times = Counter[str]()
        self._messages = defaultdict[str, list[str]](list)

    def skip(self, error: InputError) -> None:
        """Count a row; raise its error if that is one too many."""
        if self.count == self.most:
            before = f" {self.most} such rows were skipped before."
            raise InputError(f"{error}{before if self.most else ''}") from error
        self.count += 1
        # The rule that a row breaks is the same in each message, but for its place.
        kind = PLACE.sub("", str(error).partition(" Received: ")[0])
        if kind not in self._times and len(self._times) == KINDS:
            return
        self._times[kind] += 1
        if len(self._messages[kind]) < SHOWN:
            self._messages[kind].append(str(error))

    def worst(self) -> list[str]:
        """Return what was wrong with a few rows.

        One row of each kind of fault comes first, of the most frequent kind before all
        others, then a second one of each, and so on.
        """
        kinds = (self._messages[kind] for kind, _ in self._times.most_common())
        return [it for row in zip_longest(*kinds) for it in row if it][:SHOWN]


def read_lines(path: Path, dirty: DirtyRows | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end).

    Only a line feed ends a line; a carriage return before it is dropped, and so is a
    byte order mark at the start.

    Args:
        path: The file.
        dirty: Lines that are not UTF-8 are skipped as it says; by default none are.

    Raises:
        InputError: As `open_bytes`; or a line is not UTF-8 or is over 1 MiB.
    """
    with open_bytes(path) as handle:
        yield from decode_lines(handle, str(path), dirty)


def read_texts(path: Path) -> list[str]:
    """Return all lines of `read_lines`, without their numbers."""
    return [line for _, line in read_lines(path)]


def decode_lines(
    handle: IO[bytes], name: str, dirty: DirtyRows | None = None
) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) of an open file that messages call `name`.

    Raises:
        InputError: As `read_lines`.
    """
    number = 0
    while data := handle.readline(LONGEST):
        number += 1
        if len(data) == LONGEST and not data.endswith(b"\n"):
            raise InputError(
                f"`{name}`, line {number}: a line may have {LONGEST} bytes. "
                "Received: more. Put each sentence on a line of its own."
            )
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        repair = "Convert the file, for example with: iconv -t UTF-8"
        try:
            line = decoded(data, "UTF-8", f"`{name}`, line {number}", repair)
        except InputError as error:
            (dirty or DirtyRows(0)).skip(error)
            continue
        yield number, line.removesuffix("\n").removesuffix("\r")
    if number == 0:
        raise InputError(f"`{name}` is empty. Give a file with at least one line.")


def decoded(data: bytes, charset: str, where: str, repair: str) -> str:
    """Return text; raise `InputError`, naming the place, if it is not in `charset`."""
    try:
        return data.decode(charset)
    except UnicodeError as error:
        received = str(error)
        if isinstance(error, UnicodeDecodeError):
            byte, position = data[error.start], error.start + 1
            received = f"byte 0x{byte:02x} at position {position}"
        raise InputError(
            f"{where}: text must be {charset}. Received: {received}. {repair}"
        ) from error


def csv_rows(path: Path, separator: str = ",") -> Iterator[tuple[str, list[str]]]:
    """Yield (where it stands, for messages; fields) of each row of a CSV file.

    A field in quotes may hold separators, quotes and line feeds.

    Raises:
        InputError: The file is not CSV, or cannot be read.
    """
    lines = (f"{line}\n" for _, line in read_lines(path))
    reader = csv.reader(lines, strict=True, delimiter=separator)

    def damage(error: Exception) -> str:
        place = f"`{path}`, line {reader.line_num}"
        return f"{place}: the file must be CSV ({error}). Get it again."

    with explained(damage, csv.Error):
        for fields in reader:
            yield f"`{path}`, line {reader.line_num}", fields


def is_english(code: str) -> bool:
    """Tell whether a language code is English of any country, such as `en-GB`."""
    return re.split("[-_]", code.lower())[0] in ("en", "eng")


def unpacked(path: Path) -> Path:
    """Return the name, without folders and without `.gz`."""
    return Path(path.name.removesuffix(".gz"))


def languages_of(path: Path) -> tuple[str, str] | None:
    """Return the languages of source and target that a name says, None if it does not.

    In `<corpus>.en-<xx>.<suffix>` and `<corpus>.<xx>-en.<suffix>` English is the
    source, in `<corpus>.<xx>-<yy>.<suffix>` the first language. Without English only
    what follows a point counts: `wmt-de.tmx` names no pair.
    """
    match = PAIR.search(unpacked(path).stem)
    if match is None:
        return None
    others = [code for code in match.groups() if not is_english(code)]
    if len(others) == 1:
        return ENGLISH, others[0]
    return (match[1], match[2]) if others and match[0][0] == "." else None


def english_comes_second(path: Path) -> bool:
    """Tell whether a name such as `<corpus>.<xx>-en.tsv` puts English second.

    In `tatoeba.<xxx>-eng.tsv.gz`, the set's own name, the order says nothing.
    """
    match = PAIR.search(unpacked(path).stem)
    return match is not None and re.split("[-_]", match[2])[0] == "en"
