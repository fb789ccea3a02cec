"""Fetch a file: resumed where it broke, verified, complete or not there at all."""

import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.data.corpora.catalogue import RemoteFile
from keras_msd.data.corpora.remote import Broken, RangeRefused, Unavailable, request
from keras_msd.files import read_json, write_json
from keras_msd.progress import track

BLOCK = 1 << 20
TRIES = 5  # in a row that bring nothing
PAUSE = 1.0  # seconds before the second try, then twice as long each time


def fetch(file: RemoteFile, folder: str | Path) -> dict[str, Any]:
    """Bring a file into `folder`, unless it is there, and verify it.

    A transfer that breaks goes on from where it was, in this call or a later one: the
    bytes lie in `<name>.part` beside what the server said of the file. Should that
    have changed, or the server not resume, it starts again.

    Args:
        file: What to fetch; its size and checksum are verified where known.
        folder: Where it goes, under its own name.

    Returns:
        `bytes`, `sha256`, `verified` (by `sha256`, by `size` or by `nothing`), and
        `etag` and `last_modified` where the server gave them.

    Raises:
        InputError: The file cannot be had, or is not the one the catalogue knows.
    """
    folder = Path(folder)
    target, part = folder / file.name, folder / f"{file.name}.part"
    folder.mkdir(parents=True, exist_ok=True)
    if target.is_file():
        result, wrong = _look(target, file, file.size)
        if wrong:
            raise InputError(
                f"`{target}` must {wrong}. Delete it, or put the right one."
            )
        return result
    said = _transfer(file, part)
    result, wrong = _look(part, file, said["size"] if file.size is None else file.size)
    if wrong:
        part.unlink()
        _note(part).unlink()
        raise Unavailable(
            f"`{file.url}` must {wrong}. The download was deleted. If it is so again, "
            "its home has changed the file."
        )
    os.replace(part, target)
    _note(part).unlink()
    return result | {k: said[k] for k in ("etag", "last_modified") if said[k]}


def _transfer(file: RemoteFile, part: Path) -> dict[str, Any]:
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            return _receive(file, part)
        except RangeRefused:
            part.unlink(missing_ok=True)
            failures, reason = failures + 1, "its home gave parts of another file"
        except Broken as error:
            now = part.stat().st_size if part.exists() else 0
            failures = 1 if now >= before + BLOCK else failures + 1
            reason = str(error)
        if failures >= TRIES:
            now = part.stat().st_size if part.exists() else 0
            raise Unavailable(
                f"The download of `{file.url}` broke off after {now:,} bytes, "
                f"{TRIES} times in a row ({reason}). The same command goes on from "
                "there."
            )
        time.sleep(PAUSE * 2 ** (failures - 1))


def _receive(file: RemoteFile, part: Path) -> dict[str, Any]:
    """Receive what is missing; return what the server said of the whole file."""
    said = read_json(_note(part)) if _note(part).is_file() and part.is_file() else {}
    start = part.stat().st_size if said.get("url") == file.url else 0
    if start and start == said["size"]:
        return said
    validator = _validator(said)
    headers = {}
    if start and validator:
        headers = {"Range": f"bytes={start}-", "If-Range": validator}
    with request(file.url, headers) as response:
        _check_kind(file, response.headers)
        if headers and response.status == 206:
            first, total = _content_range(response.headers.get("Content-Range", ""))
            now = _said(file, response.headers, total)
            if first != start or any(now[k] != said[k] for k in now if now[k]):
                raise RangeRefused  # another file than the one begun
        else:
            start, length = 0, response.headers.get("Content-Length", "")
            size = int(length) if length.isdigit() else None
            said = _said(file, response.headers, size)
            part.unlink(missing_ok=True)  # else it would pass for the new file's start
            write_json(_note(part), said)
        total = said["size"]
        left = None if total is None else -(-(total - start) // BLOCK)
        with open(part, "ab" if start else "wb") as out:
            blocks = _blocks(response)
            for block in track(blocks, left, f"{file.name}, MiB"):
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
            got = out.tell()
    if total is not None and got < total:
        raise Broken(f"{got:,} of {total:,} bytes came")
    return said


def _blocks(response: Any) -> Iterator[bytes]:
    while block := response.read(BLOCK):
        yield block


def _said(file: RemoteFile, headers: Any, size: int | None) -> dict[str, Any]:
    return {
        "url": file.url,
        "size": size,
        "etag": headers.get("ETag"),
        "last_modified": headers.get("Last-Modified"),
    }


def _validator(said: dict[str, Any]) -> str | None:
    """Return what names the file that was begun; a weak tag does not (RFC 9110)."""
    etag = said.get("etag") or ""
    return etag if etag.startswith('"') else said.get("last_modified")


def _content_range(value: str) -> tuple[int, int | None]:
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", value.strip())
    if match is None:
        raise RangeRefused
    return int(match[1]), int(match[2]) if match[2] != "*" else None


def _check_kind(file: RemoteFile, headers: Any) -> None:
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/html":
        raise Unavailable(
            f"`{file.url}` gave a web page in place of the file: perhaps a log-in page "
            "of the network, or the file has moved."
        )
    if headers.get("Content-Encoding", "identity") != "identity":
        raise Unavailable(
            f"`{file.url}` came compressed ({headers['Content-Encoding']}), which was "
            "not asked for."
        )


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _look(
    path: Path, file: RemoteFile, size: int | None
) -> tuple[dict[str, Any], str | None]:
    """Return what a file is, and what it must be if that is something else."""
    got = path.stat().st_size
    with open(path, "rb") as handle:
        checksum = hashlib.file_digest(handle, "sha256").hexdigest()
    wrong = None
    if size is not None and got != size:
        wrong = f"have {size:,} bytes. Received: {got:,}"
    elif file.sha256 is not None and checksum != file.sha256:
        wrong = f"have the SHA-256 {file.sha256}. Received: {checksum}"
    by = "sha256" if file.sha256 else "nothing" if size is None else "size"
    return {"bytes": got, "sha256": checksum, "verified": by}, wrong
