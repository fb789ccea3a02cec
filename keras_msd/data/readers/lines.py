"""Lines of a plain or gzip-compressed UTF-8 file, one at a time."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from keras_msd.checks import InputError, existing_file

LONGEST = 1 << 20  # bytes; a longer line is no sentence, and would fill the memory


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, through gzip if its first two bytes say so.

    Raises:
        InputError: The file is missing, empty, or a damaged gzip file (raised where
            the reading inside the `with` block meets the damage).
    """
    existing_file(path, "corpus file")
    with open(path, "rb") as raw:
        magic = raw.read(2)
        if not magic:
            raise InputError(f"`{path}` is empty. Give a file with at least one pair.")
        raw.seek(0)
        if magic != b"\x1f\x8b":
            yield raw
            return
        try:
            with gzip.open(raw) as unpacked:
                yield unpacked  # type: ignore[misc]
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"`{path}` is a damaged or truncated gzip file ({error}). Download or "
                "compress it again."
            ) from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end).

    Only a line feed ends a line; a carriage return before it is dropped, and so is a
    byte order mark at the start.

    Raises:
        InputError: As `open_bytes`; or a line is not UTF-8 or is over 1 MiB.
    """
    with open_bytes(path) as handle:
        yield from decode_lines(handle, str(path))


def decode_lines(handle: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
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
        try:
            line = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"`{name}`, line {number}: text must be UTF-8. Received: byte "
                f"0x{data[error.start]:02x} at position {error.start + 1} of the "
                "line. Convert the file, for example with: iconv -t UTF-8"
            ) from error
        yield number, line.removesuffix("\n").removesuffix("\r")
    if number == 0:
        raise InputError(f"`{name}` is empty. Give a file with at least one pair.")
