"""How often does an English line stand twice in a batch?

Draws batches of all pairs as training draws them, and counts the rows whose English
line stands in the batch already: the most that computing each line once could save,
of one side of two. `--temperature` as in a recipe.

    python benchmarks/repeated_lines.py --data DATA --json
"""

import argparse
import gzip
import json
from pathlib import Path

import numpy as np

RESULT = Path(__file__).parent / "results" / "repeated_lines.json"
SIZES = (64, 128, 1024, 8192)
BATCHES = 20


def main() -> None:
    """Count, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--temperature", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()

    from keras_msd.data.order import EpochOrder
    from keras_msd.files import write_json

    place: dict[str, int] = {}
    sizes, lines = [], []
    for path in sorted(given.data.glob("parallel/train/*.tsv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found = [line.split("\t", 1)[0] for line in file]
        sizes.append(len(found))
        lines += [place.setdefault(line, len(place)) for line in found]
    order = EpochOrder(sizes, seed=0, temperature=given.temperature)
    lines_of, shares = np.array(lines), {}
    for size in SIZES:
        repeated = 0
        for batch in range(BATCHES):
            rows = order.rows(0, batch * size, (batch + 1) * size)
            repeated += size - len(np.unique(lines_of[rows]))
        shares[str(size)] = round(repeated / size / BATCHES, 5)
        print(f"batches of {size}: {shares[str(size)]:.2%} of English lines repeated")
    result = {"pairs": len(lines), "distinct_lines": len(place), "repeated": shares}
    write_json(given.out, result)
    if given.json:
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
