"""How fast does Python encode a corpus, beside sentence-transformers?

Real sentences of mixed length, the weights of all-MiniLM-L6-v2, from texts to vectors,
with all cores: `load_encoder(...).encode` against `SentenceTransformer(...).encode` in
torch and in onnxruntime; all of them sort by length. Each is called as its
documentation calls it, without further arguments. Systems take turns on blocks of
sentences; a time is the sum over the blocks, after some sentences that are not counted.
With the default teacher:

    python benchmarks/encoding.py --data DATA --peer-python PYTHON --json

PYTHON has `sentence-transformers[onnx]`; by default the running one. Exit code 1: a
vector has a cosine under 0.99999 with that of sentence-transformers.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from corpora import sentences
from workers import Worker, serve

RESULT = Path(__file__).parent / "results" / "encoding.json"
REFERENCE, OURS = "sentence-transformers, torch float32", "keras_msd, float32"
ONNX = "sentence-transformers, ONNX float32"
SYSTEMS = {
    REFERENCE: ("sentence-transformers", "transformers", "torch", "numpy"),
    ONNX: ("sentence-transformers", "optimum", "optimum-onnx", "onnxruntime"),
    OURS: ("tensorflow", "keras", "keras-hub", "numpy"),
}
LEAST_COSINE = 0.99999


class Encoding:
    """A system in its own process: it encodes from file to file."""

    def __init__(self, name: str, folder: str) -> None:
        if name == OURS:
            from keras_msd import load_encoder

            self.call = load_encoder(folder).encode
            return
        from sentence_transformers import SentenceTransformer

        options: dict[str, Any] = {}
        if name == ONNX:
            exported = {"provider": "CPUExecutionProvider", "export": True}
            options = {"backend": "onnx", "model_kwargs": exported}
        model = SentenceTransformer(folder, device="cpu", **options)
        self.call = partial(model.encode, show_progress_bar=False)

    def encode(self, texts: str, vectors: str) -> float:
        """Write the vectors of the texts in a file and return the seconds."""
        listed = json.loads(Path(texts).read_text(encoding="utf-8"))
        began = time.perf_counter()
        found = self.call(listed)
        seconds = time.perf_counter() - began
        np.save(vectors, found / np.linalg.norm(found, axis=1, keepdims=True))
        return seconds


def measure(
    workers: dict[str, Worker], texts: list[str], blocks: int, scratch: Path
) -> dict[str, dict[str, Any]]:
    """Return sentences, seconds and the smallest cosine of each system."""
    asked, got = scratch / "texts.json", scratch / "vectors.npy"

    def encode(name: str, part: list[str]) -> tuple[float, np.ndarray]:
        asked.write_text(json.dumps(part), encoding="utf-8")
        took = workers[name].ask("encode", texts=str(asked), vectors=str(got))
        return float(took), np.load(got)

    found: dict[str, dict[str, Any]] = {
        name: {"sentences": 0, "seconds": 0.0, "min_cosine": 1.0} for name in workers
    }
    for name in workers:
        encode(name, texts[:: max(1, len(texts) // 256)])
    for number in range(blocks):
        part = texts[number::blocks]
        first, *others = workers
        # The reference's vectors are there before any other's are compared with them.
        turns = [first, *others[number % 2 :], *others[: number % 2]]
        reference = None
        for name in turns:
            took, vectors = encode(name, part)
            reference = vectors if reference is None else reference
            row = found[name]
            row["sentences"] += len(part)
            row["seconds"] += took
            cosine = float((vectors * reference).sum(1).min())
            row["min_cosine"] = min(row["min_cosine"], cosine)
            print(f"block {number + 1}: {name} {took:.1f} s", file=sys.stderr)
    for row in found.values():
        row["sentences_per_second"] = round(row["sentences"] / row["seconds"], 1)
        row["seconds"] = round(row["seconds"], 2)
        row["min_cosine"] = round(row["min_cosine"], 7)
    return found


def main() -> int:
    """Measure, write the result, print it; 1 if vectors differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--sentences", type=int, default=50000)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--json", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()

    from keras_msd.io.files import write_json
    from keras_msd.teachers.teacher import default_folder

    began = time.monotonic()
    lines = given.sentences  # at the most, as one file may have them all
    texts = sentences(given.data / "parallel/train", given.sentences, of_a_file=lines)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        scratch = Path(name)
        workers = {}
        for place, system in enumerate(given.systems):
            python = sys.executable if system == OURS else given.peer_python
            command = [python, __file__, "--worker", system, default_folder()]
            worker = Worker(command, scratch / f"{place}.log")
            workers[system] = stack.enter_context(worker)
        found = measure(workers, texts, given.blocks, scratch)
        packages = {system: worker.packages for system, worker in workers.items()}
    rates = {name: row["sentences_per_second"] for name, row in found.items()}
    result = {
        "ratios": {it: round(rates[OURS] / rates[it], 3) for it in rates if it != OURS},
        "systems": found,
        "packages": packages,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    if given.json:
        write_json(RESULT, result)
    print(json.dumps(result, indent=1))
    return int(found[OURS]["min_cosine"] < LEAST_COSINE)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        system, folder = sys.argv[2:]
        serve(partial(Encoding, system, folder), SYSTEMS[system])
    else:
        raise SystemExit(main())
