"""How fast does Python encode a corpus, beside sentence-transformers?

Real sentences of mixed length, the weights of all-MiniLM-L6-v2, from texts to vectors,
with all cores: `load_encoder(...).encode` against `SentenceTransformer(...).encode` in
torch and in onnxruntime; all of them sort by length. Each is called as its
documentation calls it, without further arguments. Systems take turns on blocks of
sentences; a time is the sum over the blocks, after some sentences that are not counted.
int8 of both, on the first block, stands beside. With the default teacher:

    python benchmarks/encoding.py --data DATA --peer-python PYTHON --json

PYTHON has `sentence-transformers[onnx]`; by default the running one.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from inference import start
from inference_systems import REFERENCE, System, make_files, systems
from teacher_parity import read_texts
from workers import Worker

RESULT = Path(__file__).parent / "results" / "encoding.json"
OURS, OURS_INT8 = "keras_msd, float32", "keras_msd, LiteRT int8"
PEERS = (REFERENCE, "sentence-transformers, ONNX float32")
INT8 = OURS_INT8, "sentence-transformers, ONNX int8"
LEAST_COSINE = 0.99999


def encode(
    worker: Worker, texts: list[str], scratch: Path, reference: np.ndarray | None = None
) -> tuple[float, float, np.ndarray]:
    """Return the seconds, the smallest cosine to `reference`, and the vectors."""
    asked, got = scratch / "texts.json", scratch / "vectors.npy"
    asked.write_text(json.dumps(texts), encoding="utf-8")
    took = worker.ask(do="encode", texts=str(asked), vectors=str(got))["seconds"]
    vectors = np.load(got)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    reference = vectors if reference is None else reference
    return took, float((vectors * reference).sum(1).min()), vectors


def measure(
    workers: dict[str, Worker], texts: list[str], blocks: int, scratch: Path
) -> dict[str, dict[str, Any]]:
    """Return sentences, seconds and the smallest cosine of each system."""
    found: dict[str, dict[str, Any]] = {
        name: {"sentences": 0, "seconds": 0.0, "min_cosine": 1.0} for name in workers
    }
    for worker in workers.values():
        encode(worker, texts[:: max(1, len(texts) // 256)], scratch)
    names = list(workers)
    for number in range(blocks):
        part = texts[number::blocks]
        reference = None
        turns = names[number % len(names) :] + names[: number % len(names)]
        # The reference's vectors are there before any other's are compared with them.
        turns = [REFERENCE, *(name for name in turns if name != REFERENCE)]
        for name in turns:
            if number and name in INT8:
                continue
            took, cosine, vectors = encode(workers[name], part, scratch, reference)
            reference = vectors if reference is None else reference
            row = found[name]
            row["sentences"] += len(part)
            row["seconds"] += took
            row["min_cosine"] = min(row["min_cosine"], cosine)
            print(f"block {number + 1}: {name} {took:.1f} s", file=sys.stderr)
    for row in found.values():
        row["sentences_per_second"] = round(row["sentences"] / row["seconds"], 1)
        row["seconds"] = round(row["seconds"], 2)
        row["min_cosine"] = round(row["min_cosine"], 7)
    return found


def main() -> int:
    """Measure, write the result, print it; 1 if float32 vectors differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--sentences", type=int, default=50000)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--work", type=Path, help="keep exported files here")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()

    from keras_msd import load_encoder
    from keras_msd.io.files import write_json
    from keras_msd.teachers.teacher import default_folder

    began, folder = time.monotonic(), Path(default_folder())
    texts = list(islice(dict.fromkeys(read_texts(given.data)), given.sentences))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        scratch = Path(name)
        work = (given.work or scratch / "work").resolve()
        work.mkdir(parents=True, exist_ok=True)
        make_files(work, folder, load_encoder(folder), given.peer_python)
        known = systems(work, folder, given.peer_python)
        ours = {OURS: folder, OURS_INT8: work / "litert_int8"}
        known |= {
            name: System("encoder", path, sys.executable, ())
            for name, path in ours.items()
        }
        workers = {
            name: stack.enter_context(
                start(name, known[name], os.cpu_count() or 1, scratch / f"{i}.log")
            )
            for i, name in enumerate((*PEERS, OURS, *INT8))
        }
        packages = {name: one.read()["packages"] for name, one in workers.items()}
        found = measure(workers, texts, given.blocks, scratch)
    fastest = max(PEERS, key=lambda name: found[name]["sentences_per_second"])
    rate = found[OURS]["sentences_per_second"]
    result = {
        "ratio": round(rate / found[fastest]["sentences_per_second"], 3),
        "fastest_peer": fastest,
        "systems": found,
        "packages": packages,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    write_json(given.out, result)
    for name, row in found.items():
        print(f"{name:36} {row['sentences_per_second']:8} /s  {row['min_cosine']}")
    if given.json:
        print(json.dumps(result, sort_keys=True))
    return int(found[OURS]["min_cosine"] < LEAST_COSINE)


if __name__ == "__main__":
    raise SystemExit(main())
