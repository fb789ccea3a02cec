"""Tables and stores by Apache Beam's direct runner beside the local builders.

Made lines in several files are cleaned, deduplicated and tokenised, and a made guide (a
fixed projection of the mean of token vectors) gives a vector to each distinct source.
Runs where the extra `beam` is installed; TensorFlow and Keras are not needed.

    python benchmarks/beam.py --json
"""

import argparse
import gzip
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parent / "results" / "beam.json"
WORDS, PIECES, DIM, SHARDS = 20_000, 4000, 64, 16
SAMPLE = 20_000  # lines that the vocabulary is learned from
DRAWN = 10_000  # lines at a time
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))
# Files of a store that have its identity, which is drawn at random.
OWN = ("store.json", "blocks.log")


class MadeGuide:
    """The mean of fixed vectors of the first token ids, through a fixed matrix."""

    def __init__(self, folder: str) -> None:
        from keras_msd.tokenizers import load_tokenizer

        generator = np.random.default_rng(0)
        self.tokenizer = load_tokenizer(folder)
        self.table = generator.standard_normal((PIECES + 64, DIM), np.float32)
        self.matrix = generator.standard_normal((DIM, DIM), np.float32)
        self.dim, self.fingerprint = DIM, "made"

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return float32 `(n, dim)`."""
        from keras_msd.arrays import pad_batch

        batch = pad_batch(self.tokenizer.encode(texts, 32), self.tokenizer.pad_id)
        mask = batch["padding_mask"][..., None].astype(np.float32)
        means = (self.table[batch["token_ids"]] * mask).sum(1) / mask.sum(1)
        return means @ self.matrix


def made_lines(count: int, seed: int) -> Iterator[str]:
    """Yield lines of words drawn by Zipf's law; one in ten repeats an earlier one."""
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, 26, (2, WORDS, 9))
    lengths = generator.integers(2, 10, (2, WORDS))
    sides = [
        ["".join(LETTERS[row[:n]]) for row, n in zip(*both, strict=True)]
        for both in zip(drawn, lengths, strict=True)
    ]
    lines: list[str] = []
    for start in range(0, count, DRAWN):
        sizes = generator.integers(4, 20, min(DRAWN, count - start))
        words = generator.zipf(1.3, sizes.sum()) % WORDS
        again = generator.random(len(sizes)) < 0.1
        earlier = generator.integers(0, max(start, 1), len(sizes))
        rows = np.split(words, np.cumsum(sizes)[:-1])
        for row, repeat, place in zip(rows, again, earlier, strict=True):
            texts = (" ".join([side[word] for word in row.tolist()]) for side in sides)
            lines.append(lines[place] if repeat and start else "\t".join(texts))
            yield lines[-1]


def write_corpus(folder: Path, count: int, files: int, seed: int) -> None:
    """Write the made lines to so many files, by turns."""
    folder.mkdir()
    names = [f"made-{i:03d}.en-de.tsv.gz" for i in range(files)]
    handles = [gzip.open(folder / name, "wt", compresslevel=1) for name in names]
    for number, line in enumerate(made_lines(count, seed)):
        handles[number % files].write(f"{line}\n")
    for handle in handles:
        handle.close()


def local(corpus: Path, tokenizer: Any, folder: Path) -> None:
    """Build table and store as one process does."""
    from keras_msd.data import PairTable, ShardedStore, read_pairs

    table = PairTable.build(read_pairs(corpus), tokenizer, folder / "table")
    guide = MadeGuide(str(folder.parent / "tokenizer"))
    store = ShardedStore(guide, folder / "store", SHARDS)
    texts = (text for chunk in table.texts.chunks("source") for text in chunk)
    store.build(texts, total=len(table))


def by_beam(corpus: Path, tokenizer: Any, folder: Path, arguments: list[str]) -> None:
    """Build the same by a pipeline."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from keras_msd.beam import clean_texts, write_store, write_table
    from keras_msd.data import read_pairs

    guide = partial(MadeGuide, str(folder.parent / "tokenizer"))
    with beam.Pipeline(options=PipelineOptions(arguments)) as pipeline:
        texts = clean_texts(pipeline, read_pairs(corpus))
        write_table(texts, tokenizer, str(folder / "table"))
        write_store(texts, guide, str(folder / "store"), shards=SHARDS)


def differences(one: Path, other: Path) -> tuple[list[str], int]:
    """Return names of files that differ, but for those with ids, and bytes compared."""
    names = [
        {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
        for folder in (one, other)
    ]
    found = [str(name) for name in names[0] ^ names[1]]
    size = 0
    for name in sorted(names[0] & names[1]):
        if name.name not in OWN:
            contents = (one / name).read_bytes(), (other / name).read_bytes()
            size += len(contents[0])
            found += [str(name)] if contents[0] != contents[1] else []
    return found, size


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has ended."""
    return sum(os.times()[:4])


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Make the corpus, build both, compare."""
    import apache_beam as beam

    from keras_msd.tokenizers import load_tokenizer, train_unigram

    write_corpus(folder / "corpus", given.sentences, given.files, given.seed)
    sample = [line.replace("\t", " ") for line in made_lines(SAMPLE, given.seed)]
    train_unigram(sample, vocabulary_size=PIECES).save(folder / "tokenizer")
    tokenizer = load_tokenizer(folder / "tokenizer")
    arguments = ["--runner=DirectRunner", f"--direct_num_workers={given.workers}"]
    if given.workers > 1:
        arguments.append("--direct_running_mode=multi_processing")
    builders = {"local": local, "beam": partial(by_beam, arguments=arguments)}
    seconds, processor = {}, {}
    for name, build in builders.items():
        began, spent = time.perf_counter(), processor_seconds()
        build(folder / "corpus", tokenizer, folder / name)
        seconds[name] = time.perf_counter() - began
        processor[name] = processor_seconds() - spent
    differ, size = differences(folder / "local", folder / "beam")
    meta = json.loads((folder / "local" / "table" / "texts" / "texts.json").read_text())
    return {
        "sentences": given.sentences,
        "files": given.files,
        "kept": sum(count["kept"] for count in meta["counts"]),
        "duplicates": sum(count["duplicate"] for count in meta["counts"]),
        "shards": SHARDS,
        "same_bytes": not differ,
        "files_that_differ": differ,
        "bytes_compared": size,
        **{f"{name}_seconds": round(value, 1) for name, value in seconds.items()},
        **{
            f"{name}_sentences_per_second": round(given.sentences / value)
            for name, value in seconds.items()
        },
        **{
            f"{name}_processor_seconds": round(value, 1)
            for name, value in processor.items()
        },
        "workers": given.workers,
        "apache_beam": beam.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    """Measure, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sentences", type=int, default=1_000_000, help="lines")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2, help="processes of Beam")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()

    from keras_msd.io.files import write_json

    with tempfile.TemporaryDirectory() as folder:
        result = measure(given, Path(folder))
    write_json(given.out, result)
    for key, value in result.items():
        print(f"{key}: {value}")
    if given.json:
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
