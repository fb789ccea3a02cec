"""Zip and tar archives, read member by member; nothing is ever unpacked by its name."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from keras_msd import limits
from keras_msd.checks import InputError, explained
from keras_msd.data.readers.lines import decode_lines

# What begins a compressed tar, and what opens it.
PACKED: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
# Headers that come one after the other are read one inside the other; those of LZMA ask
# for up to 4 GB.
ERRORS = (
    *(EOFError, MemoryError, OSError, RecursionError, ValueError),
    *(lzma.LZMAError, zlib.error),
)
ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, *ERRORS)
TAR_ERRORS = (tarfile.TarError, *ERRORS)
WRONG = "It is not the archive of this corpus: delete it."
SMALL = 1 << 20  # bytes that any archive may hold


Lines = Iterator[tuple[int, str]]


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file whose members all have harmless names and sizes.

    Raises:
        InputError: The archive is damaged, also where the reading inside the `with`
            block meets the damage; or a member is locked, leads out of the folder, or
            is far too large.
    """
    damaged = partial(_damaged, path)
    with explained(damaged, *ZIP_ERRORS), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        _check(path, names, len(names), sum(member.file_size for member in members))
        if any(member.flag_bits & 1 for member in members):
            raise InputError(f"`{path}` is locked with a password. {WRONG}")
        yield archive


def zip_member(archive: zipfile.ZipFile, ending: str) -> str:
    """Return the one member that ends so; raise `InputError` if there is not one."""
    names = archive.namelist()
    members = [name for name in names if name.endswith(ending)]
    if len(members) != 1:
        raise InputError(
            f"`{archive.filename}` must hold one file `*{ending}`. Received: "
            f"{', '.join(members) or 'none'}, among {', '.join(names[:9])}."
        )
    return members[0]


def zip_lines(archive: zipfile.ZipFile, member: str) -> Lines:
    """Yield (line number, line) of a member, as `readers.lines.read_lines`."""
    with archive.open(member) as handle:
        yield from decode_lines(handle, f"{archive.filename}, member {member}")


def tar_lines(path: Path) -> Iterator[tuple[str, Lines]]:
    """Yield (name, its lines) of a compressed tar's files, each read before the next.

    Raises:
        InputError: As `open_zip`; or a member is a link or a device.
    """
    total, damaged = 0, partial(_damaged, path)
    with (
        explained(damaged, *TAR_ERRORS),
        _unpacked(path) as content,
        tarfile.open(fileobj=_Short(path, content), mode="r:") as archive,  # type: ignore[call-overload]
    ):
        for number, member in enumerate(archive, 1):
            total += member.size
            _check(path, [member.name], number, total)
            if member.isdir():
                continue
            handle = archive.extractfile(member) if member.isfile() else None
            if handle is None:
                raise InputError(
                    f"`{path}` holds `{member.name}`, which is a link or a device. "
                    f"{WRONG}"
                )
            lines = decode_lines(handle, f"{path}, member {member.name}")
            yield member.name, _whole(path, lines)


def _unpacked(path: Path) -> BinaryIO:
    with open(path, "rb") as handle:
        start = handle.read(max(map(len, PACKED)))
    opens = (PACKED[magic] for magic in PACKED if start.startswith(magic))
    return next(opens, open)(path, "rb")


class _Short:
    """A file from which little is taken at once: `tarfile` reads headers whole."""

    def __init__(self, path: Path, handle: BinaryIO) -> None:
        self.path, self.handle = path, handle
        self.seek, self.tell = handle.seek, handle.tell

    def read(self, size: int) -> bytes:
        limits.ARCHIVE_HEADER.check(size, f"`{self.path}`", WRONG)
        return self.handle.read(size)


def _whole(path: Path, lines: Lines) -> Lines:
    with explained(partial(_damaged, path), *TAR_ERRORS):
        yield from lines


def _damaged(path: Path, error: Exception) -> str:
    return (
        f"`{path}` is a damaged or truncated archive ({error}). Delete it and give the "
        "command again."
    )


def _check(path: Path, names: list[str], count: int, size: int) -> None:
    limits.MEMBERS.check(count, f"`{path}`", WRONG)
    for name in names:
        parts = name.replace("\\", "/").split("/")
        if ".." in parts or not parts[0] or ":" in parts[0] or "\0" in name:
            raise InputError(
                f"`{path}` holds {name!r:.200}, a name that leads out of the folder. "
                f"{WRONG}"
            )
    packed = path.stat().st_size
    limit = min(limits.UNPACKED.most, max(SMALL, limits.TIMES.most * packed))
    if size > limit:
        raise InputError(
            f"`{path}` may unpack to {limit:,} bytes. Received: {size:,}. {WRONG}"
        )
