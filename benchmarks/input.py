"""Input alone, without a model: how fast batches come, and in how much memory.

Tables of 1M and of 16M pairs with token ids of lengths like those of sentences (19 on
average, 64 at most), and a store of 1M vectors of width 384, one for each English line;
in a scratch folder that is removed. A process of its own opens a table and reads
batches of 1,024 for 10 seconds in each of these ways:

- `dataset`: `tensorflow_dataset(batches)`, as a step under TensorFlow gets them;
- `batches`: `PairBatches`, as under JAX.

Private memory (RssAnon + VmSwap) must not grow with the table.

    python benchmarks/input.py --json                        # 20 minutes, 6 GB of disk
    python benchmarks/input.py --pairs 2000 8000 --lines 2000 --seconds 1
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from workers import private_bytes

from keras_msd.data import (
    GuideStore,
    PairBatches,
    PairTable,
    TextTable,
    read_pairs,
    tensorflow_dataset,
)
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "input.json"
WAYS = "dataset", "batches"
MAX_LENGTH, VOCABULARY, WIDTH, BATCH = 64, 30_000, 384, 1024
FIRST = 20  # batches that are not counted


class MadeTokens:
    """Token ids that are drawn, whatever the text."""

    fingerprint, pad_id, vocabulary_size = "made", 0, VOCABULARY

    def __init__(self) -> None:
        """Begin the draws."""
        self.draw = np.random.default_rng(0)
        self.ids = self.draw.integers(1, VOCABULARY, 1 << 20).astype(np.uint16)

    def encode(self, texts: list[str], max_length: int) -> list[np.ndarray]:
        """Return uint16 ids of each text."""
        drawn = self.draw.lognormal(np.log(17), 0.45, len(texts)).astype(int)
        lengths = np.clip(drawn, 4, max_length).tolist()
        starts = self.draw.integers(0, len(self.ids) - max_length, len(texts)).tolist()
        ends = zip(starts, lengths, strict=True)
        return [self.ids[start : start + length] for start, length in ends]


class MadeVectors:
    """Vectors that are drawn, whatever the text."""

    dim, fingerprint = WIDTH, "made"

    def __init__(self) -> None:
        """Begin the draws."""
        self.draw = np.random.default_rng(1)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return float32 `(n, WIDTH)`."""
        return self.draw.standard_normal((len(texts), WIDTH), np.float32)


def write_table(folder: Path, pairs: int, lines: int) -> None:
    """Write a table of pairs, with every English line in turn."""
    folder.mkdir()
    path = folder / "made.en-de.tsv"
    with path.open("w") as file:
        for row in range(pairs):
            file.write(f"English line {row % lines}\tDeutsche Zeile {row}\n")
    texts = TextTable.build(read_pairs(path), folder / "texts")
    path.unlink()
    PairTable.build(texts, MadeTokens(), folder, max_length=MAX_LENGTH)


def batches(folder: Path) -> PairBatches:
    """Return the batches of a table; the store lies beside it."""
    encoder = SimpleNamespace(tokenizer=MadeTokens(), max_length=MAX_LENGTH)
    guides = {"teacher": (GuideStore(MadeVectors(), folder.parent / "store"), "source")}
    table = PairTable.open(folder)
    return PairBatches(table, encoder, guides, batch_size=BATCH, epochs=1 << 20)


def read(folder: Path, way: str, seconds: float) -> dict[str, Any]:
    """Read batches for some seconds, and return what it took."""
    most = 0
    made = batches(folder)
    source: Iterator[Any] = (made[place] for place in count())
    if way == "dataset":
        source = iter(tensorflow_dataset(made))
    for _ in range(FIRST):
        next(source)
    began, done = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        next(source)
        done += 1
        most = max(most, private_bytes()) if done % 64 == 1 else most
    return {
        "pairs": len(made.table),
        "way": way,
        "pairs_per_second": round(done * BATCH / spent),
        "private_bytes": most,
    }


def main() -> None:
    """Measure, print each case, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[10**6, 16 * 10**6])
    parser.add_argument("--lines", type=int, default=10**6, help="English ones")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each case")
    parser.add_argument("--json", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        folder, way = given.read
        print(json.dumps(read(Path(folder), way, given.seconds)))
        return
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for pairs in given.pairs:
            write_table(Path(name) / f"{pairs}", pairs, given.lines)
            batches(Path(name) / f"{pairs}")  # computes the vectors
        for way in WAYS:
            for pairs in given.pairs:
                command = [sys.executable, __file__, "--seconds", str(given.seconds)]
                command += ["--read", f"{name}/{pairs}", way]
                rows.append(json.loads(subprocess.check_output(command, text=True)))
                print(json.dumps(rows[-1]), flush=True)
    if given.json:
        machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        about = {"batch_size": BATCH, "lines": given.lines, "machine": machine}
        write_json(RESULT, about | {"rows": rows})


if __name__ == "__main__":
    main()
