"""Which penalty should least squares have where layers are refitted?

small12 loses heads and neurons (`starts.prune_width`), or gets the narrow table of a
student (`starts.refit_layers`). For each penalty the mean squared error of the sentence
embeddings is that of other texts than those of the fit, and growth is how many times
as large an output matrix of a feed-forward layer has become, at most: training changes
all weights by steps of one size, and breaks what large ones cancel.

    python experiments/refit.py --data DATA

Writes results/refit.json.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import keras_msd as msd
from keras_msd.io.files import write_json

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "benchmarks"))
from corpora import sentences  # noqa: E402

RIDGES, FITTED, OTHERS = (1e-4, 1e-2, 0.1, 1.0), 960, 1500
WIDTHS = {"half of the neurons": (12, 768), "half of heads and neurons": (6, 768)}
BOTTLENECK = 128


def narrow(whole: Any, texts: list[str]) -> Any:
    """Return a student with all layers and a narrow table, before its refit."""
    rows = whole.tokenizer.vocabulary_size
    counts = msd.starts.token_frequencies(whole.tokenizer.encode(texts), rows)
    student = msd.models.build_student(whole, 12, BOTTLENECK)
    msd.starts.start_student(student, whole, counts)
    return student


def growth(made: Any, whole: Any) -> float:
    """Return how many times as large an output matrix is, at most."""
    path = "body/block_{}/feedforward_output_dense/kernel"
    paths = map(path.format, range(whole.config.num_layers))
    one, other = made.weights(), whole.weights()
    return max(
        float(np.linalg.norm(one[it]) / np.linalg.norm(other[it])) for it in paths
    )


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    texts = sentences(given.data / "parallel/train", FITTED + OTHERS)
    fitted, others = texts[:FITTED], texts[FITTED:]
    whole = msd.load_encoder("small12").keras_encoder
    goals = whole.encode(others)
    result: dict[str, dict[str, Any]] = {}

    def error(made: Any) -> float:
        return float(np.square(made.encode(others) - goals).mean())

    def refitted(ridge: float) -> Any:
        student = narrow(whole, texts)
        msd.starts.refit_layers(student, whole, fitted, ridge)
        return student

    starts: dict[str, Callable[[float], Any]] = {
        name: lambda ridge, kept=kept: msd.starts.prune_width(
            whole, fitted, *kept, ridge=ridge
        )
        for name, kept in WIDTHS.items()
    }
    starts[f"a bottleneck of {BOTTLENECK}"] = refitted
    for name, start in starts.items():
        for ridge in RIDGES:
            made = start(ridge)
            row = {"error": error(made), "growth": round(growth(made, whole), 1)}
            result.setdefault(name, {})[str(ridge)] = row
            print(name, ridge, row)
    unfitted = {"error": error(narrow(whole, texts))}
    result[f"a bottleneck of {BOTTLENECK}"]["not refitted"] = unfitted
    write_json(HERE / "results" / "refit.json", result)


if __name__ == "__main__":
    main()
