import hashlib
import io
import json
import shutil
import subprocess
import zipfile

import portable_cases
import pytest
from tokenizer_texts import CORPUS

from keras_msd.export import loaders_folder
from keras_msd.export.litert_files import with_tokenizer
from keras_msd.export.portable import describe
from keras_msd.tokenizers.sentencepiece import train_unigram

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")

START = """
import { readFileSync } from "node:fs";
const json = (name) => JSON.parse(readFileSync(name));
const print = (value) => console.log(JSON.stringify(value));
const message = (action) => {
  try { return action(); } catch (error) { return error.message; }
};
"""
IDS = """
const { PortableTokenizer } = await import(root + "portable_tokenizer.mjs");
const rows = (kind) =>
  new PortableTokenizer(readFileSync(kind)).encode(json(kind + ".texts"));
print(json("kinds").map(rows));
"""
DAMAGED = """
const { PortableTokenizer } = await import(root + "portable_tokenizer.mjs");
const bytes = (base64) => Buffer.from(base64, "base64");
const make = (one) => message(() => new PortableTokenizer(bytes(one)) && "made");
const tokenizer = new PortableTokenizer(bytes(json("whole")));
const refuse = (texts) => message(() => tokenizer.encode(texts));
const refused = [refuse("one text"), refuse(["a\\ud800b"]), refuse(["a", null])];
print({ made: json("damaged").map(make), refused });
"""
FILES = """
const { readDescription } = await import(root + "web/description.mjs");
const found = (name) => readDescription(readFileSync(name)).then(
  (bytes) => Buffer.from(bytes).toString(), (error) => error.message);
print(await Promise.all(json("names").map(found)));
"""
ENCODE = """
const { checkModel, createEncoder } = await import(root + "web/embed.mjs");
class Tensor {
  constructor(type, data, dims) { Object.assign(this, { type, data, dims }); }
}
const shapes = [];
async function run({ token_ids: ids, padding_mask: mask }) {
  const [count, length] = ids.dims;
  shapes.push([ids.type, mask.type, ...ids.dims]);
  const sum = (row, of) =>
    ids.data.subarray(row * length, (row + 1) * length)
      .reduce((total, id, i) => total + of(id, mask.data[row * length + i]), 0);
  const data = new Float32Array(2 * count);
  for (let row = 0; row < count; row += 1) {
    data[2 * row] = sum(row, (id, keep) => id * keep);
    data[2 * row + 1] = sum(row, (id, keep) => (keep ? 0 : id));
  }
  return { embedding: new Tensor("float32", data, [count, 2]) };
}
const session = { outputNames: ["embedding"], run };
const ort = { Tensor, InferenceSession: { create: async () => session } };
const model = new Uint8Array(readFileSync("model"));
const encoder = await createEncoder(model, ort);
const vectors = (await encoder.encode(json("texts"))).map((one) => Array.from(one));
const check = (card) => checkModel(model, card, "m").catch((e) => e.message);
const card = { files: { m: { sha256: json("sha256") } } };
const checks = [await check(card), await check(null)];
Object.defineProperty(globalThis, "crypto", { value: {} });
print({ vectors, shapes, checks: [...checks, await check(card)] });
"""


def node(script, folder, files):
    """Run a script in a folder with files, and return what it prints."""
    for name, content in files.items():
        whole = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(whole)
    root = loaders_folder().resolve().as_uri() + "/"
    start = f"const root = {json.dumps(root)};" + START
    (folder / "run.mjs").write_text(start + script)
    shown = subprocess.check_output([NODE, "run.mjs"], cwd=folder, timeout=120)
    return json.loads(shown)


@pytest.fixture(scope="module")
def description():
    return describe(train_unigram(CORPUS, 500), 16)


def test_ids_equal_those_of_python(tmp_path):
    tokenizers = [*portable_cases.unigrams(), portable_cases.wordpiece(tmp_path / "w")]
    files = {"kinds": [f"kind{number}" for number in range(len(tokenizers))]}
    texts = [portable_cases.texts(number) for number in range(len(tokenizers))]
    for name, tokenizer, given in zip(files["kinds"], tokenizers, texts, strict=True):
        files = files | {name: describe(tokenizer, 5000), f"{name}.texts": given}
    found = node(IDS, tmp_path, files)
    for tokenizer, given, rows in zip(tokenizers, texts, found, strict=True):
        assert rows == tokenizer.encode(given, 5000)


def test_damaged_descriptions_and_texts_are_refused(tmp_path, description):
    uncased = describe(portable_cases.wordpiece(tmp_path / "w"), 16)
    cases = [
        case for one in (description, uncased) for case in portable_cases.damages(one)
    ]
    encoded = portable_cases.encoded
    files = {"damaged": [encoded(one) for one, _ in cases]}
    files["whole"] = encoded(description)
    found = node(DAMAGED, tmp_path, files)
    for (_, reason), message in zip(cases, found["made"], strict=True):
        assert message.startswith("The description of the tokenizer is damaged: ")
        assert reason in message
    assert "must be a list of texts" in found["refused"][0]
    assert "lone surrogate" in found["refused"][1]
    assert "must be a string. Received: null" in found["refused"][2]


def test_descriptions_are_found_in_model_files(tmp_path, description):
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph([], "g", [], [])
    model = onnx.helper.make_model(graph, doc_string="d" * 300)
    without = model.SerializeToString()
    pairs = {"author": "a", "tokenizer": description.decode(), "z": "z"}
    onnx.helper.set_model_props(model, pairs)
    whole = model.SerializeToString()
    network = b"\x1c\0\0\0TFL3" + bytes(500)
    files = {"onnx": whole, "litert": with_tokenizer(network, description)}
    labelled = io.BytesIO(files["litert"])
    with zipfile.ZipFile(labelled, "a") as archive:
        archive.writestr("labels.txt", "a\n")
    files |= {"labelled": labelled.getvalue(), "without": without, "cut": whole[:-9]}
    files |= {"empty": b"", "other": b"PNG" * 99, "bare": network}
    files |= {"stored": portable_cases.stored(network, description)}
    files |= {"short": portable_cases.of_wrong_size(files["litert"])}
    found = node(FILES, tmp_path, {"names": list(files), **files})
    answers = dict(zip(files, found, strict=True))
    for name in ("onnx", "litert", "labelled", "stored"):
        assert answers[name] == description.decode()
    assert "carries no tokenizer" in answers["without"]
    assert "carries no tokenizer" in answers["empty"]
    for name in ("cut", "other", "bare", "short"):
        assert "cut off or of another kind" in answers[name]


def test_sentences_are_batched_padded_and_put_back(tmp_path, description):
    onnx = pytest.importorskip("onnx")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    onnx.helper.set_model_props(model, {"tokenizer": description.decode()})
    content = model.SerializeToString()
    texts = [*CORPUS[:40], "", "a"]
    files = {"model": content, "texts": texts}
    files["sha256"] = hashlib.sha256(content).hexdigest()
    found = node(ENCODE, tmp_path, files)
    tokenizer = train_unigram(CORPUS, 500)
    rows = tokenizer.encode(texts, 16)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    for batch, shape in zip((order[:32], order[32:]), found["shapes"], strict=True):
        width = len(rows[batch[-1]])
        assert shape == ["int32", "int32", len(batch), width]
        for row in batch:
            padding = (width - len(rows[row])) * tokenizer.pad_id
            assert found["vectors"][row] == [sum(rows[row]), padding]
    assert found["checks"][0] is None
    assert "is not the file that card.json describes" in found["checks"][1]
    assert "need https or localhost" in found["checks"][2]
