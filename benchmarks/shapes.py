"""Shapes of a pass of batches and their padding, with and without buckets.

The first line is what padding both sides of a pair to the longer one costs at least.

    python benchmarks/shapes.py --data DATA
"""

import argparse
import tempfile
from itertools import chain, islice, product
from pathlib import Path

import numpy as np

import keras_msd as msd
from keras_msd.choices import SIDES

LANGUAGES, PAIRS_PER_LANGUAGE = ("de", "ja", "tr"), 25_000  # as in the lab recipes


def main() -> None:
    """Print a row for each way to pad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    encoder = msd.load_encoder("tiny12")
    pairs = []
    for language in LANGUAGES:
        files = sorted((given.data / "parallel/train").glob(f"*.en-{language}.tsv.gz"))
        found = chain.from_iterable(map(msd.data.read_pairs, files))
        pairs += islice(found, PAIRS_PER_LANGUAGE)
    with tempfile.TemporaryDirectory() as folder:
        batches = msd.data.PairBatches(pairs, encoder, {}, folder=folder)
        table = batches.table
        lengths = [table.lengths(side, np.arange(len(table))) for side in SIDES]
        shared = 100 * (1 - np.sum(lengths) / (2 * np.maximum(*lengths).sum()))
        print(f"one length for both sides of each pair: {shared:.1f} % padding")
        for size, buckets in product((64, 1024), (None, 4, 6, 12, 24, 32)):
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
            print(
                f"{size} pairs, buckets {buckets}: {len(shapes)} shapes in "
                f"{len(batches)} batches, {100 * (1 - real / whole):.1f} % padding"
            )


if __name__ == "__main__":
    main()
