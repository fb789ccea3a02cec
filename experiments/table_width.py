r"""Should a small file hold more tokens, or wider rows for each?

Students of 10 to 12 MB have the six layers of small12 that `starts.choose_layers` keeps
(`measured`), or all twelve with half of their heads and neurons (`thin`), over a table
of so many tokens and numbers a token. The table begins as an SVD. Both sides of 10,000
short pairs learn small12's vectors, 156 steps. One process for each student:

    python experiments/table_width.py measured 69000 96 --data DATA

Writes results/table_width.json. Bytes are of a `litert` file in 4 bits. Scores are of
STSb in five languages, and like the training in bfloat16.
"""

import argparse
import time
from itertools import chain
from pathlib import Path
from typing import Any

import signals
from corpora import pairs, sentences

import keras_msd as msd
from keras_msd.distillation.plan import encoder_bytes
from keras_msd.io.files import read_json, write_json
from keras_msd.training.profile import computing_in

RESULT = Path(__file__).parent / "results" / "table_width.json"
PAIRS, TRIMMED, FITTED = 10_000, 300_000, 500
LAYERS = [0, 2, 4, 9, 10, 11]  # of signals.py, row `measured`
HALF = {"num_heads": 6, "intermediate_dim": 768}


def started(body: str, tokens: int, width: int, data: Path) -> Any:
    """Return a student before training."""
    known = [*chain.from_iterable(pairs(data, TRIMMED))]
    whole = msd.load_encoder("small12").keras_encoder
    trimmed = msd.models.trim_vocabulary(whole, known, tokens)
    layers = LAYERS if body == "measured" else [*range(12)]
    cut = msd.build_student(trimmed, len(layers), None, repeats=1, unit_from=layers)
    if body == "thin":
        texts = sentences(data / "parallel/train", FITTED)
        cut = msd.starts.prune_width(cut, texts, **HALF)
    student = msd.build_student(cut, len(layers), width, repeats=1)
    rows = trimmed.tokenizer.vocabulary_size
    counts = msd.starts.token_frequencies(trimmed.tokenizer.encode(known), rows)
    msd.starts.start_student(student, cut, counts)
    return student


def trained(student: Any, rate: float, data: Path, work: Path, name: str) -> float:
    """Train a student and return the minutes that it took."""
    whole, steps = msd.load_encoder("small12").keras_encoder, PAIRS // signals.BATCH
    store = msd.data.GuideStore(whole, work / "vectors")
    goals = {f"assistant_{side}": (store, side) for side in signals.SIDES}
    corpus = [msd.data.Pair(*it, "xx") for it in signals.short(data)]
    batches = msd.data.PairBatches(
        corpus,
        student,
        goals,
        signals.BATCH,
        signals.LONGEST,
        epochs=1,
        buckets=3,
        steps=steps,
    )
    # The sum over dimensions of squared errors, as a mean over both sides.
    weight = whole.dim / 2
    stage = msd.stages.TeachStudent(student, source_mse=weight, target_mse=weight)
    optimizer = msd.training.make_optimizer(rate, steps, warmup=0.05, schedule="cosine")
    stage.compile(optimizer, jit_compile=True)
    begun = time.monotonic()
    fitted = msd.training.fit(stage, batches, work / name)
    return round((time.monotonic() - begun + fitted.seconds_before) / 60, 1)


def main() -> None:
    """Train and score one student, unless the result has it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("body", choices=["measured", "thin"])
    parser.add_argument("tokens", type=int)
    parser.add_argument("width", type=int)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--work", type=Path, default=Path("table-width"))
    given = parser.parse_args()
    name = f"{given.body}, {given.tokens} tokens of {given.width}"
    if given.rate != parser.get_default("rate"):
        name += f", rate {given.rate:g}"
    if RESULT.is_file() and name in read_json(RESULT):
        return
    with computing_in("bfloat16"):
        student = started(given.body, given.tokens, given.width, given.data)
        row: dict[str, Any] = {"bytes": encoder_bytes(student)}
        row["start"] = signals.halves(student, given.data)
        row["minutes"] = trained(student, given.rate, given.data, given.work, name)
        row |= signals.halves(student, given.data)
    known = read_json(RESULT) if RESULT.is_file() else {}
    write_json(RESULT, known | {name: row})
    print(name, row, flush=True)


if __name__ == "__main__":
    main()
