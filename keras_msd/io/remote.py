"""Remote files and folders (`s3://`, `gs://`) by fsspec; models of the hub."""

import glob
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PosixPath
from tempfile import TemporaryDirectory
from typing import Any

from keras_msd.checks import InputError, explained, install_extra, require
from keras_msd.io.files import atomic_path, remove

MARK, FILE = "://", "file://"
BUFFER = 1 << 20  # bytes that are read at a time
EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "hf": "hf",
}  # by protocol, the extra of this package
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # organisation/model
# Weights, settings and vocabularies only: nothing that can run.
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model"]


class RemotePath(PosixPath):
    """A remote file or folder as a path.

    `name`, `parent`, `/` and the like work as for any path, and so does pickling. Only
    the methods defined here access the remote file; all others of `Path` would access
    this machine's disk.

    Raises:
        InputError: The package for this protocol is not installed. It is raised at the
            first access.
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", MARK, 1)

    @property
    def protocol(self) -> str:
        """The text before `://`."""
        return self.parts[0].removesuffix(":")

    def exists(self) -> bool:
        """Return whether a file or folder has this name."""
        return self._call("exists")

    def is_file(self) -> bool:
        """Return whether a file has this name."""
        return self._call("isfile")

    def is_dir(self) -> bool:
        """Return whether there are files whose names begin with this name and `/`."""
        return self._call("isdir")

    def iterdir(self) -> Iterator["RemotePath"]:  # type: ignore[override]
        """Yield the files and folders in this folder."""
        for name in self._call("ls", detail=False):
            yield self / name.rstrip("/").rpartition("/")[2]

    def open(self, mode: str = "rb") -> Any:  # type: ignore[override]
        """Open the file, for reading or writing bytes."""
        handle = self._call("open", mode)
        # Files of fsspec have no `readline(limit)`, and search for line ends in Python.
        return io.BufferedReader(handle, BUFFER) if mode == "rb" else handle

    def _call(self, action: str, *given: Any, **named: Any) -> Any:
        system, where = _system(self)
        return getattr(system, action)(where, *given, **named)


def as_path(place: str | Path) -> Path:
    """Return a `RemotePath` for an address with `://`, else a `Path`."""
    if isinstance(place, Path):
        return place
    if place.startswith(FILE):
        return Path(place.removeprefix(FILE))
    return RemotePath(place) if MARK in place else Path(place)


def glob_files(pattern: Path) -> list[Path]:
    """Return the paths that match a pattern, sorted."""
    if isinstance(pattern, RemotePath):
        system, where = _system(pattern)
        found = map(system.unstrip_protocol, system.glob(where))
        return sorted(RemotePath(name) for name in found)
    return sorted(Path(name) for name in glob.glob(str(pattern)))


@contextmanager
def write_folder(place: str | Path) -> Iterator[Path]:
    """Yield an empty local folder, and move its content to `place` on success.

    A local `place` appears complete or not at all. To a remote one the files are sent
    one by one, `.json` last, because readers refuse a folder without its metadata.

    Raises:
        InputError: As for `atomic_path` and `RemotePath`.
    """
    place = as_path(place)
    if isinstance(place, RemotePath):
        with TemporaryDirectory() as temporary:
            yield Path(temporary)
            _upload(Path(temporary), place)
        return
    with atomic_path(place) as folder:
        folder.mkdir()
        yield folder


def _upload(folder: Path, place: RemotePath) -> None:
    system, where = _system(place)
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (path.suffix == ".json", path)):
        name = f"{where}/{path.relative_to(folder).as_posix()}"
        system.makedirs(name.rpartition("/")[0], exist_ok=True)
        system.put_file(str(path), name)


def write_file(place: Path, content: bytes) -> None:
    """Write a local or remote file; it appears complete or not at all."""
    if isinstance(place, RemotePath):
        with place.open("wb") as handle:
            handle.write(content)
        return
    with atomic_path(place) as temporary:
        temporary.write_bytes(content)


def delete(place: Path) -> None:
    """Delete a file, or a folder and its content; do nothing if it does not exist."""
    if not isinstance(place, RemotePath):
        remove(place)
    elif place.exists():
        place._call("rm", recursive=True)


def fetch_folder(place: str, folder: str | Path) -> Path:
    """Download a folder, such as a table or store, and return the local path.

    Tables and stores are memory-mapped, so they must be on a disk.

    Args:
        place: Address of the folder, such as `gs://bucket/table`.
        folder: The local folder to create. It appears when the download is complete.

    Raises:
        InputError: The address is not remote, no file is there, `folder` exists, or as
            for `RemotePath`.

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
            f"`place` must be an address such as `s3://bucket/folder`. Received: "
            f"{place!r}. Open a local folder directly."
        )
    if folder.exists():
        raise InputError(
            f"`folder` must not exist. Received: `{folder}`. Give another."
        )
    system, where = _system(source)
    if not system.find(where):
        raise InputError(f"`{source}` holds no file. Give the address of a folder.")
    with atomic_path(folder) as temporary:
        system.get(f"{where}/", str(temporary), recursive=True)
    return folder


def _system(path: RemotePath) -> tuple[Any, str]:
    """Return the file system of a path, and the path's name in it."""
    from fsspec.core import url_to_fs

    extra = EXTRAS.get(path.protocol)
    repair = (
        "Install the package of fsspec for this protocol, or download the file and "
        "give its path."
    )
    if extra:
        repair = install_extra(extra)

    def message(error: Exception) -> str:
        return f"`{path}` cannot be reached ({error}). {repair}"

    with explained(message, ImportError, ValueError):
        return url_to_fs(str(path))


def fetch(name: str) -> Path:
    """Download a checkpoint, or find it in the hub's cache, and return its folder.

    Args:
        name: "hf://organisation/model", or "hf://organisation/model@revision".

    Raises:
        InputError: The name has another form, `huggingface_hub` is not installed, or
            the hub cannot be reached or has no such model.
    """
    parts = re.fullmatch(rf"hf://({HUB_NAME.pattern})(?:@([\w./-]+))?", name)
    if not parts:
        raise InputError(
            f"A hub name must read hf://organisation/model. Received: {name!r}. "
            "For a folder on this machine, give its path without hf://."
        )
    hub = require("huggingface_hub", "hf", f"Reading {name}")
    try:
        folder = hub.snapshot_download(
            parts[1], revision=parts[2], allow_patterns=PATTERNS
        )
    # The client's errors share no base class across its versions and its transports.
    except Exception as error:
        raise InputError(
            f"`{name}` could not be fetched ({type(error).__name__}: {error}). Check "
            "the name and the network, or give the path of a folder that holds the "
            "model's files."
        ) from error
    return Path(folder)
