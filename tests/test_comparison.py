"""`compare`: pairs counted one by one, a stub of the embeddings API, the command."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import fails, result, run
from scipy.stats import binom
from table_encoder import Table, cosine

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.data import Pair, read_pairs
from keras_msd.evaluate import EmbeddingsAPI, adapters, compare
from keras_msd.testing import tiny_encoder, tiny_pairs


@pytest.fixture(autouse=True)
def few_calls(monkeypatch):
    monkeypatch.setattr("keras_msd.comparison.CALLS", {1: 1, 64: 1})


def one_by_one(vectors, pairs):
    """Return (margin, rank) of each distinct pair in one direction, by comparing."""
    pairs = list(dict.fromkeys(pairs))
    found = []
    for source, target in pairs:
        known = {other for one, other in pairs if one == source}
        wrong = {other for _, other in pairs} - known
        own = cosine(vectors[source], vectors[target], 9)
        others = [cosine(vectors[source], vectors[text], 9) for text in wrong]
        found.append((own - max(others), 1 + sum(it >= own for it in others)))
    return np.array(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_scores_of_pairs_compared_one_by_one(seed, block, monkeypatch):
    """Sources have several translations, and translations several sources."""
    monkeypatch.setattr("keras_msd.comparison.BLOCK", block)
    random = np.random.default_rng(seed)
    rows = random.integers(0, [25, 30], (40, 2))
    pairs = [(f"source {a}", f"target {b}") for a, b in rows]
    vectors = {}
    for source, target in pairs:  # few vectors, so that many cosines are equal
        vectors[target] = random.integers(-2, 3, 3) + 0.5
        vectors[source] = vectors[target]
    [found] = compare({"table": Table(vectors)}, pairs)["encoders"]
    ways = [
        one_by_one(vectors, pairs),
        one_by_one(vectors, [pair[::-1] for pair in pairs]),
    ]
    shares = [100 * (way[:, 0] > 0).mean() for way in ways]
    assert 0 < shares[0] < 100
    assert found["source_to_target"] == pytest.approx(shares[0], abs=1e-4)
    assert found["target_to_source"] == pytest.approx(shares[1], abs=1e-4)
    assert found["precision"] == pytest.approx(np.mean(shares), abs=1e-4)
    both = np.concatenate(ways)
    assert found["margin"] == pytest.approx(both[:, 0].mean(), abs=1e-6)
    assert found["mrr"] == pytest.approx(100 * (1 / both[:, 1]).mean(), abs=1e-4)
    assert found["dim"] == 3


def swapped(count, wrong):
    """Return pairs and vectors; `wrong` pairs, an even number, are exchanged."""
    vectors, eye = {}, np.eye(count)
    for row in range(count):
        vectors[f"s{row}"] = eye[row]
        vectors[f"t{row}"] = eye[row ^ 1 if row < wrong else row]
    return [(f"s{row}", f"t{row}") for row in range(count)], vectors


def test_interval_of_many_draws_is_binomial():
    pairs, vectors = swapped(100, 30)
    [found] = compare({"table": Table(vectors)}, pairs)["encoders"]
    assert found["precision"] == 70
    bounds = binom.ppf([0.025, 0.975], 100, 0.7)
    assert found["interval"] == pytest.approx(bounds, abs=1.1)
    again = compare({"table": Table(vectors)}, pairs[::-1])["encoders"]
    assert again[0]["interval"] == found["interval"]


def test_a_source_is_drawn_with_all_its_pairs():
    right = [("right", f"r{row}") for row in range(20)]
    wrong = [("wrong", f"w{row}") for row in range(20)]
    vectors = {text: [1.0, 0] for pair in right for text in pair}
    vectors |= {text: [-1.0, 0] for _, text in wrong} | {"wrong": [1.0, 0]}
    [found] = compare({"table": Table(vectors)}, right + wrong)["encoders"]
    low, high = found["interval"]
    assert low == 0 and high - low >= 50


def test_languages_do_not_compete():
    vectors = {"tea": [1, 0], "Tee": [1, 0.2], "thé": [1, 0.1], "sun": [0, 1]}
    vectors |= {"Sonne": [0.1, 1], "soleil": [0.2, 1]}
    rows = [("tea", "Tee", "de"), ("sun", "Sonne", "de")]
    rows += [("tea", "thé", "fr"), ("sun", "soleil", "fr")]
    found = compare({"table": Table(vectors)}, [Pair(*row) for row in rows])
    assert found["encoders"][0]["precision"] == 100 and found["solved"]
    assert (found["pairs"], found["sources"], found["targets"]) == (4, 2, 4)


class Other:
    """Looks like a `SentenceTransformer`."""

    def __init__(self, vectors):
        self.vectors, self.prompts = vectors, set()

    def get_sentence_embedding_dimension(self):
        return len(self.vectors["s0"])

    def parameters(self):
        weight = SimpleNamespace(numel=lambda: 10, element_size=lambda: 4)
        return iter([weight, weight])

    def encode(self, texts, batch_size, show_progress_bar, prompt=None):
        assert not show_progress_bar
        self.prompts.add(prompt)
        return np.array([self.vectors[text] for text in texts])


def test_prefixes_and_sizes(tmp_path):
    pairs, vectors = swapped(8, 2)
    encoder = tiny_encoder(num_layers=0)
    encoder.save(tmp_path / "saved")
    files = [path for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    plain, other = Table(), Other(vectors)
    sources = {"plain": plain, "other": other, "object": encoder}
    sources["saved"] = tmp_path / "saved"
    prefixes = {"plain": "query: ", "other": "text: ", "object": "a ", "saved": "a "}
    found = compare(sources, pairs, prefixes=prefixes)["encoders"]
    assert [one["name"] for one in found] == list(sources)
    assert set(plain.seen) == {f"query: {text}" for pair in pairs for text in pair}
    assert other.prompts == {"text: "}
    sizes = [one["bytes"] for one in found]
    weights = sum(4 * value.size for value in encoder.weights().values())
    assert sizes == [None, 80, weights, sum(path.stat().st_size for path in files)]
    before = [tuple(f"a {text}" for text in pair) for pair in pairs]
    [wanted] = compare({"object": encoder}, before)["encoders"]
    for one in found[2:]:
        assert one["margin"] == pytest.approx(wanted["margin"], abs=1e-5)
        assert one["milliseconds_1"] > 0 and one["milliseconds_64"] > 0


TWO = [("A", "B"), ("C", "D")]


class Unused:
    def encode(self, texts):
        raise AssertionError("encoded before the arguments are checked")


@pytest.mark.parametrize(
    ("encoders", "pairs", "options", "message"),
    [
        ({"a": Unused()}, [("A", "B")], {}, "Every sentence needs a wrong.*'A'"),
        ({"a": Unused()}, [], {}, "pairs"),
        ({"a": Unused()}, ["AB", "CD"], {}, "must hold .source, target.*'AB'"),
        ({"a": Unused()}, [("A", None), ("B", "C")], {}, "must hold strings"),
        ([Unused()], TWO, {}, "must map names to objects"),
        ({"a": 3}, TWO, {}, "`a` must have `encode`"),
        ("tiny12", TWO, {}, "must be a list"),
        ([], TWO, {}, "encoders"),
        ({"a": Unused(), "b": "nowhere"}, TWO, {}, "`nowhere`"),
        ({"a": Unused()}, TWO, {"prefixes": {"b": ""}}, "prefixes.* one of 'a'"),
    ],
)
def test_wrong_arguments(encoders, pairs, options, message):
    with pytest.raises(InputError, match=message):
        compare(encoders, pairs, **options)


class Stub(BaseHTTPRequestHandler):
    """Answers as `server.answers` says, and else with embeddings by `server.encode`."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.respond(None)

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.respond(json.loads(self.rfile.read(length)))

    def respond(self, body):
        self.server.asked.append((self.path, body, self.headers.get("Authorization")))
        if self.server.answers:
            status, answer = self.server.answers.pop(0)
        elif body is None:
            data = [{"id": name} for name in self.server.models]
            status, answer = 200, {"data": data}
        else:
            vectors = self.server.encode(body["input"]).tolist()
            data = [{"index": i, "embedding": it} for i, it in enumerate(vectors)]
            status, answer = 200, {"data": data[::-1]}  # the index gives the order
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        server.asked, server.answers, server.models = [], [], ["only"]
        server.encode = Table().encode
        server.address = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_address(server):
    texts = [f"text {row}" for row in range(70)]
    api = EmbeddingsAPI(f"{server.address}/", key="secret")
    wanted = Table().encode(texts)
    np.testing.assert_array_equal(api.encode(texts), wanted)
    paths, bodies, keys = zip(*server.asked, strict=True)
    assert paths == ("/v1/models", "/v1/embeddings", "/v1/embeddings")
    assert bodies[1] == {"model": "only", "input": texts[:64]}
    assert set(keys) == {"Bearer secret"}
    server.asked.clear()
    EmbeddingsAPI(f"{server.address}#org/other").encode(["a"])
    assert server.asked[0][1:] == ({"model": "org/other", "input": ["a"]}, None)


def test_a_busy_server_is_asked_once_more(server, monkeypatch):
    monkeypatch.setattr(adapters, "PAUSE", 0)
    api = EmbeddingsAPI(server.address)
    server.answers = [(503, b"busy")]
    assert api.encode(["a"]).shape == (1, 8)
    server.answers = [(429, b"busy"), (429, b"still busy"), (200, b"")]
    with pytest.raises(InputError, match="status 429. Received: 'still busy'"):
        api.encode(["a"])


UNEQUAL = [{"index": i, "embedding": [1] * i} for i in (0, 1)]


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, b'{"error": "no key"}', "/embeddings` refused .* status 401.*no key"),
        (307, b"", "status 307"),
        (200, b"<html>", "must answer with JSON.*<html>.*ends in /v1"),
        (200, {"data": []}, "an embedding for each of 2 texts. Received: .*data"),
        (200, {"data": [{"index": 0, "embedding": [1]}] * 2}, "for each of 2 texts"),
        (200, [], "for each of 2 texts"),
        (200, {"data": UNEQUAL}, "vectors of one dimension"),
    ],
)
def test_answers_that_are_none(server, status, answer, message):
    api = EmbeddingsAPI(f"{server.address}#m")
    server.answers = [(status, answer)]
    with pytest.raises(InputError, match=message):
        api.encode(["a", "b"])
    assert len(server.asked) == 1


def test_addresses_that_are_none(server):
    server.models = ["one", "two"]
    with pytest.raises(InputError, match=r"Received: one, two\. Write .*/v1#MODEL"):
        EmbeddingsAPI(server.address)
    for listed in (5, [{"name": "one"}]):
        server.answers = [(200, {"data": listed})]
        with pytest.raises(InputError, match="Received: none"):
            EmbeddingsAPI(server.address)
    for address in ("file:///etc/passwd", "http://", "http://a:b:c/v1", "http://a?b=c"):
        with pytest.raises(InputError, match="must begin with http"):
            EmbeddingsAPI(address)
    with pytest.raises(InputError, match="did not answer: .*refused"):
        EmbeddingsAPI("http://127.0.0.1:9/v1")


@pytest.fixture
def place(tmp_path):
    tiny_encoder(num_layers=0).save(tmp_path / "saved")
    rows = [f"{pair.source},{pair.target}" for pair in tiny_pairs()]
    text = "\n".join(["English,German", *(row for row in rows if row.count(",") == 1)])
    (tmp_path / "own.csv").write_text(text, encoding="utf-8")
    (tmp_path / "graded.tsv").write_text("5\tA cat.\tA cat.\n0\tA cat.\tTea.\n")
    return tmp_path


def test_the_command(capsys, place, server, monkeypatch):
    encoder = load_encoder(place / "saved")
    server.encode = encoder.encode
    monkeypatch.setenv("OWN_KEY", "secret")
    words = ["compare", place / "saved", server.address, "--pairs", place / "own.csv"]
    words += ["--api-key", f"{server.address}=OWN_KEY", "--sts", place / "graded.tsv"]
    found = result(capsys, *words)
    assert {key for _, _, key in server.asked} == {"Bearer secret"}
    local, served = found["encoders"]
    assert [local["name"], served["name"]] == [str(place / "saved"), server.address]
    pairs = list(read_pairs(place / "own.csv"))
    assert len(pairs) > 3
    [wanted] = compare({"tiny": encoder}, pairs)["encoders"]
    for one in (local, served):
        for key in ("precision", "interval", "mrr", "dim"):
            assert one[key] == wanted[key]
        assert one["margin"] == pytest.approx(wanted["margin"], abs=1e-5)
        assert one["spearman"] == 100.0
    assert served["bytes"] is None
    prefix = ("--prefix", f"{server.address}=a=b: ")
    server.asked.clear()
    monkeypatch.chdir(place)  # a long path would leave the table no room
    _, out, _ = run(capsys, "compare", "saved", *words[2:], *prefix)
    texts = {text for _, body, _ in server.asked if body for text in body["input"]}
    assert {f"a=b: {pair.source}" for pair in pairs} <= texts
    [line] = [line for line in out.splitlines() if "saved" in line]
    assert line.split()[1] == f"{wanted['precision']:.1f}"
    assert "cannot tell" not in out
    rows = ["English,German", "tea,tea", "a cat,a cat", "it rains,it rains"]
    (place / "easy.csv").write_text("\n".join(rows))
    _, out, _ = run(capsys, "compare", "saved", "--pairs", "easy.csv")
    assert "P@1 on these pairs cannot tell them apart" in out


def test_files_are_read_before_an_encoder_is_looked_for(capsys, place):
    words = ("compare", "nowhere", "--pairs")
    assert "`none.csv` does not exist" in fails(capsys, *words, "none.csv")
    words = (*words, place / "own.csv")
    assert "`none.tsv`" in fails(capsys, *words, "--sts", "none.tsv")
    assert "`nowhere` does not exist" in fails(capsys, *words)
    message = fails(capsys, *words, "--prefix", "other=text")
    assert "NAME=TEXT" in message and "nowhere" in message
    message = fails(capsys, *words, "--api-key", "nowhere=NO_SUCH_VARIABLE")
    assert "NO_SUCH_VARIABLE must hold the key" in message
