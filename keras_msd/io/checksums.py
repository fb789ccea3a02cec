"""Checksums that detect changed files."""

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.io.files import cached, digest, read_json, read_table, write_json

ANEW = "Delete the folder; it is built again."
READ = 1 << 20  # bytes at a time


class DamagedError(InputError):
    """A file that this library wrote was changed since. It can be built again."""


def write_metadata(path: Path, meta: Mapping[str, Any], what: str) -> None:
    """Write a folder's metadata, with the checksums of the files that it holds.

    Args:
        path: The JSON file to write in the folder.
        meta: The metadata, with the number of its format as `version`.
        what: What the folder holds.
    """
    write_json(path, add_seal({**meta, "files": checksums(path.parent)}, what))


def read_metadata(path: Path, version: int, what: str) -> dict[str, Any]:
    """Read a folder's metadata and compare the checksums of its files.

    Args:
        path: The JSON file in the folder, from `write_metadata`.
        version: Number of the format that this library reads.
        what: What the folder holds; `write_metadata` was called with the same.

    Raises:
        InputError: The file is missing or has another version.
        DamagedError: The file or another one in the folder was changed.
    """
    try:
        meta = read_table(path, repair=ANEW)
    except InputError as error:
        raise error if not path.is_file() else DamagedError(f"{error}") from error
    if meta.get("version") != version:
        raise InputError(
            f"`{path.parent}` holds {what} in format {meta.get('version')}; this "
            f"library reads format {version}. {ANEW}"
        )
    content = checked_content(meta, what)
    lost = (
        changed_files(path.parent, content.get("files", {})) if content else [path.name]
    )
    if content is None or lost:
        raise DamagedError(
            f"`{path.parent}` holds {what} and must be as it was written. Received: "
            f"changes in {', '.join(lost)}. {ANEW}"
        )
    return content


def checksum(path: Path) -> str:
    """Return the size and the CRC-32 of a file.

    They detect every flipped bit, and all but one in 2^32 other changes. This takes a
    third of the time of a hash.
    """
    size = crc = 0
    with open(path, "rb") as handle:
        while block := handle.read(READ):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return f"{size} {crc:08x}"


cached_checksum = cached(checksum)


def checksums(root: Path, paths: Iterable[Path] | None = None) -> dict[str, str]:
    """Return the checksums of files, by path relative to `root`.

    Args:
        root: A folder.
        paths: Files and folders in it; default: everything.
    """
    found: dict[str, str] = {}
    for path in sorted(root.iterdir() if paths is None else paths):
        if path.is_dir():
            inner = checksums(path).items()
            name = path.relative_to(root).as_posix()
            found |= {f"{name}/{below}": value for below, value in inner}
        elif path.exists():
            found[path.relative_to(root).as_posix()] = cached_checksum(path)
    return found


def changed_files(root: Path, expected: Mapping[str, str]) -> list[str]:
    """Return the names of the files that are missing or have another checksum.

    Args:
        root: A folder.
        expected: Checksums from `checksums`.
    """
    return [
        name
        for name, known in expected.items()
        if not (root / name).is_file() or cached_checksum(root / name) != known
    ]


def add_seal(value: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return a JSON object with its own checksum as the entry `seal`.

    Args:
        value: The object.
        owner: What the object belongs to, such as the name of its file. The checksum
            includes it, so that a copy under another name does not pass for this one.
    """
    plain = json.loads(json.dumps(value))  # as it is read back
    return plain | {"seal": _seal(plain, owner)}


def checked_content(value: Any, owner: str) -> dict[str, Any] | None:
    """Return the content of an object from `add_seal`, if the checksum matches.

    Args:
        value: The object.
        owner: As for `add_seal`.

    Returns:
        The object without `seal`; None if the checksum does not match.
    """
    if not isinstance(value, dict):
        return None
    content = {key: inner for key, inner in value.items() if key != "seal"}
    return content if value.get("seal") == _seal(content, owner) else None


def _seal(value: dict[str, Any], owner: str) -> str:
    return digest(json.dumps(value, sort_keys=True), owner)


def read_checked(path: Path, owner: str) -> dict[str, Any] | None:
    """Return the content of a JSON file from `add_seal`; None if it is damaged."""
    try:
        return checked_content(read_json(path), owner)
    except (OSError, ValueError):  # whatever is wrong with it
        return None
