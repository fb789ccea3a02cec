"""`keras-msd serve`: the embeddings API of OpenAI, without a network."""

import asyncio
import base64
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import numpy as np
import pytest
from command_line import fails

from keras_msd import serve as served
from keras_msd.export import load_artefact
from keras_msd.serve import Batcher, make_app
from keras_msd.testing import tiny_encoder

TestClient = pytest.importorskip("fastapi.testclient").TestClient
TEXTS = ["The cat sleeps.", "Die Katze schläft auf dem Stuhl.", "猫。"]


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return tiny_encoder(tokenizer, normalize=False, num_layers=0)


@pytest.fixture(scope="module")
def client(encoder):
    app = make_app(encoder, "org/tiny")
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def ask(client, **fields):
    answer = client.post("/v1/embeddings", json={"model": "org/tiny"} | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, status=400, **request):
    """Return the error of a request that is refused."""
    answer = client.post("/v1/embeddings", **request)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


def vectors_of(answer):
    return np.array([one["embedding"] for one in answer["data"]], np.float32)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_lists_and_single_texts(client, encoder):
    answer = ask(client, input=TEXTS)
    wanted = unit(encoder.encode(TEXTS))
    np.testing.assert_allclose(vectors_of(answer), wanted, atol=1e-6)
    assert [one["index"] for one in answer["data"]] == [0, 1, 2]
    assert {one["object"] for one in answer["data"]} == {"embedding"}
    assert (answer["object"], answer["model"]) == ("list", "org/tiny")
    tokens = sum(map(len, encoder.tokenizer.encode(TEXTS, 32)))
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    single = ask(client, input=TEXTS[1], user="someone", encoding_format="float")
    np.testing.assert_allclose(vectors_of(single), wanted[1:2], atol=1e-6)


def test_base64_and_dimensions(client, encoder):
    answer = ask(client, input=TEXTS, encoding_format="base64", dimensions=5)
    rows = [base64.b64decode(one["embedding"]) for one in answer["data"]]
    found = np.array([np.frombuffer(row, "<f4") for row in rows])
    wanted = unit(encoder.encode(TEXTS)[:, :5])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    same = vectors_of(ask(client, input=TEXTS, dimensions=5))
    np.testing.assert_array_equal(same, found)


def test_models_and_health(client):
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["object"]) == ("org/tiny", "model")
    assert client.get("/v1/models/org/tiny").json() == model
    health = client.get("/health").json()
    assert health == {"status": "ok", "model": "org/tiny", "dimensions": 16}
    paths = client.get("/openapi.json").json()["paths"]
    body = paths["/v1/embeddings"]["post"]["requestBody"]["content"]
    fields = body["application/json"]["schema"]
    assert {"input", "model", "dimensions"} <= fields["properties"].keys()


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"input": []}, "input", "at least 1 item"),
        ({"input": ["a"] * 2049}, "input", "at most 2048 items"),
        ({"input": ""}, "input", "`input.0`: String should have at least 1 character"),
        ({"input": "a" * 65_537}, "input", "at most 65536 characters"),
        ({"input": [1, 2]}, "input", "token ids"),
        ({"input": [[1, 2]]}, "input", "check_embedding_ctx_length=False"),
        ({"input": ["a", 1]}, "input", "`input.1`: Input should be a valid string"),
        ({"input": "a", "dimensions": 17}, "dimensions", "at most 16"),
        ({"input": "a", "dimensions": "5"}, "dimensions", "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format", "base64"),
        ({"input": "a", "input_type": "query"}, "input_type", "input_type"),
    ],
)
def test_bad_requests_are_refused(client, fields, param, message):
    error = refused(client, json={"model": "org/tiny"} | fields)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert message in error["message"]


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"[" * 100_000, b'{"model": "org/tiny", "input": "\\ud800"}'],
)
def test_broken_bodies_are_refused(client, content):
    assert refused(client, content=content)["message"]


@pytest.mark.parametrize("charset", ["latin-1", "utf-16"])
def test_a_body_in_another_encoding_is_named(client, charset):
    content = '{"model": "org/tiny", "input": "Bär"}'.encode(charset)
    place = content.index(b"\xe4" if charset == "latin-1" else b"\xff")
    message = refused(client, content=content)["message"]
    assert f"byte 0x{content[place]:02x} at position {place + 1}" in message
    assert "UTF-8" in message


PAGE = "http://localhost:3000"


def preflight(client, origin):
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = "authorization, content-type, x-any"
    return client.options("/v1/embeddings", headers=asked)


def test_pages_of_named_origins_are_let_in(encoder, client):
    allowed = "access-control-allow-origin"
    assert allowed not in preflight(client, PAGE).headers
    app = make_app(encoder, "org/tiny", [PAGE, "https://a.example"], "key")
    with TestClient(app) as of_pages:
        answer = preflight(of_pages, PAGE)
        assert (answer.status_code, answer.headers[allowed]) == (200, PAGE)
        assert "x-any" in answer.headers["access-control-allow-headers"]
        assert allowed not in preflight(of_pages, "http://localhost:3001").headers
        body = {"model": "org/tiny", "input": "a"}
        for key, status in (("key", 200), ("wrong", 401)):
            sent = {"Origin": PAGE, "Authorization": f"Bearer {key}"}
            answer = of_pages.post("/v1/embeddings", json=body, headers=sent)
            assert (answer.status_code, answer.headers[allowed]) == (status, PAGE)


def test_a_key_is_checked(encoder):
    app = make_app(encoder, "org/tiny", api_key="schlüssel")
    body = {"model": "org/tiny", "input": "a"}
    with TestClient(app) as client:
        assert client.get("/health").status_code == 200
        for header in ("", "Bearer ", "Bearer other", "Basic schl\xfcssel"):
            sent = {"Authorization": header.encode()}
            error = refused(client, 401, json=body, headers=sent)
            assert error["code"] == "invalid_api_key"
        assert client.get("/v1/models").status_code == 401
        sent = {"Authorization": "Bearer schlüssel".encode()}
        answer = client.post("/v1/embeddings", json=body, headers=sent)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cors", PAGE + "/"], "`cors` must hold origins.*3000/"),
        (["--cors", "localhost:3000"], "`cors` must hold origins"),
        (["--api-key", " "], "`api_key` must not be empty"),
    ],
)
def test_options_of_access_are_checked(encoder, tmp_path, capsys, options, message):
    encoder.save(tmp_path / "encoder")
    error = fails(capsys, "serve", tmp_path / "encoder", *options)
    assert re.search(message, error)


def test_another_model_path_or_method(client):
    error = refused(client, 404, json={"model": "other", "input": "a"})
    assert error["code"] == "model_not_found" and "'org/tiny'" in error["message"]
    assert client.get("/v1/models/other").status_code == 404
    assert "POST /v1/embeddings" in client.get("/v1").json()["error"]["message"]
    answer = client.get("/v1/embeddings")
    assert answer.status_code == 405 and answer.json()["error"]["message"]


def test_large_bodies_are_refused(client):
    content = b'{"input": "' + b"a" * served.LARGEST_BODY
    error = refused(client, 413, content=content)
    assert "4,194,304 bytes" in error["message"]


def test_failures_of_the_encoder(encoder):
    class Failing:
        dim, default_prompt = 16, ""

        def encode(self, texts, **_):
            if "fail" in texts:
                raise RuntimeError("secret")
            return encoder.encode(texts)

        def count_tokens(self, texts):
            return None

    app = make_app(Failing(), "org/tiny")
    with TestClient(app, raise_server_exceptions=False) as client:
        assert ask(client, input="a")["usage"]["total_tokens"] == 0
        body = {"model": "org/tiny", "input": ["a", "fail"]}
        error = refused(client, 500, json=body)
        assert error["type"] == "server_error" and "secret" not in str(error)
        ask(client, input="a")  # it goes on


def test_what_arrives_during_a_batch_is_the_next_one():
    """Requests get their own results, a failing text fails its own request alone."""
    batches, begin = [], threading.Event()

    def encode(texts):
        batches.append(texts)
        assert begin.wait(10)
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]

    async def main():
        batcher = Batcher(encode)
        work = asyncio.create_task(batcher.work())
        first = asyncio.create_task(batcher(["a"]))
        while not batches:
            await asyncio.sleep(0)
        given = [["b", "c"], ["d"], ["bad", "e"], ["f"] * 300, ["g"]]
        others = [asyncio.create_task(batcher(texts)) for texts in given]
        gone = asyncio.create_task(batcher(["gone"]))
        await asyncio.sleep(0)
        gone.cancel()
        begin.set()
        assert await first == ["A"]
        results = await asyncio.gather(*others, return_exceptions=True)
        assert await batcher(["x"]) == ["X"]
        work.cancel()
        return results

    one, two, bad, large, last = asyncio.run(main())
    assert (one, two, large, last) == (["B", "C"], ["D"], ["F"] * 300, ["G"])
    assert isinstance(bad, ValueError)
    assert batches[:2] == [["a"], ["b", "c", "d", "bad", "e", *["f"] * 300]]
    assert batches[2:6] == [["b", "c"], ["d"], ["bad", "e"], ["f"] * 300]
    assert batches[6][0] == "g"  # the batch before was full


@pytest.fixture(scope="module")
def artefact(encoder, tmp_path_factory):
    graded = [(1, "a", "b"), (0, "a", "c")]
    folder = tmp_path_factory.mktemp("served") / "tiny"
    return encoder.export(folder, "onnx", sentences=TEXTS, sts=graded)


BLOCKED = """
import sys
for name in ("tensorflow", "keras", "scipy", "sentencepiece", "tokenizers"):
    sys.modules[name] = None
from keras_msd.cli import main
main(sys.argv[1:])
"""


def test_an_artefact_is_served_without_tensorflow(artefact):
    """On one address alone; an interrupt ends it in order."""
    words = ["serve", str(artefact), "--port", "0"]
    server = subprocess.Popen(
        [sys.executable, "-c", BLOCKED, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = server.stdout.readline()
    assert line.startswith("tiny, 16 dimensions, at http://127.0.0.1:"), line
    address = line.split(" at ")[1].split(";")[0]
    body = json.dumps({"model": "tiny", "input": TEXTS}).encode()
    with urllib.request.urlopen(f"{address}/embeddings", body, timeout=60) as answer:
        answer = json.load(answer)
    loaded = load_artefact(artefact)
    wanted = loaded.encode(TEXTS, normalize=True)
    np.testing.assert_allclose(vectors_of(answer), wanted, atol=1e-6)
    assert answer["usage"]["total_tokens"] == sum(loaded.count_tokens(TEXTS))
    port = int(address.split(":")[2].split("/")[0])
    # A server on every address answers at this one, too.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
    server.send_signal(signal.SIGINT)
    _, error = server.communicate(timeout=30)
    assert (server.returncode, error) == (0, "")


def test_an_address_that_cannot_be_had(artefact, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        message = fails(capsys, "serve", artefact, "--port", port)
    assert "Give another `--host` or `--port`" in message
    assert "65535" in fails(capsys, "serve", artefact, "--port", "70000")
    assert "cannot listen" in fails(capsys, "serve", artefact, "--host", "no host")
    assert "does not exist" in fails(capsys, "serve", "no-such-model")
