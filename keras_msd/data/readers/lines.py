"""Text files, compressed or in archives: their lines, CSV rows and what names say."""

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from itertools import chain
from pathlib import Path, PosixPath, PurePosixPath
from shlex import quote
from typing import Any, BinaryIO

from keras_msd.checks import InputError, existing_file, explained, require
from keras_msd.data.languages import language_name, likely_charset
from keras_msd.data.pair import CODE, ENGLISH
from keras_msd.io.files import LINE
from keras_msd.io.remote import as_path

PAIR = re.compile(rf"(?:^|[._-])({CODE})-({CODE})$")
LONGEST = LINE.most
SEPARATOR = re.compile(r'sep=([^"])\s*|"sep=(.)"\s*', re.IGNORECASE)
SEPARATORS = ",;\t|"  # in many countries, spreadsheets write semicolons


class _ZstReader(io.RawIOBase):
    """Reads the frames of a .zst file; a truncated frame is an error."""

    BLOCK = 1 << 11  # compressed bytes read at a time: at most 64 MB of text

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


# The first bytes of compressed files, and the functions that open them.
COMPRESSED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": lambda raw: io.BufferedReader(_ZstReader(raw)),
}
PACKERS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}  # by suffix
# Archives and old Excel workbooks (OLE) are not text.
NO_TEXT = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
}
MARKS = (  # the longer ones first
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
HIGHEST = 9  # no text has many control characters below
SAMPLE = 1 << 16  # bytes that are looked at to guess an encoding
TO_CSV = 'Save the sheet as CSV ("CSV UTF-8" in Excel) and give that file.'


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; its first bytes tell whether it is compressed.

    Raises:
        InputError: The file is missing, empty or damaged; damage is found while the
            file is read. Or zstandard is not installed (extra `zstd`).
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
        if getattr(error, "errno", None) is not None:  # an error of the system
            raise
        packer = PACKERS.get(path.suffix, "compressed")
        raise InputError(
            f"`{path}` is a damaged or truncated {packer} file ({error}). Download or "
            "compress it again."
        ) from error


class ZipMember(PosixPath):
    """A file in a zip archive; its path begins with that of the archive.

    It can be tested, listed and opened for reading; nothing is unpacked to the disk.

    Raises:
        InputError: The archive is damaged or locked; raised when it is read.
    """

    @property
    def archive(self) -> Path:
        """Path of the archive."""
        places = (Path(place) for place in (self, *self.parents))
        return next(place for place in places if place.is_file())

    def is_file(self) -> bool:
        """Tell whether the archive contains this file."""
        return self in self.iterdir()

    exists = is_file

    def is_dir(self) -> bool:
        """Tell whether this is the archive itself, which is read as a folder."""
        return not self.is_file()

    def iterdir(self) -> Iterator["ZipMember"]:  # type: ignore[override]
        """Yield the files of the archive, also in folders, without those of macOS."""
        path = self.archive
        names = _zip_names(path, path.stat().st_mtime_ns)
        yield from (ZipMember(path, name) for name in names if name[:2] != "__")

    def open(self, mode: str = "rb") -> Any:  # type: ignore[override]
        """Open the file for reading bytes."""
        path = self.archive
        name = str(self)[len(str(path)) + 1 :]
        names = _zip_names(path, path.stat().st_mtime_ns)
        with _no_damaged_zip(path):
            return zipfile.ZipFile(path).open(names[name])


def is_zip(path: Path) -> bool:
    """Tell by its name whether a path is a zip archive on the disk."""
    return type(path) is not ZipMember and path.suffix == ".zip" and path.is_file()


@lru_cache(maxsize=8)
def _zip_names(path: Path, _: int) -> dict[str, str]:
    """Return an archive's files: by path, such as `x`, the name there, such as `./x`.

    The number is the archive's time of change.
    """
    with _no_damaged_zip(path), zipfile.ZipFile(path) as archive:
        files = [one.filename for one in archive.infolist() if not one.is_dir()]
    return {str(PurePosixPath(name)): name for name in files}


def _no_damaged_zip(path: Path) -> AbstractContextManager[None]:
    message = (
        f"`{path}` is a damaged zip archive, or locked with a password. Download or "
        "compress it again, or unzip it and give the file."
    )
    return explained(message, zipfile.BadZipFile, RuntimeError, OSError, ValueError)


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes of the line with its end).

    Only a line feed ends a line. A byte order mark at the start is dropped, also where
    files were joined.

    Raises:
        InputError: See `open_bytes`; or a line is over 1 MiB.
    """
    number = 0
    with open_bytes(path) as handle:
        while data := handle.readline(LONGEST):
            number += 1
            if len(data) == LONGEST and not data.endswith(b"\n"):
                raise InputError(
                    f"`{path}`, line {number}: a line may have {LONGEST} bytes. "
                    "Received: more. Put each sentence on a line of its own."
                )
            data = data.removeprefix(b"\xef\xbb\xbf")
            if number == 1:
                _check_start(data, path)
            yield number, data
    if number == 0:
        raise InputError(f"`{path}` is empty. Give a file with at least one line.")


def line_text(path: Path, number: int, data: bytes, codes: Sequence[str] = ()) -> str:
    """Return a line as text without its end.

    Args:
        path: The file, for the message.
        number: Number of the line.
        data: The line.
        codes: Codes of the languages of the file, which help to guess its encoding.

    Raises:
        InputError: The line is not UTF-8.
    """
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InputError(
            f"`{path}`, line {number}: text must be UTF-8. Received: byte "
            f"0x{data[error.start]:02x} at position {error.start + 1}. "
            f"{_repaired(path, data, codes)}"
        ) from error


def _repaired(path: Path, data: bytes, codes: Sequence[str]) -> str:
    """Return how to repair a file with a line that is not UTF-8."""
    others, mixed = _start(path)
    if mixed:  # to convert it would damage the lines that are UTF-8
        return "Other lines are UTF-8: correct this line, or remove it."
    charset = likely_charset(others + data, codes)
    rule = f"If it is Latin-1 ({charset}), or name its charset, convert it"
    if charset.language:
        rule = f"It reads as {language_name(charset.language)} in {charset}. Convert it"
    return f"{rule}: {_iconv(path, charset.name)}"


def _start(path: Path) -> tuple[bytes, bool]:
    """Return the first lines that are not UTF-8, and whether others need UTF-8."""
    with open_bytes(path) as handle:
        lines = handle.read(SAMPLE).splitlines(keepends=True)
    broken, mixed = [], False
    for line in lines[: -1 if len(lines) > 1 else None]:  # the last may be cut
        try:
            mixed |= not line.decode().isascii()
        except UnicodeDecodeError:
            broken.append(line)
    return b"".join(broken), mixed


def read_lines(path: Path, codes: Sequence[str] = ()) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end).

    Args:
        path: The file.
        codes: As for `line_text`.

    Raises:
        InputError: See `raw_lines`; or a line is not UTF-8.
    """
    for number, data in raw_lines(path):
        yield number, line_text(path, number, data, codes)


def without_blank_end(
    lines: Iterable[tuple[int, bytes]],
) -> Iterator[tuple[int, bytes]]:
    """Yield all lines without blank lines at the end."""
    held: list[tuple[int, bytes]] = []
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
    """Raise `InputError` for files of spreadsheets: workbooks, text in UTF-16."""
    for magic, what in NO_TEXT.items():
        if data.startswith(magic):
            raise InputError(
                f"`{path}` must be a text file. Received: {what}. {TO_CSV}"
            )
    if b"\n" not in data and b"\r" in data.rstrip(b"\r"):
        raise InputError(
            f"`{path}`: lines must end with a line feed. Received: carriage returns "
            f"alone. Convert it: tr '\\r' '\\n' < {quote(str(path))} > "
            f"{quote(str(path.with_name(f'lines.{unpacked(path)}')))}"
        )
    charset = next((name for mark, name in MARKS if data.startswith(mark)), None)
    if charset is None:
        # Without a mark: the high bytes of most letters of Europe and the Near East.
        for name, high in (("UTF-16LE", data[1::2]), ("UTF-16BE", data[::2])):
            if sum(byte < HIGHEST for byte in high) * 2 > len(high):
                charset = name
    if charset:
        raise InputError(
            f"`{path}`: text must be UTF-8. Received: {charset}. Convert it: "
            f"{_iconv(path, charset)}"
        )


def _iconv(path: Path, charset: str) -> str:
    """Return the shell command that converts a file to UTF-8."""
    name, target = str(path), quote(str(path.with_name(f"utf8.{unpacked(path)}")))
    convert = f"iconv -f {charset} -t UTF-8"
    if packer := PACKERS.get(path.suffix):
        return f"{packer} -dc {quote(name)} | {convert} > {target}"
    return f"{convert} {quote(name)} > {target}"


def tabbed(
    path: str | Path, count: int | None = None, form: str = "as the first"
) -> Iterator[tuple[str, list[str]]]:
    """Yield (file and line number, for messages; fields) of each line of a `.tsv`.

    The file may be compressed. It has no header and no quoting.

    Args:
        path: The file.
        count: Number of fields in a line; by default that of the first line.
        form: What the fields are, for messages.

    Raises:
        InputError: The file is missing, empty or damaged, a line is not UTF-8, or it
            has another number of fields.
    """
    for number, line in read_lines(as_path(path)):
        where, fields = f"`{path}`, line {number}", line.split("\t")
        count = count or len(fields)
        if len(fields) != count:
            raise InputError(
                f"{where}: a line must have {count} fields, {form}. Received: "
                f"{len(fields)}, {line!r:.80}. Remove the line or the tabs inside its "
                "texts; of a published set, download the file again."
            )
        yield where, fields


def csv_rows(path: Path, codes: Sequence[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield (file and line number, for messages; fields) of each row of a CSV file.

    A quoted field may contain separators, quotes and line feeds. A first line `sep=;`,
    as Excel writes and reads it, names the separator and is no row; without it, the
    most frequent one of the first line separates. Blanks after separators are no text,
    if the first line has them.

    Args:
        path: The file.
        codes: As for `line_text`.

    Raises:
        InputError: The file is not CSV, or cannot be read.
    """
    numbered = read_lines(path, codes)
    first, head = next(numbered)
    if named := separator_of(head):
        separator, rest, skipped = named, numbered, 1
    else:
        rest, skipped = chain([(first, head)], numbered), 0
        separator = max(SEPARATORS, key=head.count)
    reader = csv.reader(
        (f"{line}\n" for _, line in rest),
        strict=True,
        delimiter=separator,
        skipinitialspace=f"{separator} " in head,
    )

    def damage(error: Exception) -> str:
        place = f"`{path}`, line {reader.line_num + skipped}"
        return (
            f"{place}: the file must be CSV ({error}). A text that begins with a quote "
            'must end with one, and quotes inside it are doubled: "He said '
            '""yes"".". Correct the line, or one before it with an open quote.'
        )

    with explained(damage, csv.Error):
        for fields in reader:
            yield f"`{path}`, line {reader.line_num + skipped}", fields


def separator_of(line: str) -> str | None:
    """Return the separator that a first line such as `sep=;` names, else None."""
    match = SEPARATOR.fullmatch(line)
    return match and (match[1] or match[2])


def is_english(code: str) -> bool:
    """Tell whether a language code is English, with any country, such as `en-GB`."""
    return re.split("[-_]", code.lower())[0] in ("en", "eng")


def unpacked(path: Path) -> Path:
    """Return the name, without folders and without `.gz`, `.bz2`, `.xz` or `.zst`."""
    return Path(path.stem if path.suffix in PACKERS else path.name)


def languages_of(path: Path) -> tuple[str, str] | None:
    """Return the languages of source and target in a file name, None if it has none.

    In `<corpus>.en-<xx>.<suffix>` and `<corpus>.<xx>-en.<suffix>` English is the
    source, in `<corpus>.<xx>-<yy>.<suffix>` the first language. A pair without English
    must follow a dot: `wmt-de.tmx` does not name a pair.
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

    In `tatoeba.<xxx>-eng.tsv.gz`, the name of the set itself, the order has no meaning.
    """
    match = PAIR.search(unpacked(path).stem)
    return match is not None and re.split("[-_]", match[2])[0] == "en"
