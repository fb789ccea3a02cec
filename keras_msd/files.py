"""Files that appear complete or not at all, and hashes of what they hold."""

import hashlib
import json
import os
import shutil
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, existing_file


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that takes its name on success.

    The caller writes a file or a folder there. On an error nothing stays; a finished
    folder replaces an older one of that name, also through a link to it.
    """
    path = Path(path)
    if path.is_dir():
        path = path.resolve()  # "." has no name; a link to a folder stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        yield temporary
        _sync(temporary)
        if path.is_dir():
            _replace_folder(temporary, path)
        else:
            os.replace(temporary, path)
    finally:
        remove(temporary)


def remove(path: Path) -> None:
    """Delete a file or a folder; do nothing if it is not there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _replace_folder(new: Path, path: Path) -> None:
    old = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.old")
    try:
        os.replace(path, old)
        os.replace(new, path)
    finally:  # an interrupt between both must not leave `path` empty
        if path.exists():
            remove(old)
        else:
            os.replace(old, path)


def _sync(path: Path) -> None:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    for file in files:
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` with sorted keys, atomically."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_toml(path: str | Path, repair: str = "Repair it.") -> dict[str, Any]:
    """Read a TOML file; raise `InputError` naming what is wrong, with the repair."""
    return _parsed(path, "TOML", tomllib.loads, repair)


def read_json(path: str | Path) -> Any:
    """Read a JSON file; raise `InputError` naming the line if it is not JSON."""
    repair = "Write the file anew, or take a whole copy of it."
    return _parsed(path, "JSON", json.loads, repair)


def _parsed(
    path: str | Path, language: str, parse: Callable[[str], Any], repair: str
) -> Any:
    path = existing_file(path)
    try:
        return parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"`{path}` is not UTF-8 at byte {error.start}. Save it as UTF-8."
        ) from error
    except ValueError as error:  # the errors of both languages are such
        message = f"`{path}` is not valid {language}: {error}. {repair}"
        raise InputError(message) from error


def read_meta(path: Path, version: int, what: str) -> dict[str, Any]:
    """Read the JSON that describes a folder of ours.

    Args:
        path: The file in the folder.
        version: The format that this library reads.
        what: What the folder holds, for messages.

    Raises:
        InputError: It is not there, no JSON, or of another version.
    """
    meta = read_json(path)
    if meta.get("version") != version:
        raise InputError(
            f"`{path.parent}` holds {what} in format {meta.get('version')}; this "
            f"library reads format {version}. Delete the folder; it is built again."
        )
    return meta


def read_table(path: str | Path, what: str = "file") -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Args:
        path: The file.
        what: What it is, for the message where it is missing.

    Raises:
        InputError: It is missing, no JSON, or holds something else.
    """
    content = read_json(existing_file(path, what))
    if not isinstance(content, dict):
        raise InputError(
            f"`{path}` must be a table of settings. Received: {content!r:.60}. "
            "Take a whole copy of it."
        )
    return content


def text_hash(*parts: bytes | str) -> bytes:
    """Return 16 bytes of BLAKE2b over `parts`; where each of them ends counts, too.

    Among n different texts two have the same hash with probability about n^2 / 2^129.
    """
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()


def digest(*parts: bytes | str) -> str:
    """Return the `text_hash` of `parts` in hex."""
    return text_hash(*parts).hex()


def file_digest(path: str | Path) -> str:
    """Return the 128-bit BLAKE2b hash of a file's bytes in hex."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(
            handle, lambda: hashlib.blake2b(digest_size=16)
        ).hexdigest()
