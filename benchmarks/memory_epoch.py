"""Peak private memory over one full epoch, for a small and a four times larger corpus.

Each corpus is generated as TSV files of distinct pairs, then read, filtered,
deduplicated, tokenised, shuffled and batched with guide vectors, in a process of its
own; a thread samples its private memory (RssAnon + VmSwap of /proc/self/status).

    python benchmarks/memory_epoch.py                      # 1M and 4M pairs
    python benchmarks/memory_epoch.py --pairs 100000 400000
"""

import argparse
import hashlib
import itertools
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "memory_epoch.json"
LANGUAGES = ("de", "fr", "it", "tr")
DIM = 32


class HashGuide:
    """A vector from the hash of a sentence: costs nothing, differs for each."""

    dim, fingerprint = DIM, "hash"

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return float32 `(n, DIM)` between -1 and 1."""
        data = b"".join(hashlib.shake_128(one.encode()).digest(DIM) for one in texts)
        return np.frombuffer(data, np.int8).reshape(-1, DIM) / np.float32(128)


def write_corpus(folder: Path, pairs: int) -> None:
    """Write distinct pairs, the same number for every language."""
    draw = random.Random(0)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    words = [
        "".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(5000)
    ]
    for language in LANGUAGES:
        with open(folder / f"made.en-{language}.tsv", "w") as handle:
            for number in range(pairs // len(LANGUAGES)):
                length = draw.randint(3, 20)
                source = " ".join(draw.choices(words, k=length))
                target = " ".join(draw.choices(words, k=length))
                handle.write(f"{source} {number}\t{target} {language} {number}\n")


def private_bytes() -> int:
    """Return the anonymous resident and swapped memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "VmSwap"))


class Peak(threading.Thread):
    """Keeps the largest value of `private_bytes` since the last `take`."""

    def __init__(self) -> None:
        """Start as a daemon."""
        super().__init__(daemon=True)
        self.value = 0
        self.start()

    def run(self) -> None:
        """Sample fifty times a second."""
        while True:
            self.value = max(self.value, private_bytes())
            time.sleep(0.02)

    def take(self) -> int:
        """Return the peak and begin again."""
        value, self.value = max(self.value, private_bytes()), 0
        return value


def epoch(folder: Path) -> dict[str, object]:
    """Go through one epoch in this process; return the peak after each part."""
    from keras_msd.data import (
        GuideStore,
        PairBatches,
        PairTable,
        TextTable,
        read_pairs,
    )
    from keras_msd.tokenizers import load_tokenizer

    tokenizer = load_tokenizer(folder / "tokenizer")
    encoder = SimpleNamespace(tokenizer=tokenizer, max_length=64)
    peak, parts, seconds, began = Peak(), {}, {}, time.monotonic()

    def mark(part: str) -> None:
        parts[part] = peak.take()
        seconds[part] = round(time.monotonic() - began - sum(seconds.values()), 1)

    mark("start")
    texts = TextTable.build(read_pairs(folder / "corpus"), folder / "texts")
    mark("read, filter, deduplicate")
    table = PairTable.build(texts, tokenizer, folder / "tokens", max_length=64)
    mark("tokenise")
    guides = {"teacher": (GuideStore(HashGuide(), folder / "store"), "source")}
    batches = PairBatches(table, encoder, guides, batch_size=64)
    mark("guide vectors")
    rows = sum(len(batches[index][0]["group"]) for index in range(len(batches)))
    mark("shuffle, batch")
    return {
        "pairs": len(table),
        "rows_in_epoch": rows,
        "peak_bytes": max(parts.values()),
        "peak_bytes_above_start": max(parts.values()) - parts["start"],
        "peak_bytes_by_part": parts,
        "seconds_by_part": seconds,
    }


def measure(pairs: int) -> dict[str, object]:
    """Make a corpus and a tokenizer, then run `epoch` on them in a fresh process."""
    from keras_msd.data import read_pairs
    from keras_msd.tokenizers import train_unigram

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        write_corpus(folder / "corpus", pairs)
        some = itertools.islice(read_pairs(folder / "corpus"), 5000)
        sample = (text for pair in some for text in pair[:2])
        train_unigram(sample, vocabulary_size=2000).save(folder / "tokenizer")
        done = subprocess.run(
            [sys.executable, __file__, "--epoch", name], stdout=subprocess.PIPE
        )
        done.check_returncode()
        return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure both corpora, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs=2, default=[1_000_000, 4_000_000])
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--epoch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.epoch:
        print(json.dumps(epoch(options.epoch)))
        return
    runs = [measure(pairs) for pairs in options.pairs]
    ratio = runs[1]["peak_bytes"] / runs[0]["peak_bytes"]
    command = " ".join(["python", "benchmarks/memory_epoch.py", *sys.argv[1:]])
    write_json(options.out, {"command": command, "runs": runs, "ratio": ratio})
    for run in runs:
        peak, own = run["peak_bytes"] / 2**20, run["peak_bytes_above_start"] / 2**20
        print(
            f"{run['pairs']:>9} pairs: peak {peak:.1f} MiB, {own:.1f} since the start"
        )
    print(f"ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
