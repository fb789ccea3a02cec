"""Other inputs, losses and updates for tiny12's table: do they help it?

From the start of a run of `tiny12`, its closed form, the same network is trained with
the recipe's two losses on as many draws of its pairs, but for what an arm's name says:

- `two translations`: half of the English sides give way to another translation of the
  same line, where there is one;
- `hashed bigrams`: neighbouring pieces have rows of their own beside the pieces' rows,
  found by a hash, zero at the start;
- `prefixes`: both losses also of the first 32, 64, 128 and 256 numbers of a vector, and
  scores of these prefixes;
- `without lexicons`: pairs of sentences alone are drawn; the start has seen lexicons;
- `averaged weights`: exponential means over about 100 updates instead of the last ones;
- `updates of ...`: batches of another size, hence more or fewer of them.

Scores are of the halves that settings come from (STSb dev, Tatoeba), rows as trained.

    python benchmarks/tiny12_inputs.py --run RUN --store STORE --data DATA

RUN is a run of the recipe, STORE has the teacher's vectors.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tiny12 import LEXICONS
from tiny12_scores import PART, scorer

from keras_msd import load_encoder, load_teacher
from keras_msd.arrays import pad_batch, unit_rows
from keras_msd.data import GuideStore, TextTable
from keras_msd.files import read_json, write_json
from keras_msd.models import build_model
from keras_msd.stages import ContrastiveLearning, LossTerm, make_optimizer

RESULT = Path(__file__).parent / "results" / "tiny12_inputs.json"
START = Path("stages", "assistant_start", "encoder")
EACH = 60_000  # pairs of a language
DRAWS, BATCH, RATE = 307_200, 1024, 5e-3
PREFIXES = 32, 64, 128, 256
ARMS: dict[str, dict[str, Any]] = {
    "the recipe's inputs": {},
    "two translations": {"pivot": 0.5},
    "8,192 hashed bigrams": {"buckets": 8192},
    "prefixes": {"prefixes": PREFIXES},
    "without lexicons": {"left_out": LEXICONS},
    "five times the draws": {"times": 5},
    "five times the draws, without lexicons": {
        "left_out": LEXICONS,
        "times": 5,
    },
    "averaged weights": {"momentum": 0.99},
    "updates of 512": {"batch": 512},
    "updates of 4,096": {"batch": 4096},
    "five times the draws, updates of 4,096": {"batch": 4096, "times": 5},
    "five times the draws, updates of 8,192": {"batch": 8192, "times": 5},
    "five times the draws, updates of 4,096, without lexicons": {
        "batch": 4096,
        "left_out": LEXICONS,
        "times": 5,
    },
}
SEEDS = 0, 1, 2


class Pairs:
    """Drawn pairs of a run: both sides, corpus, the English line and its vector."""

    def __init__(self, run: Path, store: GuideStore) -> None:
        texts = TextTable.open(run / "stages" / "pairs" / "texts")
        parts: dict[str, list[np.ndarray]] = {}
        corpora = np.empty(len(texts), object)
        for file in texts.files:
            rows = np.arange(file.start, file.stop)
            parts.setdefault(file.language, []).append(rows)
            corpora[rows] = file.name.split(".")[0]
        generator = np.random.default_rng(0)
        self.source: list[str] = []
        self.target: list[str] = []
        languages: list[int] = []
        self.corpora: list[str] = []
        for number, own in enumerate(parts.values()):
            rows = np.concatenate(own)
            for row in np.sort(
                generator.choice(rows, min(EACH, len(rows)), replace=False)
            ):
                self.source += texts.texts("source", int(row), int(row) + 1)
                self.target += texts.texts("target", int(row), int(row) + 1)
                self.corpora.append(corpora[row])
                languages.append(number)
        lines = {text: number for number, text in enumerate(dict.fromkeys(self.source))}
        self.line = np.array([lines[text] for text in self.source])
        self.vectors = store.targets(list(lines))
        self.others = self._others(np.array(languages))

    def _others(self, languages: np.ndarray) -> list[np.ndarray]:
        """Return for each pair those of its line in another language."""
        order = np.argsort(self.line, kind="stable")
        ends = np.flatnonzero(np.diff(self.line[order])) + 1
        groups = np.split(order, ends)
        found: list[np.ndarray] = [np.zeros(0, int)] * len(self.line)
        for rows in groups:
            for row in rows:
                found[row] = rows[languages[rows] != languages[row]]
        return found


class Table:
    """A word table with an `encode`, whose pieces may have bigrams beside them."""

    def __init__(self, start: Any, buckets: int) -> None:
        self.tokenizer, self.buckets = start.tokenizer, buckets
        self.pieces, self.longest = (
            start.config.vocabulary_size,
            start.config.max_length,
        )
        # Bigrams follow the pieces: twice as many tokens, at positions of no vector.
        larger = {"vocabulary_size": self.pieces + buckets}
        larger["max_length"] = 2 * self.longest
        self.model = build_model(start.config.model_copy(update=larger))
        values = start.weights()
        for weight in self.model.weights:
            value = values[weight.path]
            missing = weight.shape[0] - len(value)
            weight.assign(np.pad(value, [(0, missing)] + [(0, 0)] * (value.ndim - 1)))

    def ids(self, texts: list[str]) -> list[np.ndarray]:
        """Return the rows of each text's pieces, then of its bigrams."""
        found = []
        for row in self.tokenizer.encode(texts):
            ids = np.asarray(row[: self.longest], np.int64)
            if self.buckets:
                pairs = (ids[:-1] * 1_000_003 + ids[1:]) * 2_654_435_761 % (1 << 32)
                ids = np.concatenate([ids, self.pieces + pairs % self.buckets])
            found.append(ids.astype(np.int32))
        return found

    def encode(self, texts: list[str], **_: Any) -> np.ndarray:
        """Return `(n, dim)`, float32, each row of length one."""
        ids = self.ids(texts)
        batches = [
            self.model.predict_on_batch(pad_batch(ids[i : i + 512], 0, 256))
            for i in range(0, len(ids), 512)
        ]
        return unit_rows(np.concatenate(batches))


class Shortened:
    """An encoder of which the first numbers are kept."""

    def __init__(self, encoder: Any, dim: int) -> None:
        self.encoder, self.dim = encoder, dim

    def encode(self, texts: list[str], **_: Any) -> np.ndarray:
        """Return `(n, dim)`, each row of length one."""
        return unit_rows(self.encoder.encode(texts)[:, : self.dim])


def updates_of(arm: dict[str, Any]) -> int:
    """Return for how many updates an arm is trained."""
    draws: int = DRAWS * arm.get("times", 1)
    return draws // arm.get("batch", BATCH)


def batches(
    pairs: Pairs, sides: dict[str, list[np.ndarray]], seed: int, arm: dict[str, Any]
) -> Iterator[Any]:
    """Yield what `fit` reads; arms of the same seed and corpora draw the same."""
    generator = np.random.default_rng(seed)
    size, pivot = arm.get("batch", BATCH), arm.get("pivot", 0.0)
    drawn = np.flatnonzero(~np.isin(pairs.corpora, arm.get("left_out", [])))
    for _ in range(updates_of(arm)):
        rows = drawn[generator.integers(len(drawn), size=size)]
        source = [sides["source"][row] for row in rows]
        chosen = generator.random(size) < pivot
        for place in np.flatnonzero(chosen):
            others = pairs.others[rows[place]]
            if len(others):
                source[place] = sides["target"][generator.choice(others)]
        x: dict[str, np.ndarray] = {}
        target = [sides["target"][row] for row in rows]
        for name, ids in (("source", source), ("target", target)):
            for key, value in pad_batch(ids, 0, 256).items():
                x[f"{name}_{key}"] = value
        _, first, inverse = np.unique(
            pairs.line[rows], return_index=True, return_inverse=True
        )
        x["group"] = first[inverse].astype(np.int32)
        yield x, {"teacher": pairs.vectors[pairs.line[rows]]}


def train(pairs: Pairs, start: Any, seed: int, arm: dict[str, Any]) -> Table:
    """Train an arm with a seed."""
    keras.utils.set_random_seed(seed)
    table = Table(start, arm.get("buckets", 0))
    sides = {"source": table.ids(pairs.source), "target": table.ids(pairs.target)}
    stage = ContrastiveLearning(
        table.model,
        target="softmax",
        kd_weight=0.0,
        losses=[LossTerm("others", "similarity_distribution", "teacher")],
        matryoshka_dims=arm.get("prefixes", ()),
    )
    size = arm.get("batch", BATCH)
    optimizer = make_optimizer(
        learning_rate=RATE,
        steps=updates_of(arm),
        schedule="cosine",
        weight_decay=0.0,
    )
    if momentum := arm.get("momentum"):
        optimizer.use_ema, optimizer.ema_momentum = True, momentum
    stage.compile(optimizer=optimizer)
    whole = tf.TensorSpec((size, None), tf.int32)
    names = [f"{s}_{p}" for s in sides for p in ("token_ids", "padding_mask")]
    x = {name: whole for name in names} | {"group": tf.TensorSpec((size,), tf.int32)}
    y = {"teacher": tf.TensorSpec((size, pairs.vectors.shape[1]), tf.float32)}
    dataset = tf.data.Dataset.from_generator(
        lambda: batches(pairs, sides, seed, arm),
        output_signature=(x, y),
    )
    stage.fit(dataset.prefetch(4), epochs=1, shuffle=False, verbose=0)
    return table


def main() -> None:
    """Train each arm with each seed, write the scores, print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    start, teacher = load_encoder(given.run / START), load_teacher("default")
    pairs = Pairs(given.run, GuideStore(teacher, given.store / teacher.fingerprint))
    scores = scorer(given.data)
    result: dict[str, Any] = {"part": PART, "start": scores(start), "arms": {}}
    if given.out.is_file():
        result = read_json(given.out)
    print("start", result["start"], flush=True)
    for arm in given.arms:
        found = result["arms"].setdefault(arm, {})
        for seed in map(str, given.seeds):
            if seed in found:
                continue
            table = train(pairs, start, int(seed), ARMS[arm])
            found[seed] = {"scores": scores(table)}
            if not ARMS[arm] or "prefixes" in ARMS[arm]:
                found[seed]["prefixes"] = {
                    str(dim): scores(Shortened(table, dim)) for dim in PREFIXES
                }
            print(arm, seed, found[seed], flush=True)
            write_json(given.out, result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
