"""Artefacts sent to a hub that answers on this machine."""

import base64
import http.server
import json
import os
import subprocess
import sys
import threading

import pytest

from keras_msd.checks import InputError
from keras_msd.export import export, push_to_hub
from keras_msd.testing import tiny_encoder

pytest.importorskip("huggingface_hub")


class Hub(http.server.BaseHTTPRequestHandler):
    """Takes every file in the body of a commit, as the hub does with small ones."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            self.server.made = json.loads(body)
            answer = {"url": f"{self.server.address}/org/student"}
        elif path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            answer = {"files": [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                for f in files
            ]}  # fmt: skip
        elif path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    value = line["value"]
                    content = base64.b64decode(value["content"])
                    self.server.files[value["path"]] = content
            url = f"{self.server.address}/org/student/commit/c0ffee"
            answer = {"success": True, "commitOid": "c0ffee", "commitUrl": url}
        else:
            answer = {"errors": [], "warnings": []}
        self.answer(answer)

    def do_GET(self):
        self.answer({"id": "org/student", "sha": "c0ffee", "siblings": []})

    def answer(self, value):
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.address = f"http://127.0.0.1:{server.server_port}"
        server.asked, server.files = [], {}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def folder(tokenizer, tmp_path, plain_format):
    encoder = tiny_encoder(tokenizer, num_layers=0)
    rows = [(1, "a", "b"), (0, "a", "c")]
    return export(encoder, tmp_path / "made", "plain", sentences=["one"], sts=rows)


def push(hub, *arguments):
    command = [sys.executable, "-c", "from keras_msd.cli import main; main()", "push"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"HF_ENDPOINT": hub.address, "HF_TOKEN": "hf_secret"},
    )


def test_every_file_of_the_card_arrives(hub, folder):
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "other.pyc").write_bytes(b"other")
    done = push(hub, folder, "org/student", "--private")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"commit: {hub.address}/org/student/commit/c0ffee"
    assert (hub.made["name"], hub.made["organization"]) == ("student", "org")
    assert hub.made.get("private") or hub.made.get("visibility") == "private"
    assert ("/api/repos/create", "Bearer hf_secret") in hub.asked
    listed = json.loads((folder / "card.json").read_text())["files"]
    assert set(hub.files) == {*listed, "card.json", "README.md"}
    assert {"model.bin", "assets/words.txt"} <= set(hub.files)
    for name, content in hub.files.items():
        assert content == (folder / name).read_bytes(), name


def test_what_is_not_sent(hub, folder, tmp_path):
    with pytest.raises(InputError, match="card.json"):
        push_to_hub(tmp_path, "org/student")
    with pytest.raises(InputError, match="organisation/model. Received: 'student'"):
        push_to_hub(folder, "student")
    hub.shutdown()
    hub.server_close()
    done = push(hub, folder, "org/student")
    assert done.returncode == 2 and "could not be sent to 'org/student'" in done.stderr
    assert "Traceback" not in done.stderr and hub.files == {}
