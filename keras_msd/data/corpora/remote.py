"""Requests to a corpus's home, with errors that say what to do."""

import errno
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ssl import SSLError
from typing import Any

from keras_msd.checks import InputError

TIMEOUT = 60  # seconds without a byte
MIRROR = "KERAS_MSD_MIRROR"
NO_NETWORK = {errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}
PASSING = {408, 425, 429, 500, 502, 503, 504}  # statuses that another try may mend


class Broken(Exception):
    """The connection broke, or the server asks to try again: another try may do."""


class Unavailable(InputError):
    """The home did not give the file; it may still be had by hand."""


class RangeRefused(Exception):
    """The file has no such bytes (status 416): what is here is of another file."""


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
            length = response.headers.get("Content-Length", "")
    except Broken:  # the download itself is patient, and will tell
        return None
    except Unavailable as error:
        if getattr(error.__cause__, "code", None) in (405, 501):  # no HEAD here
            return None
        raise
    return int(length) if length.isdigit() else None


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
