"""Places that fsspec reaches, such as `s3://` and `gs://`, used as paths are."""

import glob
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PosixPath
from tempfile import TemporaryDirectory
from typing import Any

from keras_msd.checks import InputError, explained
from keras_msd.files import atomic_path, remove

MARK, FILE = "://", "file://"
BUFFER = 1 << 20  # bytes between fsspec and who reads lines
EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "hf": "hf"}  # by protocol


class RemotePath(PosixPath):
    """A file or folder that fsspec reaches; its name is taken apart as that of a path.

    It can be looked for, listed, opened and pickled; all else that a path can do it
    would do on this machine's disk.

    Raises:
        InputError: Nothing is installed that reaches such places (raised where it is
            first looked at).
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", MARK, 1)

    @property
    def protocol(self) -> str:
        """What stands before `://`."""
        return self.parts[0].removesuffix(":")

    def exists(self) -> bool:
        """Tell whether something is there."""
        return self._reached("exists")

    def is_file(self) -> bool:
        """Tell whether a file is there."""
        return self._reached("isfile")

    def is_dir(self) -> bool:
        """Tell whether files are there that have this name and `/` in front."""
        return self._reached("isdir")

    def iterdir(self) -> Iterator["RemotePath"]:  # type: ignore[override]
        """Yield what lies in this folder."""
        for name in self._reached("ls", detail=False):
            yield self / name.rstrip("/").rpartition("/")[2]

    def open(self, mode: str = "rb") -> Any:  # type: ignore[override]
        """Open the file, for reading or writing bytes."""
        handle = self._reached("open", mode)
        # Files of fsspec know no `readline(limit)`, and look for line ends in Python.
        return io.BufferedReader(handle, BUFFER) if mode == "rb" else handle

    def _reached(self, action: str, *given: Any, **named: Any) -> Any:
        system, where = _system(self)
        return getattr(system, action)(where, *given, **named)


def as_path(place: str | Path) -> Path:
    """Return the path of a place: a `RemotePath` for a text with `://`."""
    if isinstance(place, Path):
        return place
    if place.startswith(FILE):
        return Path(place.removeprefix(FILE))
    return RemotePath(place) if MARK in place else Path(place)


def matching(pattern: Path) -> list[Path]:
    """Return the files that a pattern matches, sorted."""
    if isinstance(pattern, RemotePath):
        system, where = _system(pattern)
        found = map(system.unstrip_protocol, system.glob(where))
        return sorted(RemotePath(name) for name in found)
    return sorted(Path(name) for name in glob.glob(str(pattern)))


@contextmanager
def written_folder(place: str | Path) -> Iterator[Path]:
    """Yield an empty folder on disk, whose content is at `place` on success.

    On disk it appears complete or not at all. Elsewhere files are sent one after the
    other, `.json` last: a folder of ours without its description is refused.

    Raises:
        InputError: As `atomic_path` and `RemotePath`.
    """
    place = as_path(place)
    if isinstance(place, RemotePath):
        with TemporaryDirectory() as temporary:
            yield Path(temporary)
            _send(Path(temporary), place)
        return
    with atomic_path(place) as folder:
        folder.mkdir()
        yield folder


def _send(folder: Path, place: RemotePath) -> None:
    system, where = _system(place)
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (path.suffix == ".json", path)):
        name = f"{where}/{path.relative_to(folder).as_posix()}"
        system.makedirs(name.rpartition("/")[0], exist_ok=True)
        system.put_file(str(path), name)


def write_file(place: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    if isinstance(place, RemotePath):
        with place.open("wb") as handle:
            handle.write(content)
        return
    with atomic_path(place) as temporary:
        temporary.write_bytes(content)


def delete(place: Path) -> None:
    """Delete a file, or a folder with all in it; do nothing if it is not there."""
    if not isinstance(place, RemotePath):
        remove(place)
    elif place.exists():
        place._reached("rm", recursive=True)


def fetch_folder(place: str, folder: str | Path) -> Path:
    """Copy a folder, such as a table or store, to disk, and return where it is.

    Tables and stores are read through memory maps, which need a disk.

    Args:
        place: A place that fsspec reaches, such as `gs://bucket/table`.
        folder: Where it goes; it appears when complete.

    Raises:
        InputError: No file is there, `folder` exists, or as `RemotePath`.

    Example:
        >>> import fsspec
        >>> _ = fsspec.filesystem("memory").pipe({"/bucket/vectors/a.txt": b"1"})
        >>> folder = msd.data.fetch_folder("memory://bucket/vectors", "v")
        >>> (folder / "a.txt").read_text()
        '1'
    """
    source, folder = as_path(place), Path(folder)
    if not isinstance(source, RemotePath):
        raise InputError(
            f"`place` must be one that fsspec reaches. Received: {place!r}. What lies "
            "on a disk is opened where it is."
        )
    if folder.exists():
        raise InputError(
            f"`folder` must not exist. Received: `{folder}`. Give another."
        )
    system, where = _system(source)
    if not system.find(where):
        raise InputError(f"`{source}` holds no file. Give the place of a folder.")
    with atomic_path(folder) as temporary:
        system.get(f"{where}/", str(temporary), recursive=True)
    return folder


def _system(path: RemotePath) -> tuple[Any, str]:
    """Return the file system of a path, and what the path is called in it."""
    from fsspec.core import url_to_fs

    extra = EXTRAS.get(path.protocol)
    repair = "Install what reaches it."
    if extra:
        repair = f'Install it with: pip install "keras-msd[{extra}]"'

    def message(error: Exception) -> str:
        return f"`{path}` cannot be reached ({error}). {repair}"

    with explained(message, ImportError, ValueError):
        return url_to_fs(str(path))
