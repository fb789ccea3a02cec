"""A head after pooling: does one that is not linear help tiny12?

Vectors of a finished table go through `x + gelu(x A + b) C`, or `x + x A` beside it,
which begin as the identity and are trained with tiny12's two losses while the table
stays: the softmax over translations and the teacher's similarities of the others.
Scores are of the halves that settings come from (STSb dev, Tatoeba), means over seeds.

    python benchmarks/tiny12_head.py tiny12 --run RUN --store STORE --data DATA

RUN is a run of the recipe `tiny12`, whose training pairs are taken, STORE has the
teacher's vectors.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.layers import Add, Dense, Input
from tiny12_scores import scorer

from keras_msd import load_encoder, load_teacher
from keras_msd.data import GuideStore, TextTable
from keras_msd.files import write_json
from keras_msd.losses import SimilarityDistribution

RESULT = Path(__file__).parent / "results" / "tiny12_head.json"
EACH = 25_000  # pairs of a language
BATCH, STEPS, RATE, TEMPERATURE = 2048, 600, 1e-3, 0.05
PASSES = 12
WIDTHS = {"linear": None, "1024 gelu": 1024}  # numbers between; none is linear


class Trainer(keras.Model):
    """A head with the two losses, on pairs of vectors and the teacher's."""

    def __init__(self, head: keras.Model) -> None:
        super().__init__()
        self.head, self.others = head, SimilarityDistribution(TEMPERATURE)

    def call(self, rows: Any) -> Any:
        """Return both sides after the head."""
        return [self.head(side) for side in rows]

    def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
        """Return the sum of both terms."""
        source, target = (ops.normalize(side) for side in y_pred)
        logits = source @ ops.transpose(target) / TEMPERATURE
        hits = ops.log_softmax(logits, axis=-1) + ops.log_softmax(logits, axis=0)
        own = -ops.mean(ops.diagonal(hits)) / 2
        return own + self.others(y, (source, target))


class Headed:
    """An encoder with a head after it."""

    def __init__(self, encoder: Any, head: keras.Model) -> None:
        self.encoder, self.head = encoder, head

    def encode(self, texts: list[str], **_: Any) -> np.ndarray:
        """Return `(n, dim)`, float32, each row of length one."""
        vectors = self.encoder.encode(texts, normalize=True)
        rows = np.asarray(self.head.predict(vectors, batch_size=8192, verbose=0))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def new_head(dim: int, width: int | None) -> keras.Model:
    """Return a head that begins as the identity."""
    inputs = Input((dim,))
    rows = inputs if width is None else Dense(width, activation="gelu")(inputs)
    added = Dense(dim, use_bias=False, kernel_initializer="zeros")(rows)
    return keras.Model(inputs, Add()([inputs, added]))


def pairs_of(run: Path) -> tuple[list[str], list[str]]:
    """Draw pairs of each language from a run's training texts."""
    texts = TextTable.open(run / "stages" / "pairs" / "texts")
    draw: dict[str, list[np.ndarray]] = {}
    for file in texts.files:
        draw.setdefault(file.language, []).append(np.arange(file.start, file.stop))
    generator = np.random.default_rng(0)
    sides: tuple[list[str], list[str]] = ([], [])
    for parts in draw.values():
        rows = np.concatenate(parts)
        for row in generator.choice(rows, min(EACH, len(rows)), replace=False):
            for side, kept in zip(("source", "target"), sides, strict=True):
                kept += texts.texts(side, int(row), int(row) + 1)
    return sides


def main() -> None:
    """Train each head with each seed, write the scores, print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    encoder, teacher = load_encoder(given.encoder), load_teacher("default")
    sources, targets = pairs_of(given.run)
    store = GuideStore(teacher, given.store / teacher.fingerprint)
    goals = store.targets(sources)
    sides = [encoder.encode(lines, normalize=True) for lines in (sources, targets)]
    scores = scorer(given.data)
    found = {"none": [scores(encoder)]}
    for name, width in WIDTHS.items():
        for seed in given.seeds:
            keras.utils.set_random_seed(seed)
            head = new_head(goals.shape[1], width)
            trainer = Trainer(head)
            rate = keras.optimizers.schedules.CosineDecay(RATE, STEPS)
            trainer.compile(optimizer=keras.optimizers.AdamW(rate, weight_decay=0.0))
            draw = np.random.default_rng(seed)
            for _ in range(PASSES):  # in parts, for memory
                rows = draw.integers(len(goals), size=BATCH * STEPS // PASSES)
                x = [side[rows] for side in sides]
                trainer.fit(x, goals[rows], batch_size=BATCH, shuffle=False, verbose=0)
            found.setdefault(name, []).append(scores(Headed(encoder, head)))
            print(f"{name:10} {seed}", found[name][-1], flush=True)
    result = {
        name: {key: [score[key] for score in of] for key in of[0]}
        for name, of in found.items()
    }
    write_json(given.out, {"part": "choose", "seeds": given.seeds, "heads": result})
    print(json.dumps(result))


if __name__ == "__main__":
    main()
