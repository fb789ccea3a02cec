"""What do vectors of small12 in 8 bits and in one bit find, of what float32 finds?

    pip install ./packages/small12
    python benchmarks/small_vectors.py --data DATA

English sentences of `<data>/tatoeba` are searched with translations in 12 languages.
Recall is the share of the ten nearest sentences by float32 that are among the ten by
small vectors; P@1 is how often the right sentence comes first. `rescored` takes the
forty nearest by bits and orders them by 8 bits. Bits are of vectors from which the mean
of the documents was subtracted, or (`raw`) was not. Needs only small12's own package.
Writes benchmarks/results/small_vectors.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from corpora import rows
from keras_msd_small12 import load

RESULT = Path(__file__).with_name("results") / "small_vectors.json"
TOP, MORE = 10, 40
LANGUAGES = "ara cmn deu fra ita jpn nld pol por rus spa tur".split()


def pairs(folder: Path, count: int) -> list[tuple[str, str]]:
    """Return (query, English) of all languages in turn, each English once."""
    files = [folder / f"tatoeba.{language}-eng.tsv.gz" for language in LANGUAGES]
    found: dict[str, str] = {}
    for path in files:
        for english, other, *_ in rows(path, -(-count // len(files))):
            found.setdefault(english, other)
    return [(other, english) for english, other in found.items()]


def nearest(scores: np.ndarray, top: int) -> np.ndarray:
    """Return the places of the highest scores of each row, highest first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :top]


def bits(vectors: np.ndarray) -> np.ndarray:
    """Return -1 or 1 for each number: products order like Hamming distances."""
    return np.where(vectors > 0, np.float32(1), np.float32(-1))


def main() -> None:
    """Measure, print a line for each kind and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--count", type=int, default=3000, help="of sentences")
    options = parser.parse_args()
    both = pairs(options.data / "tatoeba", options.count)
    encoder = load()
    queries = encoder.encode([query for query, _ in both])
    documents = encoder.encode([text for _, text in both])
    exact = queries @ documents.T
    wanted = nearest(exact, TOP)
    scale = 127 / np.abs(documents).max()
    codes = [np.clip(np.rint(v * scale), -127, 127) for v in (queries, documents)]
    mean = documents.mean(axis=0)
    eight = codes[0] @ (codes[1] / np.linalg.norm(codes[1], axis=1, keepdims=True)).T
    one = bits(queries - mean) @ bits(documents - mean).T
    found = {
        "float32": wanted,
        "int8": nearest(eight, TOP),
        "bits": nearest(one, TOP),
        "bits, raw": nearest(bits(queries) @ bits(documents).T, TOP),
    }
    candidates = nearest(one, MORE)
    order = nearest(np.take_along_axis(eight, candidates, axis=1), TOP)
    found["bits, rescored"] = np.take_along_axis(candidates, order, axis=1)
    width = documents.shape[1]
    sizes = {"float32": 4 * width, "int8": width, "bits, rescored": width + width // 8}
    result = {}
    for name, places in found.items():
        pair_of_rows = zip(places, wanted, strict=True)
        shared = [len(set(a) & set(b)) / TOP for a, b in pair_of_rows]
        right = places[:, 0] == np.arange(len(both))
        result[name] = {
            "bytes_a_vector": sizes.get(name, width // 8),
            "recall_at_10": round(100 * float(np.mean(shared)), 1),
            "p_at_1": round(100 * float(right.mean()), 1),
        }
        print(name, json.dumps(result[name]))
    about = {"sentences": len(both), "kinds": result}
    RESULT.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
