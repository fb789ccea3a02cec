"""Files inside a zip archive, read where they are; nothing is unpacked to the disk."""

import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import Any

from keras_msd.checks import InputError, explained
from keras_msd.limits import MEMBERS, TIMES

REPAIR = "Give the file with the pairs alone."


class ZipMember(PosixPath):
    """A file in a zip archive; its name goes on from that of the archive.

    It can be looked for, listed and opened for reading.

    Raises:
        InputError: The archive is damaged, locked or has too many files (raised where
            it is first looked at).
    """

    @property
    def archive(self) -> Path:
        """The archive itself, on the disk."""
        places = (Path(place) for place in (self, *self.parents))
        return next(place for place in places if place.is_file())

    def is_file(self) -> bool:
        """Tell whether the archive has this file."""
        return self in self.archive_files()

    def exists(self) -> bool:
        """Tell whether the archive has this file."""
        return self.is_file()

    def is_dir(self) -> bool:
        """Tell whether this is the archive, which is read as a folder."""
        return not self.is_file()

    def iterdir(self) -> Iterator["ZipMember"]:  # type: ignore[override]
        """Yield the files of the archive, those of its folders too."""
        yield from self.archive_files()

    def archive_files(self) -> list["ZipMember"]:
        """Return the files of the archive, without those that macOS adds."""
        path = self.archive
        names = _names(path, path.stat().st_mtime_ns)
        return [ZipMember(path, name) for name in names]

    def open(self, mode: str = "rb") -> Any:  # type: ignore[override]
        """Open the file for reading bytes."""
        path = self.archive
        name = str(self)[len(str(path)) + 1 :]
        return zipfile.ZipFile(path).open(name)


def is_zip(path: Path) -> bool:
    """Tell by its name whether a file on the disk is a zip archive."""
    return type(path) is not ZipMember and path.suffix == ".zip" and path.is_file()


@lru_cache(maxsize=8)
def _names(path: Path, _: int) -> tuple[str, ...]:
    """Return the names of an archive's files; the number is when it was changed."""
    damage = (zipfile.BadZipFile, NotImplementedError, OSError)
    message = f"`{path}` is a damaged zip archive. Download or compress it again."
    with explained(message, *damage), zipfile.ZipFile(path) as archive:
        files = [one for one in archive.infolist() if not one.is_dir()]
    MEMBERS.check(len(files), f"`{path}`", REPAIR)
    times = sum(one.file_size for one in files) // path.stat().st_size
    TIMES.check(times, f"`{path}`", REPAIR)
    if any(one.flag_bits & 1 for one in files):
        raise InputError(
            f"`{path}` must be open to all. Received: files that are locked with a "
            "password. Unzip it and give the file."
        )
    return tuple(one.filename for one in files if one.filename[:2] != "__")
