r"""What is a training step worth? Starts, signals and numbers of pairs of a student.

Four students have the table of small12, their assistant, which is not trained.
`layers`: every second layer. `measured`: the six that `starts.choose_layers` keeps.
`thin`: all twelve with half of their heads and neurons, refitted by least squares
(`starts.prune_width`). `recurrent`: the first three, run four times. Both sides of a
pair learn from the assistant's states of the same sentence. Signals:

- `sentence`: squared errors of the sentence's vector (Ding et al. 2022, equation 4).
- `last`: those, and the token vectors after the last layer.
- `depths`: those, and the token vectors after a third, two thirds and all layers; of
  `recurrent` after each of its passes.
- `similarities`: squared errors, and how similar the assistant finds the sentences of a
  batch, as in the recipe msd_backbone.
- `both`: `similarities` and `depths`.

Errors of token vectors are divided by the variance of each dimension, as a mean over
dimensions and tokens (after Jiao et al. 2020 and Sanh et al. 2019; in none of the three
papers). One process for each cell of the table:

    python experiments/signals.py thin sentence 10000 --data DATA

A stopped training resumes. Scores are of STSb in five languages, and like the training
in bfloat16.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras import ops

import keras_msd as msd
from keras_msd.evaluate.sets import score_set
from keras_msd.io.files import read_json, write_json
from keras_msd.training.profile import computing_in

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "benchmarks"))
from corpora import pairs, sentences  # noqa: E402

RESULT = HERE / "results" / "signals.json"
# Depths whose states are compared.
STARTS = {"layers": 3, "measured": 3, "thin": 3, "recurrent": 4}
SIGNALS = "sentence", "last", "depths", "similarities", "both"
TEMPERATURE = 0.02  # of cosines: small12 gives unrelated sentences one near 0.7
LANGUAGES = ["de", "es", "ja", "ru", "zh"]
SIDES = "source", "target"
BATCH, LONGEST, CHARACTERS = 64, 32, 80
DISTINCT, REFITTED = 100_000, 960


def states(encoder: Any, ids: Any, mask: Any, depths: int) -> list[Any]:
    """Return token vectors at equal distances, of the last layer at the end.

    There is no dropout, also in training.

    Args:
        encoder: An encoder with layers.
        ids: `(n, length)` int.
        mask: `(n, length)` int, 1 on real tokens.
        depths: How many, at least 1; the encoder's layers must be a multiple of it.
    """
    network = encoder.model
    blocks = [*network.get_layer("body").blocks] * encoder.config.repeats
    every = len(blocks) // depths
    hidden = network.get_layer("embedding")(ids, training=False)
    real, found = ops.cast(mask, "bool"), []
    for index, block in enumerate(blocks):
        hidden = block(hidden, padding_mask=real, training=False)
        if (index + 1) % every == 0:
            found.append(hidden)
    return found


def lost_variance(goal: Any, given: Any, mask: Any) -> Any:
    """Return the squared error of token vectors as a share of the goals' variance.

    A mean over dimensions of what is a mean over real tokens; 1 for what always says
    the mean. All float32.

    Args:
        goal: `(n, length, dim)`.
        given: The same.
        mask: `(n, length)`, 1 on real tokens.
    """
    goal, given, real = (ops.cast(it, "float32") for it in (goal, given, mask))
    real = real[..., None]
    count = ops.sum(real)
    mean = ops.sum(goal * real, axis=(0, 1)) / count
    variance = ops.sum(ops.square(goal - mean) * real, axis=(0, 1)) / count
    error = ops.sum(ops.square(given - goal) * real, axis=(0, 1)) / count
    return ops.mean(error / variance)


class Imitation(msd.stages.Stage):
    """Learn an assistant's vectors, and its states, in one program with its pass.

    Args:
        student: Encoder whose embeddings are the assistant's.
        assistant: Encoder with the same tokenizer and `hidden_dim`.
        depths: See `SIGNALS`.
        weight: Of the states' term, beside 1 for the others.
        similarities: Whether similarities are compared.
    """

    terms = ("vectors", "hidden_states", "similarities", "others")

    def __init__(
        self,
        student: Any,
        assistant: Any,
        depths: int,
        weight: float,
        similarities: bool = False,
    ) -> None:
        compared = dict.fromkeys(("similarities", "others"), float(similarities))
        weights = compared | {"hidden_states": weight if depths else 0.0}
        super().__init__(student, **weights)
        losses = msd.losses
        self.translations = losses.MultilingualContrastive("softmax", TEMPERATURE)
        self.of_others = losses.SimilarityDistribution(TEMPERATURE, across=True)
        self._both = lambda: (assistant, student)
        self.depths = max(depths, 1)

    def both_sides(self, x: Mapping[str, Any], training: bool | None) -> Any:
        """Return the student's states of both sides."""
        return {side: self._states(1, x, side) for side in SIDES}

    def loss_terms(
        self, x: Mapping[str, Any], y: Any, embeddings: Any
    ) -> dict[str, Any]:
        """Return squared errors, lost variance of states, and similarities."""
        found = {"vectors": 0.0, "hidden_states": 0.0}
        wanted, given = [], []
        for side in SIDES:
            mask = x[f"{side}_padding_mask"]
            goals = self._states(0, x, side)
            goals = [ops.stop_gradient(goal) for goal in goals]
            one, other = (
                self._vector(it[-1], mask) for it in (goals, embeddings[side])
            )
            found["vectors"] += ops.mean(ops.sum(ops.square(one - other), axis=-1))
            lost = [
                lost_variance(*both, mask)
                for both in zip(goals, embeddings[side], strict=True)
            ]
            found["hidden_states"] += sum(lost) / len(lost)
            wanted.append(one)
            given.append(other)
        if "others" in self.terms:
            goal = wanted[0], x["group"]
            found["similarities"] = self.translations(goal, tuple(given))
            found["others"] = self.of_others(tuple(wanted), tuple(given))
        return found

    def _states(self, which: int, x: Any, side: str) -> list[Any]:
        tokens = x[f"{side}_token_ids"], x[f"{side}_padding_mask"]
        return states(self._both()[which], *tokens, self.depths)

    def _vector(self, hidden: Any, mask: Any) -> Any:
        network = self._both()[1].model
        pooled = network.get_layer("pooling")(hidden, mask)
        return network.get_layer("normalize")(pooled)


def short(data: Path) -> list[tuple[str, str]]:
    """Return short pairs: a sentence of them costs a third of one of any length."""
    found = [it for it in pairs(data, 3 * DISTINCT) if max(map(len, it)) <= CHARACTERS]
    if len(found) < DISTINCT:
        raise SystemExit(f"`{data}` has only {len(found)} short pairs of {DISTINCT}.")
    return found[:DISTINCT]


def started(start: str, whole: Any, texts: list[str]) -> Any:
    """Return a student before training."""
    if start == "recurrent":
        return msd.build_student(whole, 3, None)
    if start == "thin":
        return msd.starts.prune_width(whole, texts, 6, intermediate_dim=768)
    kept: str | list[int] = "spread"
    if start == "measured":
        lines = [text for text in texts if len(text) <= CHARACTERS]
        kept = msd.starts.choose_layers(whole, lines, 6)
        print("layers", kept, flush=True)
    return msd.build_student(whole, 6, None, repeats=1, unit_from=kept)


def scores(encoder: Any, data: Path, part: str) -> dict[str, float]:
    """Return the scores of a half of STSb."""
    row = score_set(encoder, "stsb", data, LANGUAGES, part=part)
    across, within = row["cross_lingual"], row["monolingual"]
    return {"across": across, "within": within, "english": row["tracks"]["en"]}


def halves(encoder: Any, data: Path) -> dict[str, Any]:
    """Return the scores of both halves."""
    return {part: scores(encoder, data, part) for part in ("choose", "report")}


def known() -> dict[str, Any]:
    """Return the rows of the result."""
    return read_json(RESULT) if RESULT.is_file() else {}


def add(name: str, row: dict[str, Any]) -> None:
    """Add a row to the result."""
    write_json(RESULT, known() | {name: row})
    print(name, row, flush=True)


def main() -> None:
    """Train and score one student."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("start", choices=STARTS)
    parser.add_argument("signal", choices=SIGNALS)
    parser.add_argument("pairs", type=int)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--work", type=Path, default=Path("signals"))
    given = parser.parse_args()
    steps = given.pairs // BATCH
    name = f"{given.start}, {given.signal}, {given.pairs} pairs, rate {given.rate:g}"
    depths = 1 if given.signal == "last" else 0
    if given.signal in ("depths", "both"):
        depths = STARTS[given.start]
    if depths:
        name += f", weight {given.weight:g}"

    texts = sentences(given.data / "parallel/train", REFITTED)
    with computing_in("bfloat16"):
        whole = msd.load_encoder("small12").keras_encoder
        student = started(given.start, whole, texts)
        before = f"{given.start}, start"
        for row, encoder in (("assistant", whole), (before, student)):
            if row not in known():
                add(row, halves(encoder, given.data))
        student.model.get_layer("embedding").trainable = False
        corpus = [msd.data.Pair(*it, "xx") for it in short(given.data)]
        batches = msd.data.PairBatches(
            corpus, student, {}, BATCH, LONGEST, epochs=99, buckets=3, steps=steps
        )
        similarities = given.signal in ("similarities", "both")
        stage = Imitation(student, whole, depths, given.weight, similarities)
        stage.compile(
            msd.training.make_optimizer(
                given.rate, steps, warmup=0.05, schedule="cosine"
            ),
            jit_compile=True,
        )
        begun = time.monotonic()
        fitted = msd.training.fit(stage, batches, given.work / name)
        seconds = time.monotonic() - begun + fitted.seconds_before
    cost = {"steps": steps, "minutes": round(seconds / 60, 1)}
    add(name, halves(student, given.data) | cost)


if __name__ == "__main__":
    main()
