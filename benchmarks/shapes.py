"""Shapes of a pass of batches and their padding, with and without buckets.

The first line is what padding both sides of a pair to the longer one costs at least.

python benchmarks/shapes.py --data DATA
"""

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np

import keras_msd as msd
from keras_msd.data.tables import SIDES

PAIRS_PER_LANGUAGE = 25_000  # as in the lab recipes


def main() -> None:
    """Print a row for each way to pad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs="+", default=["de", "ja", "tr"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[64, 1024])
    given = parser.parse_args()
    encoder = msd.load_encoder("tiny12")
    pairs = []
    for language in given.languages:
        files = sorted((given.data / "parallel/train").glob(f"*.en-{language}.tsv.gz"))
        found = itertools.chain.from_iterable(map(msd.data.read_pairs, files))
        pairs += itertools.islice(found, PAIRS_PER_LANGUAGE)
    with tempfile.TemporaryDirectory() as folder:
        texts = msd.data.TextTable.build(msd.data.Pairs.from_list(pairs), folder + "/t")
        table = msd.data.PairTable.build(
            texts, encoder.tokenizer, folder + "/p", max_length=encoder.max_length
        )
        lengths = [table.lengths(side, np.arange(len(table))) for side in SIDES]
        shared = 100 * (1 - np.sum(lengths) / (2 * np.maximum(*lengths).sum()))
        print(f"one length for both sides of each pair: {shared:.1f} % padding")
        for size, buckets in itertools.product(given.batch_sizes, (None, 4, 6, 12, 24)):
            batches = msd.data.PairBatches(
                table, encoder, {}, size, epochs=1, buckets=buckets
            )
            shapes, real, whole = set(), 0, 0
            for place in range(len(batches)):
                rows = batches.rows(place)
                shape = batches.padded_lengths(rows)
                shapes.add(shape)
                whole += len(rows) * sum(shape)
                real += sum(int(side[rows].sum()) for side in lengths)
            padding = 100 * (1 - real / whole)
            print(
                f"{size} pairs, buckets {buckets}: {len(shapes)} shapes in "
                f"{len(batches)} batches, {padding:.1f} % padding, "
                f"shapes {batches.buckets}"
            )


if __name__ == "__main__":
    main()
