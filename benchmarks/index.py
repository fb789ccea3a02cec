"""An index of many sentences: time to build, bytes, time of a query, recall.

Sentences are translations of DATA/parallel/train, queries their English lines. Without
`--encoder` the encoder is a closed form on hashed words, so that the index is measured
and not the network. Queries are timed in a process of one thread; recall is the share
of the ten exact neighbours among float32 vectors that the int8 index has among its ten.

    python benchmarks/index.py --data DATA --json
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parent / "results" / "index.json"
TOP = 10
DIM, PIECES, FITTED = 384, 4000, 20_000  # of the closed form
THREADS = ("OMP", "OPENBLAS", "MKL")


def read(data: Path, count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return distinct translations, and the English line of each."""
    from keras_msd.data import Pairs, read_pairs

    files = read_pairs(data / "parallel" / "train").files
    each = -(-3 * count // len(files))  # small files and copies give fewer
    found: dict[str, str] = {}
    for file in files:
        for pair in islice(Pairs([file]), each):
            found.setdefault(" ".join(pair.target.split()), pair.source)
    found.pop("", None)
    drawn = random.Random(seed).sample(sorted(found), min(count, len(found)))
    return drawn, [found[text] for text in drawn]


def closed_form(texts: list[str], english: list[str]) -> Any:
    """Return an encoder without a body, fitted to hashed words."""
    from keras_msd.starts import closed_form_encoder, fit_ridge
    from keras_msd.teachers import HashedWords
    from keras_msd.tokenizers.sentencepiece import train_unigram

    texts, english = texts[:FITTED], english[:FITTED]
    pieces = min(PIECES, 2 * len(texts))
    tokenizer = train_unigram(texts + english, vocabulary_size=pieces)
    vectors = HashedWords(DIM).encode(english)
    rows = tokenizer.encode_plain(texts + english)
    table = fit_ridge(rows, np.concatenate([vectors, vectors]), pieces)
    return closed_form_encoder(tokenizer, table)


def median_ms(action: Any, queries: np.ndarray) -> float:
    """Return the median time of a query, after one that is not counted."""
    action(queries[:1])
    times = []
    for row in range(len(queries)):
        began = time.perf_counter()
        action(queries[row : row + 1])
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def time_queries(folder: Path) -> dict[str, float]:
    """Time the index and a plain float32 product, both in memory."""
    from keras_msd import Index

    index = Index.open(folder / "index")
    floats, queries = np.load(folder / "floats.npy"), np.load(folder / "queries.npy")

    def plain(query: np.ndarray) -> np.ndarray:
        products = floats @ query[0]
        best = np.argpartition(products, -TOP)[-TOP:]
        return best[np.argsort(-products[best])]

    return {
        "ms_a_query": median_ms(lambda query: index.nearest(query, TOP), queries),
        "ms_a_query_float32": median_ms(plain, queries),
    }


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build, search, compare."""
    from keras_msd import build_index, load_encoder
    from keras_msd.evaluate.nearest import top_k

    texts, english = read(given.data, given.sentences, given.seed)
    encoder = load_encoder(given.encoder) if given.encoder else None
    encoder = encoder or closed_form(texts, english)
    (folder / "lines.txt").write_text("\n".join(texts), encoding="utf-8")
    seconds = []
    for _ in range(2):  # the second time nothing has changed
        began = time.perf_counter()
        index = build_index(encoder, [folder / "lines.txt"], folder / "index")
        seconds.append(time.perf_counter() - began)
    chunks = [index.found(row, 0.0).text for row in range(len(index))]
    floats = encoder.encode(chunks, normalize=True)
    queries = encoder.encode(english[: given.queries], normalize=True)
    np.save(folder / "floats.npy", floats)
    np.save(folder / "queries.npy", queries)
    _, exact = top_k(queries, floats, TOP)
    found = [index.nearest(queries[[row]], TOP)[1] for row in range(len(queries))]
    shared = [len(set(a) & set(b)) / TOP for a, b in zip(exact, found, strict=True)]
    command = [sys.executable, __file__, "--time", str(folder)]
    one = {f"{name}_NUM_THREADS": "1" for name in THREADS}
    timed = subprocess.check_output(command, env=os.environ | one)
    return {
        "encoder": given.encoder.name if given.encoder else "closed form",
        "sentences": len(texts),
        "chunks": len(index),
        "dim": index.dim,
        "queries": len(queries),
        "seconds_to_build": round(seconds[0], 2),
        "seconds_unchanged": round(seconds[1], 2),
        "bytes": sum(file.stat().st_size for file in (folder / "index").iterdir()),
        "bytes_of_vectors": index.rows.vectors.nbytes + index.rows.scales.nbytes,
        "bytes_of_float32": floats.nbytes,
        "largest_error": index.meta.get("error"),
        "recall_at_10": round(float(np.mean(shared)), 4),
        **{key: round(value, 3) for key, value in json.loads(timed).items()},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    """Measure, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--encoder", type=Path, help="a folder; else the closed form")
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--time", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.time:
        print(json.dumps(time_queries(given.time)))
        return

    from keras_msd.files import write_json

    with tempfile.TemporaryDirectory() as folder:
        result = measure(given, Path(folder))
    write_json(given.out, result)
    for key, value in result.items():
        print(f"{key}: {value}")
    if given.json:
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
