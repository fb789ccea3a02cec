"""Atomic writes, JSON and TOML, hashes and checksums, and upper limits of files.

What exceeds a limit is refused before it takes memory. SECURITY.md lists the limits
(tests/test_security_page.py).
"""

import codecs
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tomllib
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, existing_file

# Name of a temporary file: the final name, the machine and the process.
LEFT = re.compile(r"\.(.+?)(?:\.([0-9a-f]{8})-(\d+))?\.[0-9a-f]{8}\.(partial|old)")
# Errors of a full or read-only disk; some libraries keep only the message.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
FULL_WORDS = (*map(os.strerror, FULL), "disk is full")
ANEW = "Write the file again, or take a complete copy of it."
BUILT_AGAIN = "Delete the folder; it is built again."
BLOCK = 1 << 20  # bytes at a time


class Limit(NamedTuple):
    """An upper limit.

    Attributes:
        most: The largest number that is accepted.
        of: What is limited.
    """

    most: int
    of: str

    def check(self, number: int, where: str, repair: str) -> None:
        """Raise `InputError`, naming the limit, if `number` is over it.

        Args:
            number: The number received, or counted so far.
            where: The file and the place in it.
            repair: What to do.
        """
        if number > self.most:
            raise InputError(
                f"{where}: {self.of} may be at most {self.most:,}. Received: "
                f"{number:,}. {repair}"
            )


JSON = Limit(1 << 25, "bytes of a JSON file")  # XLM-RoBERTa's tokenizer.json: 17 MB
TOML = Limit(1 << 18, "bytes of a TOML file")
NESTING = Limit(100, "tables and lists inside each other")
VOCABULARY = Limit(1 << 25, "bytes of a vocabulary")
LINE = Limit(1 << 20, "bytes of a line or text")  # a longer one is no sentence
UNIT = Limit(1 << 20, "characters of one unit, tag or comment of a TMX file")
ELEMENTS_DEEP = Limit(64, "elements inside each other in a TMX file")
TIMES = Limit(200, "compression ratio of an archive")
TENSOR_HEADER = Limit(1 << 24, "bytes of the header of a safetensors file")
DEPTH = Limit(128, "layers of an encoder, repeats counted")
GRAPH = Limit(1 << 30, "bytes of a saved_model.pb")
CARD = Limit(1 << 22, "bytes of a card.json")  # a real one has a few thousand


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which is renamed to `path` on success.

    Write a file or a folder to the temporary path. After an error, it is removed. A
    complete folder replaces an older one of the same name, also through a link. First,
    temporary files of killed processes beside `path` are removed.

    Raises:
        InputError: The disk is full or read-only, or a file would replace a folder.
    """
    path = Path(path)
    if path.is_dir():
        path = path.resolve()  # "." has no name; a link to a folder stays a link
    with explain_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(".*"):
            if (match := LEFT.fullmatch(left.name)) and match[1] == path.name:
                if match[2] == _machine() and not _is_running(int(match[3])):
                    _remove_leftover(left, path)
        temporary = _temporary_path(path, "partial")
        try:
            yield temporary
            _sync(temporary)
            if path.is_dir():
                if not temporary.is_dir():
                    raise InputError(f"`{path}` is a folder. Give the path of a file.")
                _replace_folder(temporary, path)
            else:
                os.replace(temporary, path)
            _sync_folder(path.parent)
        finally:
            remove(temporary)


@contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Raise an `InputError` if a library reports a full or read-only disk."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        number = getattr(error, "errno", None)
        if number not in FULL and not any(words in str(error) for words in FULL_WORDS):
            raise
        raise InputError(
            f"`{path}` could not be written ({error}). Free space on its disk, or give "
            "a folder on another."
        ) from error


def remove(path: Path) -> None:
    """Delete a file, or a folder and its content; do nothing if it does not exist."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed processes from a folder and its subfolders.

    Args:
        folder: A folder that no other running process writes to.
    """
    for left in list(folder.rglob(".*")):
        if match := LEFT.fullmatch(left.name):
            _remove_leftover(left, left.with_name(match[1]))


def _remove_leftover(left: Path, path: Path) -> None:
    """Remove a temporary file, or rename it back if it is the only copy of `path`."""
    if left.suffix == ".old" and not path.exists():
        os.replace(left, path)
    else:
        remove(left)


def _temporary_path(path: Path, kind: str) -> Path:
    process = f"{_machine()}-{os.getpid()}"
    return path.with_name(f".{path.name}.{process}.{uuid.uuid4().hex[:8]}.{kind}")


@lru_cache
def _machine() -> str:
    """Return an id of this machine, or of this container if it has own process ids."""
    namespace = Path("/proc/self/ns/pid")
    inside = os.readlink(namespace) if namespace.is_symlink() else ""
    return digest(platform.node(), inside)[:8]


def _is_running(process: int) -> bool:
    if sys.platform == "win32":  # asking there ends the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _replace_folder(new: Path, path: Path) -> None:
    old = _temporary_path(path, "old")
    try:
        os.replace(path, old)
        os.replace(new, path)
    finally:  # an interrupt between both must not leave `path` missing
        if path.exists():
            remove(old)
        else:
            os.replace(old, path)


def _sync(path: Path) -> None:
    """Flush a file, or a folder with all its content, to the disk."""
    if path.is_dir():
        # safetensors writes files that only the user can read; follow the umask.
        mode = path.stat().st_mode & 0o666
        for inner in path.iterdir():
            if inner.is_file():
                inner.chmod(mode)
            _sync(inner)
        _sync_folder(path)
    elif path.is_file():
        with open(path, "r+b") as handle:  # Windows syncs only writable files
            os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some systems cannot
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` with sorted keys, atomically."""
    with atomic_path(path) as temporary:
        text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
        temporary.write_bytes(f"{text}\n".encode())


def read_toml(path: str | Path, repair: str = "Repair it.") -> dict[str, Any]:
    """Read a TOML file; raise `InputError` with the fault and the repair."""
    text = decoded(read_bytes(path, TOML, repair), f"`{path}`")
    return _parsed(text, f"`{path}`", "TOML", tomllib.loads, repair)


def dotted(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings by dotted key."""
    leaves: dict[str, Any] = {}
    for key, inner in value.items():
        nested = isinstance(inner, Mapping)
        leaves |= dotted(inner, f"{prefix}{key}.") if nested else {prefix + key: inner}
    return leaves


def read_json(path: str | Path, repair: str = ANEW) -> Any:
    """Read a JSON file; raise `InputError` naming the line if it is not JSON."""
    return parse_json(read_bytes(path, JSON, repair), f"`{path}`", repair)


def parse_json(content: bytes, where: str, repair: str = ANEW) -> Any:
    """Parse JSON; raise `InputError`, naming the file, if it is not valid."""
    JSON.check(len(content), where, repair)
    content = content.removeprefix(codecs.BOM_UTF8)  # some editors on Windows add it
    return _parsed(decoded(content, where, repair), where, "JSON", json.loads, repair)


def read_bytes(path: str | Path, limit: Limit, repair: str) -> bytes:
    """Read a file; raise `InputError` if it is missing or too large."""
    path = existing_file(path)
    limit.check(path.stat().st_size, f"`{path}`", repair)
    return path.read_bytes()


def decoded(content: bytes, where: str, repair: str = "Save it as UTF-8.") -> str:
    """Return text with Unix line ends; raise `InputError` if it is not UTF-8."""
    try:
        return content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8 at byte {error.start}. {repair}"
        ) from error


def _parsed(
    text: str, where: str, language: str, parse: Callable[[str], Any], repair: str
) -> Any:
    value = None
    try:
        value = parse(text)
        depth = nesting(value)
    except InputError:
        raise
    except ValueError as error:  # the base of the errors of both parsers
        message = f"{where} is not valid {language}: {error}. {repair}"
        raise InputError(message) from error
    except RecursionError:
        depth = sys.getrecursionlimit()
    NESTING.check(depth, where, repair)
    return value


def nesting(value: Any) -> int:
    """Return the depth of nested tables and lists, at most one above the limit."""
    level, depth = [value], 0
    while depth <= NESTING.most:
        tables = [item.values() for item in level if isinstance(item, dict)]
        lists = [item for item in level if isinstance(item, list)]
        if not tables and not lists:
            break
        level, depth = list(chain(*tables, *lists)), depth + 1
    return depth


def read_table(
    path: str | Path, what: str = "file", repair: str = ANEW
) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Args:
        path: The file.
        what: What the file is, for the message if it is missing.
        repair: What to do, for the message if it is damaged.

    Raises:
        InputError: The file is missing, is not JSON, or contains something else.
    """
    content = read_json(existing_file(path, what), repair)
    if not isinstance(content, dict):
        raise InputError(
            f"`{path}` must be a table of settings. Received: {content!r:.60}. {repair}"
        )
    return content


def text_hash(*parts: bytes | str) -> bytes:
    """Return 16 bytes of BLAKE2b of `parts` and their lengths.

    The probability that two of n different texts have the same hash is about
    n^2 / 2^129.
    """
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()


def digest(*parts: bytes | str) -> str:
    """Return the `text_hash` of `parts` in hex."""
    return text_hash(*parts).hex()


def cached(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Wrap a function so that it reads a file again only if the file has changed."""

    @lru_cache(maxsize=4096)
    def found(path: Path, *_: int) -> Any:
        return read(path)

    def of_now(path: Path) -> Any:
        status = path.stat()
        return found(path, status.st_ino, status.st_size, status.st_mtime_ns)

    return of_now


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def file_digest(path: Path) -> str:
    """Return the 128-bit BLAKE2b hash of a file's bytes in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(
            handle, lambda: hashlib.blake2b(digest_size=16)
        ).hexdigest()


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
        meta = read_table(path, repair=BUILT_AGAIN)
    except InputError as error:
        raise error if not path.is_file() else DamagedError(f"{error}") from error
    if meta.get("version") != version:
        raise InputError(
            f"`{path.parent}` holds {what} in format {meta.get('version')}; this "
            f"library reads format {version}. {BUILT_AGAIN}"
        )
    content = checked_content(meta, what)
    lost = (
        changed_files(path.parent, content.get("files", {})) if content else [path.name]
    )
    if content is None or lost:
        raise DamagedError(
            f"`{path.parent}` holds {what} and must be as it was written. Received: "
            f"changes in {', '.join(lost)}. {BUILT_AGAIN}"
        )
    return content


def checksum(path: Path) -> str:
    """Return the size and the CRC-32 of a file.

    They detect every flipped bit, and all but one in 2^32 other changes. This takes a
    third of the time of a hash.
    """
    size = crc = 0
    with open(path, "rb") as handle:
        while block := handle.read(BLOCK):
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
