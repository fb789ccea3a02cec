"""Input alone, without a model: how fast batches come, and in how much memory.

Two tables, of 1M and of 16M pairs in 16 files, with token ids of lengths like those of
sentences (19 on average, 64 at most), and one store of 1M vectors of width 384, one for
each English line; in a scratch folder that is removed. A process of its own opens a
table and reads batches of 1,024 for 10 seconds in each of these ways:

- `dataset`: `tensorflow_dataset(batches)`, as a step under TensorFlow gets them;
- `batches`: `PairBatches`, as under JAX;
- `one of 8`: the rows that the first of eight processes reads of each batch, by
  `tensorflow_dataset`; pairs count in whole batches, as all processes go on together.

Tables are in the page cache, as they have just been compared with their checksums.
Pairs by second of processor time, of all threads, say what other work on the machine
has no part in. Private memory (RssAnon + VmSwap) must not grow with the table; pages of
mapped files (RssFile), which the system takes back when it likes, are told apart.

    python benchmarks/input.py --json                        # 10 minutes, 4 GB of disk
    python benchmarks/input.py --pairs 20000 80000 --lines 20000 --seconds 2

A replica of a student of 4 million parameters trains on 73 pairs/s (stage 3, batches of
64, two cores), the default of `--replica-pairs-per-second`. Faster devices have numbers
of their own.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from memory_epoch import Peak

from keras_msd.data import GuideStore, PairBatches, PairTable, TextTable
from keras_msd.data.tables import TEXTS_VERSION, RaggedWriter
from keras_msd.io.files import write_json, write_metadata

RESULT = Path(__file__).parent / "results" / "input.json"
WAYS = ("dataset", "batches", "one of 8")
FILES, DIGITS, CHUNK = 16, 8, 1 << 16
MAX_LENGTH, VOCABULARY, WIDTH = 64, 30_000, 384
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


class Numbered(GuideStore):
    """A store of numbers as texts, in order: it knows their rows without its index."""

    def build(self, *given: Any, **options: Any) -> None:
        """Compute nothing: all vectors are there."""

    def rows(self, sentences: list[str]) -> np.ndarray:
        """Return the numbers, int64 `(n,)`."""
        return np.array(sentences).astype(np.int64)


def line(number: int) -> str:
    """Return an English line."""
    return f"{number:0{DIGITS}d}"


def write_texts(folder: Path, pairs: int, lines: int) -> TextTable:
    """Write a table: every English line in turn, translations without a character."""
    folder.mkdir(parents=True)
    powers = 10 ** np.arange(DIGITS - 1, -1, -1)
    with (
        RaggedWriter(folder / "source", np.uint8) as source,
        RaggedWriter(folder / "target", np.uint8) as target,
    ):
        for start in range(0, pairs, CHUNK):
            numbers = np.arange(start, min(start + CHUNK, pairs)) % lines
            digits = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
            source.extend_flat(digits, np.full(len(numbers), DIGITS))
            target.extend_flat(digits[:0], np.zeros(len(numbers), np.int64))
    edges = np.linspace(0, pairs, FILES + 1).astype(int).tolist()
    counts = [
        {
            "name": f"made.en-{n:02d}",
            "source_language": "en",
            "language": "de",
            "kept": edges[n + 1] - edges[n],
        }
        for n in range(FILES)
    ]
    meta = {"version": TEXTS_VERSION, "key": f"made {pairs} {lines}", "counts": counts}
    write_metadata(folder / "texts.json", meta, "texts")
    return TextTable.open(folder)


def write_table(folder: Path, pairs: int, lines: int) -> None:
    """Write texts and token ids."""
    texts = write_texts(folder / "texts", pairs, lines)
    PairTable.build(texts, MadeTokens(), folder, max_length=MAX_LENGTH)


def status(name: str) -> int:
    """Return bytes of a line of /proc/self/status, such as "RssFile"."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(row.split(":", 1) for row in lines)[name].split()[0]) * 1024


def read(folder: Path, store: Path, way: str, size: int, seconds: float) -> Any:
    """Open a table, read batches for some seconds, and return what it took."""
    from keras_msd.data import tensorflow_dataset  # any way: a fit imports it

    peak, began = Peak(), time.perf_counter()
    start, mapped = peak.take(), status("RssFile")
    table = PairTable.open(folder)
    encoder = SimpleNamespace(tokenizer=MadeTokens(), max_length=MAX_LENGTH)
    guides = {"teacher": (Numbered(MadeVectors(), store), "source")}
    batches = PairBatches(table, encoder, guides, batch_size=size, epochs=1 << 20)
    if way == "one of 8":
        batches = batches.of_process(0, 8, 1)
    opened, opening = time.perf_counter() - began, peak.take()
    source: Iterator[Any] = (batches[place] for place in count())
    if way != "batches":
        source = iter(tensorflow_dataset(batches))
    for _ in range(FIRST):
        next(source)
    began, worked, done = time.perf_counter(), time.process_time(), 0
    while (spent := time.perf_counter() - began) < seconds:
        next(source)
        done += 1
    worked, reading = time.process_time() - worked, peak.take()
    return {
        "pairs": len(table),
        "way": way,
        "pairs_per_second": round(done * size / spent),
        "pairs_per_processor_second": round(done * size / worked),
        "seconds_to_open": round(opened, 2),
        "private_bytes": max(opening, reading),
        "private_bytes_above_start": max(opening, reading) - start,
        "mapped_bytes_above_start": status("RssFile") - mapped,
    }


def measure(given: argparse.Namespace, say: Callable[[Any], None]) -> dict[str, Any]:
    """Make both tables, read them, and return the result."""
    with tempfile.TemporaryDirectory(dir=given.scratch) as name:
        store = Path(name) / "store"
        lines = (line(number) for number in range(given.lines))
        GuideStore(MadeVectors(), store).build(lines, given.lines)
        for pairs in given.pairs:
            write_table(Path(name) / f"{pairs}", pairs, given.lines)
        rows = read_all(Path(name), given, say)
    return {
        "batch_size": given.batch_size,
        "lines": given.lines,
        "width": WIDTH,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "rows": rows,
        **summary(rows, given.replica_pairs_per_second),
    }


def read_all(
    folder: Path, given: argparse.Namespace, say: Callable[[Any], None]
) -> list[dict[str, Any]]:
    """Read the tables of a folder in every way, each in a process of its own."""
    rows = []
    for way in given.ways:
        for pairs in given.pairs:
            command = [sys.executable, __file__, "--read", str(folder / f"{pairs}")]
            command += ["--ways", way, "--batch-size", str(given.batch_size)]
            command += ["--seconds", str(given.seconds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            say(rows[-1])
    return rows


def summary(rows: list[dict[str, Any]], speeds: list[float]) -> dict[str, Any]:
    """Return how memory grows with the table, and how many replicas are fed.

    Args:
        rows: What `read` returned, the smaller table of each way first.
        speeds: Pairs/s of one replica.

    Returns:
        `private_ratio`, by way: private memory of the larger table by that of the
        smaller; `replicas`: for each speed, by way, how many the larger table feeds.
    """
    ways = {row["way"]: row for row in rows}  # the larger table's is the last
    smaller = {row["way"]: row for row in reversed(rows)}
    private = "private_bytes"
    return {
        "private_ratio": {
            way: round(row[private] / smaller[way][private], 3)
            for way, row in ways.items()
        },
        "replicas": {
            f"{speed:g} pairs/s": {
                way: round(row["pairs_per_second"] / speed, 1)
                for way, row in ways.items()
            }
            for speed in speeds
        },
    }


def main() -> None:
    """Measure, print each case, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, nargs=2, default=[10**6, 16 * 10**6])
    parser.add_argument("--lines", type=int, default=10**6, help="English ones")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each case")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument(
        "--replica-pairs-per-second", type=float, nargs="+", default=[73.0]
    )
    parser.add_argument("--scratch", type=Path, help="where the tables are made")
    parser.add_argument("--json", action="store_true", help=f"write {RESULT.name}, too")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        store, (way,) = given.read.parent / "store", given.ways
        found = read(given.read, store, way, given.batch_size, given.seconds)
        print(json.dumps(found))
        return
    result = measure(given, lambda row: print(json.dumps(row), flush=True))
    print(json.dumps({name: result[name] for name in ("private_ratio", "replicas")}))
    if given.json:
        words = ["python", "benchmarks/input.py", *sys.argv[1:]]
        write_json(given.out, {"command": " ".join(words)} | result)


if __name__ == "__main__":
    main()
