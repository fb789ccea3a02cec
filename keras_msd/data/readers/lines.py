"""Opens text files, compressed or not; their lines, CSV rows and what names say."""

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

from keras_msd.checks import InputError, existing_file, explained, require
from keras_msd.data.pair import CODE, ENGLISH
from keras_msd.limits import LINE

PAIR = re.compile(rf"(?:^|[._-])({CODE})-({CODE})$")
LONGEST = LINE.most
SHOWN, KINDS = 5, 50  # faults of a file that are shown, and that are told apart
PLACE = re.compile(r"\b(?:line|row) \d+")


class _ZstReader(io.RawIOBase):
    """Reads the frames of a .zst file; one that is cut short is an error."""

    BLOCK = 1 << 11  # packed bytes at a time: they unpack to 64 MB at most

    def __init__(self, raw: BinaryIO) -> None:
        self._zstandard = require("zstandard", "zstd", "Reading .zst files")
        self._raw = raw
        self._frame: Any = None
        self._packed = self._text = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            self._packed = self._packed or self._raw.read(self.BLOCK)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ends within a frame")
                return 0
            frame = self._frame or self._zstandard.ZstdDecompressor().decompressobj()
            try:
                self._text = frame.decompress(self._packed)
            except self._zstandard.ZstdError as error:
                raise zlib.error(str(error)) from error
            self._frame = None if frame.eof else frame
            self._packed = frame.unused_data
        count = min(len(buffer), len(self._text))
        buffer[:count], self._text = self._text[:count], self._text[count:]
        return count


# The first bytes of a compressed file, and what opens it.
COMPRESSED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": lambda raw: io.BufferedReader(_ZstReader(raw)),
}
PACKERS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}  # by ending
# Archives and old Excel workbooks (OLE), which are no text.
NO_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
}
CATALOGUES = (".po", ".mo")
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
TO_CSV = 'Save the sheet as CSV ("CSV UTF-8" in Excel) and give that file.'


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; its first bytes tell whether it is compressed.

    Raises:
        InputError: The file is missing, empty or damaged (raised where the reading
            inside the `with` block meets the damage); or zstandard is not installed
            (extra `zstd`).
    """
    existing_file(path, "text file")
    try:
        with path.open("rb") as raw:
            start = raw.read(8)
            if not start:
                raise InputError(
                    f"`{path}` is empty. Give a file with at least one line."
                )
            raw.seek(0)
            packed = (it for magic, it in COMPRESSED.items() if start.startswith(magic))
            with next(packed, nullcontext)(raw) as unpacked:
                yield unpacked
    except (EOFError, OSError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
        if getattr(error, "errno", None) is not None:  # of the system, not of the data
            raise
        packer = PACKERS.get(path.suffix, "compressed")
        raise InputError(
            f"`{path}` is a damaged or truncated {packer} file ({error}). Download or "
            "compress it again."
        ) from error


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
        self._first: dict[str, str] = {}  # message of each kind of fault

    def skip(self, error: InputError) -> None:
        """Count a row; raise its error if that is one too many."""
        if self.count == self.most:
            before = f" {self.most} such rows were skipped before."
            raise InputError(f"{error}{before if self.most else ''}") from error
        self.count += 1
        # The rule that a row breaks is the same in each message, but for its place.
        kind = PLACE.sub("", str(error).partition(" Received: ")[0])
        if kind in self._first or len(self._first) < KINDS:
            self._times[kind] += 1
            self._first.setdefault(kind, str(error))

    def worst(self) -> list[str]:
        """Return the first row of each kind of fault, the most frequent kind first."""
        return [self._first[kind] for kind, _ in self._times.most_common(SHOWN)]


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
    dirty, number = dirty or DirtyRows(0), 0
    with open_bytes(path) as handle:
        while data := handle.readline(LONGEST):
            number += 1
            where = f"`{path}`, line {number}"
            if len(data) == LONGEST and not data.endswith(b"\n"):
                raise InputError(
                    f"{where}: a line may have {LONGEST} bytes. Received: more. Put "
                    "each sentence on a line of its own."
                )
            if number == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
                _check_start(data, path)
            try:
                line = decoded(data, "UTF-8", where, partial(_recoded, path))
            except InputError as error:
                dirty.skip(error)
                continue
            yield number, line.removesuffix("\n").removesuffix("\r")
    if number == 0:
        raise InputError(f"`{path}` is empty. Give a file with at least one line.")


def without_blank_end(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield all lines but the blank ones after the last one with text."""
    held: list[tuple[int, str]] = []
    for number, line in lines:
        if line.strip():
            yield from held
            held = []
            yield number, line
        else:
            held.append((number, line))


def read_texts(path: Path) -> list[str]:
    """Return all lines of `read_lines`, without their numbers."""
    return [line for _, line in read_lines(path)]


def _check_start(data: bytes, path: Path) -> None:
    """Raise `InputError` for what spreadsheets write: workbooks, text in UTF-16."""
    for magic, what in NO_TEXT.items():
        if data.startswith(magic):
            raise InputError(
                f"`{path}` must be a text file. Received: {what}. {TO_CSV}"
            )
    charset = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else None
    if charset is None and len(data) > 1:
        # Without a mark: every other byte of Latin letters, tabs and line ends is zero.
        zeros = {(True, False): "UTF-16LE", (False, True): "UTF-16BE"}
        charset = zeros.get((data[0] > 0, data[1] > 0))
    if charset:
        raise InputError(
            f"`{path}`: text must be UTF-8. Received: {charset}. Convert it: "
            f"{_iconv(path, charset)}"
        )


def _recoded(path: Path) -> str:
    """Return how to convert a file whose line is not UTF-8."""
    convert = _iconv(path, "WINDOWS-1252")
    return f"If it is Latin-1 (or name its charset), convert it: {convert}"


def _iconv(path: Path, charset: str) -> str:
    """Return the shell command that writes a file anew in UTF-8."""
    name, target = str(path), quote(str(path.with_name(f"utf8.{unpacked(path)}")))
    convert = f"iconv -f {charset} -t UTF-8"
    if packer := PACKERS.get(path.suffix):
        return f"{packer} -dc {quote(name)} | {convert} > {target}"
    return f"{convert} {quote(name)} > {target}"


def decoded(data: bytes, charset: str, where: str, repair: Callable[[], str]) -> str:
    """Return text; raise `InputError`, naming the place, if it is not in `charset`."""
    try:
        return data.decode(charset)
    except UnicodeError as error:
        received = str(error)
        if isinstance(error, UnicodeDecodeError):
            byte, position = data[error.start], error.start + 1
            received = f"byte 0x{byte:02x} at position {position}"
        raise InputError(
            f"{where}: text must be {charset}. Received: {received}. {repair()}"
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
    """Return the name, without folders and without `.gz`, `.bz2`, `.xz` or `.zst`."""
    return Path(path.stem if path.suffix in PACKERS else path.name)


def languages_of(path: Path) -> tuple[str, str] | None:
    """Return the languages of source and target that a name says, None if it does not.

    In `<corpus>.en-<xx>.<suffix>` and `<corpus>.<xx>-en.<suffix>` English is the
    source, in `<corpus>.<xx>-<yy>.<suffix>` the first language. Without English only
    what follows a dot counts: `wmt-de.tmx` names no pair. Nor does `app.pt-br.po`: a
    catalogue's name has one language and its region.
    """
    name = unpacked(path)
    match = PAIR.search(name.stem)
    if match is None:
        return None
    others = [code for code in match.groups() if not is_english(code)]
    if len(others) == 1:
        return ENGLISH, others[0]
    named = others and match[0][0] == "." and name.suffix not in CATALOGUES
    return (match[1], match[2]) if named else None


def english_comes_second(path: Path) -> bool:
    """Tell whether a name such as `<corpus>.<xx>-en.tsv` puts English second.

    In `tatoeba.<xxx>-eng.tsv.gz`, the set's own name, the order says nothing.
    """
    match = PAIR.search(unpacked(path).stem)
    return match is not None and re.split("[-_]", match[2])[0] == "en"
