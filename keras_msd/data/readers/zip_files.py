"""Files inside a zip archive, read where they are; nothing is unpacked to the disk."""

import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import Any

from keras_msd.checks import explained


class ZipMember(PosixPath):
    """A file in a zip archive; its name goes on from that of the archive.

    It can be looked for, listed and opened for reading.

    Raises:
        InputError: The archive is damaged or locked (raised where it is looked at).
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
        return [ZipMember(path, name) for name in names if name[:2] != "__"]

    def open(self, mode: str = "rb") -> Any:  # type: ignore[override]
        """Open the file for reading bytes."""
        path = self.archive
        name = str(self)[len(str(path)) + 1 :]
        with _explained(path):
            return zipfile.ZipFile(path).open(name)


def is_zip(path: Path) -> bool:
    """Tell by its name whether a file on the disk is a zip archive."""
    return type(path) is not ZipMember and path.suffix == ".zip" and path.is_file()


@lru_cache(maxsize=8)
def _names(path: Path, _: int) -> list[str]:
    """Return the names of an archive's files; the number is when it was changed."""
    with _explained(path), zipfile.ZipFile(path) as archive:
        return [one.filename for one in archive.infolist() if not one.is_dir()]


def _explained(path: Path) -> AbstractContextManager[None]:
    message = (
        f"`{path}` is a damaged zip archive, or locked with a password. Download or "
        "compress it again, or unzip it and give the file."
    )
    return explained(message, zipfile.BadZipFile, RuntimeError, OSError, ValueError)
