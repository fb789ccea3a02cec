"""Checksums that detect changed files."""

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import cached, digest, read_json, read_table, write_json

ANEW = "Delete the folder; it is built again."
READ = 1 << 20  # bytes at a time


class DamagedError(InputError):
    """Files of ours that are not as they were written; they can be made again."""


def write_meta(path: Path, meta: Mapping[str, Any], what: str) -> None:
    """Write the JSON that describes a folder of ours, and what else is in it by now.

    Args:
        path: The file in the folder.
        meta: What it says: `version` and more.
        what: What the folder holds.
    """
    write_json(path, sealed({**meta, "files": checksums(path.parent)}, what))


def read_meta(path: Path, version: int, what: str) -> dict[str, Any]:
    """Read what `write_meta` wrote, and compare the folder's files with it.

    Args:
        path: The file in the folder.
        version: The format that this library reads.
        what: What the folder holds, for messages.

    Raises:
        InputError: It is not there, or of another version; as `DamagedError` where it
            or another file is not as it was written.
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
    content = unsealed(meta, what)
    lost = damaged(path.parent, content.get("files", {})) if content else [path.name]
    if content is None or lost:
        raise DamagedError(
            f"`{path.parent}` holds {what} and must be as it was written. Received: "
            f"changes in {', '.join(lost)}. {ANEW}"
        )
    return content


def checksum(path: Path) -> str:
    """Return a file's size and CRC-32: three times as fast as a hash, for damage.

    It finds every flipped bit, and other damage but for one case in 2^32.
    """
    size = crc = 0
    with open(path, "rb") as handle:
        while block := handle.read(READ):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return f"{size} {crc:08x}"


cached_checksum = cached(checksum)


def checksums(root: Path, paths: Iterable[Path] | None = None) -> dict[str, str]:
    """Return the checksums of files, of folders with all in them, by name under `root`.

    Args:
        root: A folder.
        paths: By default everything in it.
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


def damaged(root: Path, expected: Mapping[str, str]) -> list[str]:
    """Return the names of files that are gone or have other checksums than expected."""
    return [
        name
        for name, known in expected.items()
        if not (root / name).is_file() or cached_checksum(root / name) != known
    ]


def sealed(value: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return an object for a JSON file that `unsealed` knows again.

    Args:
        value: What is kept.
        owner: What it belongs to: the same file of another owner is not taken for it.
    """
    plain = json.loads(json.dumps(value))  # as it is read back
    return plain | {"seal": _seal(plain, owner)}


def unsealed(value: Any, owner: str) -> dict[str, Any] | None:
    """Return what `sealed` was given; None if anything was changed since."""
    if not isinstance(value, dict):
        return None
    content = {key: inner for key, inner in value.items() if key != "seal"}
    return content if value.get("seal") == _seal(content, owner) else None


def _seal(value: dict[str, Any], owner: str) -> str:
    return digest(json.dumps(value, sort_keys=True), owner)


def read_sealed(path: Path, owner: str) -> dict[str, Any] | None:
    """Return what a JSON file holds under its seal; None if it is damaged."""
    try:
        return unsealed(read_json(path), owner)
    except (OSError, ValueError):  # whatever is wrong with it
        return None
