"""A web server on this machine that gives corpora, and fails as one wishes."""

import contextlib
import hashlib
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Home:
    """What the server holds and how it behaves.

    Attributes:
        files: Content by path.
        etags: ETag by path; without an entry, one made from the content.
        breaks: The next answers end after so many bytes of the body.
        statuses: The next answers have only such a status.
        moved: Where a path sends on to.
        ranges: Whether parts are given.
        if_range: Whether `If-Range` is heeded.
        tagged: Whether ETag is sent.
        sized: Whether the size is sent.
        head: Whether HEAD is answered.
        kind: Content-Type.
        asked: (method, path, Range) of every request.
    """

    files: dict = field(default_factory=dict)
    etags: dict = field(default_factory=dict)
    breaks: list = field(default_factory=list)
    statuses: list = field(default_factory=list)
    moved: dict = field(default_factory=dict)
    ranges: bool = True
    if_range: bool = True
    tagged: bool = True
    sized: bool = True
    head: bool = True
    kind: str = "application/octet-stream"
    asked: list = field(default_factory=list)
    url: str = ""

    def etag(self, path):
        made = f'"{hashlib.md5(self.files[path]).hexdigest()}"'
        return self.etags.get(path, made)

    def gets(self):
        return [range_ for method, _, range_ in self.asked if method == "GET"]


class Handler(BaseHTTPRequestHandler):
    home: Home

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        home, path, wanted = self.home, self.path, self.headers.get("Range")
        home.asked.append((self.command, path, wanted))
        if not with_body and not home.head:
            return self.send_error(501)
        if path in home.moved:
            self.send_response(302)
            self.send_header("Location", home.moved[path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if with_body and home.statuses:
            return self.send_error(home.statuses.pop(0))
        if path not in home.files:
            return self.send_error(404)
        data, etag, first = home.files[path], home.etag(path), 0
        if wanted and home.ranges:
            same = self.headers.get("If-Range") in (None, etag) or not home.if_range
            first = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if same else 0
        if first and first >= len(data):
            return self.send_error(416)
        self.send_response(206 if first else 200)
        if first:
            span = f"bytes {first}-{len(data) - 1}/{len(data)}"
            self.send_header("Content-Range", span)
        if home.tagged:
            self.send_header("ETag", etag)
        if home.sized:
            self.send_header("Content-Length", str(len(data) - first))
        self.send_header("Content-Type", home.kind)
        self.end_headers()
        if with_body:
            end = first + home.breaks.pop(0) if home.breaks else len(data)
            self.wfile.write(data[first:end])

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def served():
    """Yield a `Home` that answers under its `url`."""
    home = Home()
    handler = type("HomeHandler", (Handler,), {"home": home})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    home.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield home
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
