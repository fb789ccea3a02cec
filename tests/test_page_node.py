"""The script of export/web/index.html, on a stand-in for a document and a runtime."""

import hashlib
import re
import shutil

import numpy as np
import pytest
import test_export_portable_node
from tokenizer_texts import CORPUS

from keras_msd.export import loaders_folder
from keras_msd.export.portable import describe
from keras_msd.tokenizers.sentencepiece import train_unigram

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="Node is not installed"
)
LENGTH, DIM = 16, 7
# Counts ids by their remainder.
RUNTIME = """
export class Tensor {
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
const create = async () => ({ outputNames: ["embedding"], run });
export const InferenceSession = { create };
"""
PAGE = """
const element = () => ({
  style: {},
  children: [],
  on: {},
  get firstChild() { return this.children[0]; },
  get lastChild() { return this.children.at(-1); },
  append(...more) { this.children.push(...more); },
  replaceChildren(...all) { this.children = all; },
  addEventListener(name, action) { this.on[name] = action; },
});
const { query, lines, address, search } = json("asked");
const [artefact, texts, asked, button] = [1, 2, 3, 4].map(element);
const byId = { given: element(), status: element(), nearest: element() };
const form = { ...element(), elements: { artefact, texts, query: asked } };
form.addEventListener = (name, action) => { form.submit = action; };
globalThis.document = {
  forms: [form],
  getElementById: (id) => byId[id],
  querySelector: () => button,
  createElement: element,
};
globalThis.location = { href: address, search };
globalThis.fetch = async (url) => {
  const found = String(url) === `${address}model.onnx`;
  return found ? new Response(readFileSync("model.onnx")) : { ok: false, status: 404 };
};
await import("./page.mjs");
const settled = () => new Promise((go) => setTimeout(go, 200));
const state = () => ({
  disabled: button.disabled,
  given: byId.given.textContent,
  status: byId.status.textContent,
  found: byId.nearest.children.map(({ className, children }) => {
    const [cosine, text, bar, place] = children;
    const shown = [cosine.textContent, text.textContent, place.textContent];
    return [...shown, className ?? null, bar.children.length];
  }),
});
await settled();
const states = [state()];
texts.value = lines.join("\\n");
asked.value = query;
const choices = [
  ["card.json"],
  ["model.onnx", "other.json"],
  ["card.json", "model.onnx"],
];
for (const names of choices) {
  artefact.files = names.map(
    (name) => new File([readFileSync(name)], name.replace("other", "card")),
  );
  artefact.on.change();
  await settled();
  states.push(state());
}
form.submit({ preventDefault: () => {} });
await settled();
states.push(state());
print(states);
"""


@pytest.mark.parametrize("asked", ["model.onnx", "none/model.onnx"])
def test_page(tmp_path, asked):
    onnx = pytest.importorskip("onnx")
    tokenizer = train_unigram(CORPUS, 500)
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    description = describe(tokenizer, LENGTH).decode()
    onnx.helper.set_model_props(model, {"tokenizer": description})
    content = model.SerializeToString()
    lines = ["", CORPUS[9], CORPUS[4], " ", CORPUS[2]]
    places = [line for line, text in enumerate(lines, 1) if text.strip()]
    ids = tokenizer.encode([CORPUS[4], *(lines[it - 1] for it in places)], LENGTH)
    counts = np.array([np.bincount(np.mod(row, DIM), minlength=DIM) for row in ids])
    units = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    cosines = units[1:] @ units[0]
    order = np.argsort(-cosines)
    middle = float(cosines[order[1]])
    threshold = {"cosine": middle - 1e-9, "precision": 95.4, "set": "held out"}
    card = {"files": {"model.onnx": {"sha256": hashlib.sha256(content).hexdigest()}}}
    html = (loaders_folder() / "web" / "index.html").read_text("utf-8")
    (script,) = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    script = script.replace('"onnxruntime-web"', '"./runtime.mjs"')
    embed = (loaders_folder() / "web" / "embed.mjs").resolve().as_uri()
    address = "http://localhost/"
    files = {
        "model.onnx": content,
        "card.json": card | {"threshold": threshold},
        "other.json": {"files": {}},
        "runtime.mjs": f"const DIM = {DIM};{RUNTIME}".encode(),
        "page.mjs": script.replace("./embed.mjs", embed).encode(),
        "asked": {
            "query": CORPUS[4],
            "lines": lines,
            "address": address,
            "search": f"?model={asked}&query=Caf%C3%A9",
        },
    }
    states = test_export_portable_node.node(PAGE, tmp_path, files)
    opened, no_model, other, ready, searched = states
    if asked == "model.onnx":
        assert (opened["given"], opened["disabled"]) == ("The model is ready.", False)
        assert re.fullmatch(r"4 sentences in \d+ ms\. ", opened["status"])
        assert [row[3:] for row in opened["found"]] == [[None, 1]] * 4  # no threshold
    else:
        assert opened["status"] == f"{address}none/model.onnx: 404"
        assert opened["found"] == []
    assert no_model["status"] == "Choose model.onnx, with card.json if you have it."
    assert "is not the file that card.json describes" in other["status"]
    assert other["disabled"] and other["given"] == "Choose a model file."
    assert not ready["disabled"] and ready["status"] == ""
    mark = f"From {middle:.2f}, the mark, 95 % were right on the held-out pairs"
    assert re.match(rf"3 sentences in \d+ ms\. {mark} \(held out\)", searched["status"])
    assert searched["found"] == [
        [f"{cosines[row]:.4f}", lines[places[row] - 1], f"line {places[row]}", shade, 2]
        for row, shade in zip(order, ("", "", "below"), strict=True)
    ]
