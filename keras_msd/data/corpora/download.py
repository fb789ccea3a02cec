"""Fetch a file: resumed where it broke, verified, complete or not there at all."""

import errno
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from ssl import SSLError
from typing import Any

from keras_msd.checks import InputError
from keras_msd.data.corpora.catalogue import RemoteFile
from keras_msd.files import read_json, write_json
from keras_msd.progress import track

BLOCK = 1 << 20
TRIES = 5  # in a row that bring nothing
PAUSE = 1.0  # seconds before the second try, then twice as long each time
TIMEOUT = 60  # seconds without a byte
MIRROR = "KERAS_MSD_MIRROR"
NO_NETWORK = {errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}
PASSING = {408, 425, 429, 500, 502, 503, 504}  # statuses that another try may mend
# A server may send any text: no number that counts bytes has more digits.
NUMBER = re.compile(r"[0-9]{1,18}")
RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)")


class Broken(Exception):
    """The connection broke, or the server asks to try again: another try may do."""


class Unavailable(InputError):
    """The home did not give the file; it may still be had by hand."""


class RangeRefused(Exception):
    """The file has no such bytes (status 416): what is here is of another file."""


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
        before = _size(part)
        try:
            return _receive(file, part)
        except RangeRefused:
            part.unlink(missing_ok=True)
            failures, reason = failures + 1, "its home gave parts of another file"
        except Broken as error:
            failures = 1 if _size(part) >= before + BLOCK else failures + 1
            reason = str(error)
        if failures >= TRIES:
            raise Unavailable(
                f"The download of `{file.url}` broke off after {_size(part):,} bytes, "
                f"{TRIES} times in a row ({reason}). The same command goes on from "
                "there."
            )
        time.sleep(PAUSE * 2 ** (failures - 1))


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _receive(file: RemoteFile, part: Path) -> dict[str, Any]:
    """Receive what is missing; return what the server said of the whole file."""
    said = read_json(_note(part)) if _note(part).is_file() and part.is_file() else {}
    start = _size(part) if said.get("url") == file.url else 0
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
            start = 0
            said = _said(file, response.headers, _length(response.headers))
            part.unlink(missing_ok=True)  # else it would pass for the new file's start
            write_json(_note(part), said)
        total = said["size"]
        left = None if total is None else -(-(total - start) // BLOCK)
        with open(part, "ab" if start else "wb") as out:
            for block in track(_blocks(response), left, f"{file.name}, MiB"):
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
    match = RANGE.fullmatch(value.strip())
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


def address(url: str) -> str:
    """Return where `url` is asked for.

    With `KERAS_MSD_MIRROR=http://host/path` in the environment, that is
    `http://host/path/<host of the url>/<path of the url>`.
    """
    mirror = os.environ.get(MIRROR, "").rstrip("/")
    return f"{mirror}/{url.partition('://')[2]}" if mirror else url


@contextmanager
def request(
    url: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> Iterator[http.client.HTTPResponse]:
    """Yield the answer to a request.

    Raises:
        Unavailable: The home cannot be reached, has no such file, or refuses it.
        RangeRefused: The file has not the bytes that `headers` ask for.
        Broken: The connection broke, also inside the `with` block.
    """
    asked = urllib.request.Request(address(url), headers=dict(headers or {}))
    asked.method = method
    asked.add_header("User-Agent", "keras-msd")
    asked.add_header("Accept-Encoding", "identity")
    try:
        with _OPENER.open(asked, timeout=TIMEOUT) as response:
            yield response
    except urllib.error.HTTPError as error:
        with error:
            if error.code in PASSING:
                raise Broken(f"status {error.code} {error.reason}") from error
            if error.code == 416:
                raise RangeRefused from error
        raise Unavailable(_refused(url, error)) from error
    except urllib.error.URLError as error:
        reason = error.reason
        passing = isinstance(reason, TimeoutError | ConnectionError)
        if passing and not isinstance(reason, ConnectionRefusedError):
            raise Broken(str(reason)) from error
        raise Unavailable(f"`{url}` cannot be reached ({reason}).") from error
    except (
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
        SSLError,
    ) as error:
        raise Broken(str(error) or type(error).__name__) from error
    except OSError as error:
        if error.errno not in NO_NETWORK:
            raise  # of the disk, say
        raise Broken(str(error)) from error


def size_of(url: str) -> int | None:
    """Return the bytes that a file has, None if its home does not say.

    Raises:
        Unavailable: As `request`.
    """
    try:
        with request(url, method="HEAD") as response:
            return _length(response.headers)
    except Broken:  # the download itself is patient, and will tell
        return None
    except Unavailable as error:
        if getattr(error.__cause__, "code", None) in (405, 501):  # no HEAD here
            return None
        raise


def _length(headers: Any) -> int | None:
    length = headers.get("Content-Length", "")
    return int(length) if NUMBER.fullmatch(length) else None


def _refused(url: str, error: urllib.error.HTTPError) -> str:
    said = f"its home answered {error.code} {error.reason}"
    if error.code in (404, 410):
        return (
            f"`{url}` does not exist: {said}. The corpus may lack this language, or "
            "may have moved."
        )
    return f"`{url}` was not given: {said}."


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows an address of the web only, never from https to http; keeps HEAD."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = newurl.partition(":")[0].lower()
        allowed = ("https",) if req.type == "https" else ("http", "https")
        if scheme not in allowed:
            raise Unavailable(
                f"`{req.full_url}` sends on to `{newurl}`, which is not followed: from "
                "https only to https."
            )
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            following.method = req.get_method()
        return following


_OPENER = urllib.request.build_opener(_Redirects)
