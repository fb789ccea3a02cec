"""A server on this machine that answers `HfFileSystem` as the Hugging Face hub does."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

SHA = "0" * 40
API = re.compile(
    r"/api/datasets/([^/]+/[^/]+)(?:/(tree|paths-info|revision)/([^/]+))?/?(.*)"
)
RESOLVE = re.compile(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


class Handler(BaseHTTPRequestHandler):
    """Serves `server.datasets`: files by dataset and path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer()

    def do_HEAD(self):
        self.answer()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        try:
            paths = json.loads(body)["paths"]
        except ValueError:
            paths = parse_qs(body)["paths"]
        self.answer([paths] if isinstance(paths, str) else paths)

    def answer(self, paths=()):
        url = urlsplit(self.path)
        self.server.seen.append((self.command, unquote(url.path)))
        where = unquote(url.path)
        if match := RESOLVE.fullmatch(where):
            name, _, path = match.groups()
            return self.send_file(self.server.datasets.get(name, {}).get(path))
        match = API.fullmatch(where)
        files = self.server.datasets.get(match[1]) if match else None
        if files is None:
            return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if match[2] == "tree":
            recursive = parse_qs(url.query).get("recursive", ["false"])[0] == "true"
            listed = entries(files, match[4], recursive)
            if not listed:
                return self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return self.send_json(listed)
        if match[2] == "paths-info":
            every = {entry["path"]: entry for entry in entries(files, "", True)}
            return self.send_json([every[path] for path in paths if path in every])
        return self.send_json({"_id": "1", "id": match[1], "sha": SHA, "siblings": []})

    def send_file(self, content):
        if content is None:
            return self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
        more = {"X-Repo-Commit": SHA, "ETag": '"1"', "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not asked:
            return self.send(200, content, more)
        first, last = int(asked[1]), int(asked[2] or len(content) - 1)
        more["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self.send(206, content[first : last + 1], more)

    def send_json(self, value):
        self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, status, content, headers):
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def entries(files, folder, recursive):
    """Return what the hub lists for a folder of a dataset."""
    start = f"{folder}/" if folder else ""
    found = {}
    for path, content in files.items():
        if not path.startswith(start):
            continue
        parts = path[len(start) :].split("/")
        for depth in range(1, len(parts)):
            name = start + "/".join(parts[:depth])
            found[name] = {"type": "directory", "path": name, "oid": SHA, "size": 0}
        found[path] = {
            "type": "file", "path": path, "oid": SHA, "size": len(content),
        }  # fmt: skip
    here = [
        entry
        for name, entry in found.items()
        if recursive or "/" not in name[len(start) :]
    ]
    return sorted(here, key=lambda entry: entry["path"])


@contextmanager
def hub(datasets):
    """Serve datasets, files by path; yield the address and what was asked for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.datasets, server.seen = datasets, []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server.seen
        finally:
            server.shutdown()
            thread.join()
