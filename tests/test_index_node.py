"""The index in JavaScript gives what Python gives."""

import json
import shutil

import numpy as np
import pytest
import test_portable_tokenizer_node

from keras_msd.index import Index, build_index

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")
SEARCH = """
const { FILES, openIndex } = await import(root + "web/sentence_index.mjs");
const bytes = (path) => new Uint8Array(readFileSync(path));
const read = (folder) =>
  Object.fromEntries(FILES.map((name) => [name, bytes(folder + name)]));
const index = openIndex(read(json("folder")));
const { queries, top, threshold } = json("asked");
const found = queries.map((query) => index.search(new Float32Array(query), top));
const above = index.search(new Float32Array(queries[0]), top, threshold);
const check = (card) => message(() => index.checkModel(card) ?? "same");
const cards = json("cards").map(check);
const cut = read(json("folder"));
cut["ends.i64"] = cut["ends.i64"].slice(1);
const { "lines.i64": lines, ...short } = read(json("folder"));
const meta = new TextEncoder().encode(JSON.stringify({ ...index.meta, version: 9 }));
const broken = [cut, short, { ...cut, "index.json": meta }];
const refused = broken.map((files) => message(() => openIndex(files)));
refused.push(message(() => index.search(new Float32Array(3))));
print({ found, above, cards, refused, threshold: index.threshold });
"""


class Drawn:
    fingerprint = "f" * 32

    def encode(self, texts):
        seeds = (list(text.encode()) for text in texts)
        return np.array([np.random.default_rng(seed).normal(size=24) for seed in seeds])


def test_search(tmp_path):
    for name, lines in {"a": 40, "b": 60}.items():
        rows = [f"{name} {i} ü {i % 7}\n" for i in range(lines)] + ["twice\n"]
        (tmp_path / f"{name}.txt").write_text("".join(rows), encoding="utf-8")
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    threshold = {"cosine": 0.25, "precision": 95.5, "recall": 1.5, "pairs": 7}
    threshold |= {"asked": 95.0, "set": "held out"}
    build_index(Drawn(), files, tmp_path / "i", threshold=threshold)
    index, texts = Index.open(tmp_path / "i"), ["a 3 ü 3", "twice", "what?"]
    expected = [index.search(Drawn(), text, 7) for text in texts]
    lowest = (expected[0][2].cosine + expected[0][3].cosine) / 2
    asked = {"queries": (3 * Drawn().encode(texts)).tolist(), "top": 7}
    given = {
        "folder": f"{tmp_path}/i/",
        "asked": asked | {"threshold": lowest},
        "cards": [{"encoder": {"fingerprint": Drawn.fingerprint}}, {"encoder": {}}, {}],
    }
    answer = test_portable_tokenizer_node.node(SEARCH, tmp_path, given)
    for found, of in zip(answer["found"], expected, strict=True):
        assert [(one["text"], one["file"], one["line"]) for one in found] == [
            tuple(one[1:]) for one in of
        ]
        assert [one["cosine"] for one in found] == pytest.approx(
            [one.cosine for one in of], abs=2e-6
        )
    assert answer["above"] == answer["found"][0][:3]
    assert [one["line"] for one in answer["found"][1][:2]] == [41, 61]
    assert answer["cards"][0] == "same"
    assert all("another model" in text for text in answer["cards"][1:])
    cut, lacks, version, width = answer["refused"]
    assert "ends.i64 of the index must have" in cut and "lacks lines.i64" in lacks
    assert "version 9" in version and "24 numbers a vector, not 3" in width
    assert answer["threshold"] == threshold == json.loads(json.dumps(index.threshold))
