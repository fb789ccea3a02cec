"""What the page of export/web rests on: a model, its card, an index, lines of text."""

import hashlib
import http.server
import shutil
import threading
from functools import partial

import numpy as np
import pytest
import test_portable_tokenizer_node
from tokenizer_texts import CORPUS

from keras_msd.export.portable import describe
from keras_msd.index import build_index
from keras_msd.tokenizers.sentencepiece import train_unigram

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="Node is not installed"
)
LENGTH, DIM = 16, 7
THRESHOLD = {"cosine": 0.5, "precision": 95.5, "recall": 1.5, "pairs": 7}
THRESHOLD |= {"asked": 95.0, "set": "held out"}
FINDER = """
const { createFinder, fetchFiles } = await import(root + "web/finder.mjs");
const { FILES } = await import(root + "web/sentence_index.mjs");
class Tensor {
  constructor(type, data, dims) { Object.assign(this, { type, data, dims }); }
}
async function run({ token_ids: ids, padding_mask: mask }) {
  const [count, length] = ids.dims;
  const data = new Float32Array(count * DIM);
  for (let place = 0; place < count * length; place += 1) {
    const row = Math.floor(place / length);
    if (mask.data[place]) data[row * DIM + (ids.data[place] % DIM)] += 1;
  }
  return { embedding: new Tensor("float32", data, [count, DIM]) };
}
const session = { outputNames: ["embedding"], run };
const ort = { Tensor, InferenceSession: { create: async () => session } };
const bytes = (path) => new Uint8Array(readFileSync(path));
const model = { "model.onnx": bytes("model.onnx") };
const card = { "card.json": bytes("card.json") };
const read = (names, of) => Object.fromEntries(names.map((it) => [it, bytes(of + it)]));
const index = { ...read(FILES, "index/"), "notes.txt": bytes("notes.txt") };
const refused = async (finder, files) =>
  finder.take(files).then(() => "taken", (error) => error.message);
const { query, lines, address } = json("asked");

const alone = createFinder(ort);
const states = [[alone.ready, alone.count]];
await alone.take(model);
alone.useText(lines);
states.push([alone.ready, alone.count, alone.sources]);
const plain = await alone.find(query, 2);
const messages = [await refused(alone, index)];
states.push([alone.count, alone.sources]);
messages.push(await refused(alone, { "card.json": bytes("other.json") }));
const marked = (await alone.take(card), await alone.find(query, 3));

const searching = createFinder(ort);
messages.push(await refused(searching, { ...index, "lines.i64": undefined }));
await searching.take(index);
states.push([searching.ready, searching.count, searching.sources]);
messages.push(await refused(searching, model));
messages.push(await refused(searching, { ...model, "card.json": bytes("wrong.json") }));
messages.push(String(searching.ready));
await searching.take({ ...model, ...card });
const found = await searching.find(query, 4);
searching.useText(lines);
states.push([searching.count, searching.sources]);

const fetched = createFinder(ort);
await fetched.take(await fetchFiles("model.onnx", "index", address));
const same = await fetched.find(query, 4);
const lost = fetchFiles("model.onnx", "no", address).catch((error) => error.message);
const cards = Object.keys(await fetchFiles("index/../bare/model.onnx", null, address));
messages.push(await lost);
const unmet = { ...json("card.json"), threshold: { cosine: null } };
await fetched.take({ ...model, "card.json": Buffer.from(JSON.stringify(unmet)) });
const none = (await fetched.find(query)).threshold;
print({ plain, marked, found, same, states, messages, cards, none });
"""


class Counted:
    """Counts ids by their remainder, as the runtime of the script does."""

    fingerprint = "f" * 32

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def encode(self, texts):
        rows = self.tokenizer.encode(list(texts), LENGTH)
        return np.array([np.bincount(np.mod(row, DIM), minlength=DIM) for row in rows])


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_find_in_text_and_in_an_index(tmp_path):
    onnx = pytest.importorskip("onnx")
    tokenizer = train_unigram(CORPUS, 500)
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    description = describe(tokenizer, LENGTH).decode()
    onnx.helper.set_model_props(model, {"tokenizer": description})
    content = model.SerializeToString()
    encoder = Counted(tokenizer)
    texts = list(dict.fromkeys(CORPUS))[:30]
    (tmp_path / "notes.txt").write_text("\n".join(texts), encoding="utf-8")
    built = build_index(encoder, [tmp_path / "notes.txt"], tmp_path / "index")
    card = {"encoder": {"fingerprint": Counted.fingerprint}, "threshold": THRESHOLD}
    card |= {"files": {"model.onnx": {"sha256": hashlib.sha256(content).hexdigest()}}}
    query, lines = texts[4], ["", texts[9], texts[4], " ", texts[2]]
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/model.onnx").write_bytes(content)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    files = {
        "model.onnx": content,
        "card.json": card,
        "other.json": card | {"files": {}},
        "wrong.json": card | {"encoder": {"fingerprint": "e" * 32}},
        "asked": {"query": query, "lines": lines, "address": address},
    }
    script = f"const DIM = {DIM};" + FINDER
    try:
        answer = test_portable_tokenizer_node.node(script, tmp_path, files)
    finally:
        server.shutdown()
        server.server_close()

    vectors = encoder.encode([query, *(text for text in lines if text.strip())])
    norms = np.linalg.norm(vectors, axis=1)
    cosines = vectors[1:] @ vectors[0] / norms[1:] / norms[0]
    plain, marked = answer["plain"], answer["marked"]
    assert [one["line"] for one in plain["found"]][0] == 3
    assert all(one["above"] for one in plain["found"]) and plain["threshold"] is None
    assert marked["threshold"] == THRESHOLD
    assert [one["cosine"] for one in marked["found"]] == pytest.approx(
        sorted(cosines, reverse=True)
    )
    expected = built.search(encoder, query, 4)
    found = answer["found"]["found"]
    assert answer["found"] == answer["same"]
    assert [tuple(one[key] for key in ("text", "file", "line")) for one in found] == [
        tuple(one[1:]) for one in expected
    ]
    for rows in (found, marked["found"]):
        above = [one["above"] for one in rows]
        assert above == [one["cosine"] >= THRESHOLD["cosine"] for one in rows]
    assert answer["none"] is None  # as precise as asked is no cosine
    assert answer["cards"] == ["model.onnx"]
    assert answer["states"] == [
        [False, 0],
        [True, 3, None],
        [3, None],
        [False, 30, [str(tmp_path / "notes.txt")]],
        [3, None],
    ]
    no_card, other, cut, bare_model, wrong, ready, lost = answer["messages"]
    assert no_card == bare_model and "With an index give card.json" in no_card
    assert "is not the file that card.json describes" in other
    assert "lacks lines.i64" in cut and "another model" in wrong
    assert ready == "false" and lost.endswith(": 404") and "/no/" in lost
