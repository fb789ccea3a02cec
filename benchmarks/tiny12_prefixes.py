"""The first numbers of tiny12's vectors: as they are, after PCA, after a rotation.

All three have the same whole vectors but for an orthogonal matrix, so that only their
prefixes differ: PCA is where `order_dimensions` begins, the rotation what it learns
from pairs of a run, as the recipe's last step does. Scores are of the halves that
settings come from (STSb dev, Tatoeba).

    python benchmarks/tiny12_prefixes.py tiny12 --run RUN --data DATA [--out FOLDER]

RUN is a run of the recipe, whose training pairs are taken; FOLDER gets the encoder with
the rotation in it.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from tiny12_scores import PART, scorer

from keras_msd import load_encoder
from keras_msd.data import TextTable
from keras_msd.files import write_json
from keras_msd.models import merge_projection
from keras_msd.recipes.steps.starts import TURNED, pairs_of_languages, read_rows
from keras_msd.starts import order_dimensions

RESULT = Path(__file__).parent / "results" / "tiny12_prefixes.json"
DIMS = 32, 64, 128, 256
SEED = 0


class Cut:
    """The first numbers of an encoder's vectors."""

    def __init__(self, encoder: Any, dim: int) -> None:
        self.encoder, self.dim = encoder, dim

    def encode(self, texts: list[str], **_: Any) -> np.ndarray:
        """Return `(n, dim)`, float32, each row of length one."""
        return self.encoder.encode(texts, truncate_dim=self.dim)


def main() -> None:
    """Find the rotations, score all prefixes, print and write the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    encoder = load_encoder(given.encoder)
    texts = TextTable.open(given.run / "stages" / "pairs" / "texts")
    rows = pairs_of_languages(texts, TURNED, np.random.default_rng(SEED))
    lines = [read_rows(texts, side, rows) for side in ("source", "target")]
    source, target = (encoder.encode(side, normalize=True) for side in lines)
    group = np.unique(lines[0], return_inverse=True)[1]
    encoders, seconds = {"as it is": encoder}, {}
    for name, options in {
        "PCA": {"steps": 1, "learning_rate": 1e-12},
        "turned": {},
    }.items():
        began = time.perf_counter()
        matrix = order_dimensions(source, target, DIMS, group, **options)
        seconds[name] = round(time.perf_counter() - began, 1)
        encoders[name] = merge_projection(encoder, matrix)
    if given.out:
        encoders["turned"].save(given.out)
    scores = scorer(given.data)
    found = {
        name: {str(dim): scores(Cut(one, dim)) for dim in (*DIMS, encoder.dim)}
        for name, one in encoders.items()
    }
    result = {
        "encoder": encoder.fingerprint,
        "part": PART,
        "pairs": len(rows),
        "seconds": seconds,
        "scores": found,
    }
    write_json(RESULT, result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
