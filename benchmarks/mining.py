"""Mining in the manner of BUCC: translations hidden among sentences that have none.

For each language, the development pairs are split in two halves, and to each side of a
half come sentences of the training pairs whose translation is left out. The threshold
with the best F1 on the first half is applied to the second. All three margins, k = 4,
exact search. Minutes:

    python benchmarks/mining.py runs/backbone/student --data DATA
"""

import argparse
import json
import os
import platform
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.evaluate.bitext import MARGINS, best_f1, f1_at, mine_vectors
from keras_msd.evaluate.parts import read_table
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "mining.json"
K = 4

Pair = tuple[str, str]


class Half(NamedTuple):
    """English and other sentences, and the rows of those that translate each other."""

    others: list[str]
    english: list[str]
    gold: list[tuple[int, int]]


def read(folder: Path, language: str, draw: random.Random) -> list[Pair]:
    """Return the pairs of a language in drawn order, every sentence once."""
    seen: set[str] = set()
    pairs = []
    for file in sorted(folder.glob(f"*.en-{language}.tsv.gz")):
        for _, (english, other) in read_table(file, 2):
            if english != other and english not in seen and other not in seen:
                seen |= {english, other}
                pairs.append((english, other))
    draw.shuffle(pairs)
    return pairs


def halves(data: Path, language: str, distractors: int, seed: int) -> list[Half]:
    """Return two sets with half of the development pairs each.

    Args:
        data: Folder with `parallel/dev` and `parallel/train`.
        language: Code beside English.
        distractors: Sentences without a translation, on each side of each half.
        seed: Seed of the draw.
    """
    draw = random.Random(f"{seed} {language}")
    dev = read(data / "parallel" / "dev", language, draw)
    known = {text for pair in dev for text in pair}
    train = [
        pair
        for pair in read(data / "parallel" / "train", language, draw)
        if known.isdisjoint(pair)
    ]
    if len(dev) < 2 or len(train) < 4 * distractors:
        raise InputError(
            f"{language} needs 2 development pairs and {4 * distractors} training "
            f"pairs under `{data}`. Received: {len(dev)} and {len(train)}."
        )
    made = []
    for number in range(2):
        gold = dev[number::2]
        start = 2 * distractors * number
        alone = train[start : start + 2 * distractors]
        english = [pair[0] for pair in gold + alone[:distractors]]
        others = [pair[1] for pair in gold + alone[distractors:]]
        draw.shuffle(english)
        draw.shuffle(others)
        place = {text: row for row, text in enumerate(english)}
        other_place = {text: row for row, text in enumerate(others)}
        rows = [(other_place[other], place[one]) for one, other in gold]
        made.append(Half(others, english, rows))
    return made


def score(encoder: Any, sets: list[Half]) -> dict[str, Any]:
    """Return, for each margin, the best F1 of the first half and F1 of the second."""
    vectors = [
        (encoder.encode(one.others), encoder.encode(one.english)) for one in sets
    ]
    scores = {}
    for margin in MARGINS:
        first, second = (mine_vectors(*pair, margin, K) for pair in vectors)
        tuned = best_f1(first, sets[0].gold)
        scores[margin] = {
            "tuned": tuned,
            "reported": f1_at(second, sets[1].gold, tuned["threshold"]),
            "best_of_reported": best_f1(second, sets[1].gold)["f1"],
        }
    return scores


def table(rows: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Yield the lines of a Markdown table."""
    names = [f"{margin} {half}" for margin in MARGINS for half in ("tuned", "held out")]
    yield f"| | {' | '.join(names)} | threshold of the ratio |"
    yield f"|---|{'---:|' * (len(names) + 1)}"
    for language, row in rows.items():
        cells = [
            f"{row[margin][half]['f1']:.2f}"
            for margin in MARGINS
            for half in ("tuned", "reported")
        ]
        cells.append(f"{row['ratio']['tuned']['threshold']:.4f}")
        yield f"| {language}-en | {' | '.join(cells)} |"


def means(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return F1 of each margin and half, averaged over languages."""
    return {
        margin: {
            half: round(
                float(np.mean([r[margin][half]["f1"] for r in rows.values()])), 4
            )
            for half in ("tuned", "reported")
        }
        for margin in MARGINS
    }


def main() -> None:
    """Mine in every language, print the table, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs="+", help="codes; else all with dev pairs")
    parser.add_argument("--distractors", type=int, default=4500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    given = parser.parse_args()

    files = (given.data / "parallel" / "dev").glob("*.en-*.tsv.gz")
    codes = given.languages or sorted({f.name.split(".en-")[1][:-7] for f in files})
    encoder = load_encoder(given.encoder)
    rows, sizes = {}, {}
    for code in codes:
        sets = halves(given.data, code, given.distractors, given.seed)
        rows[code] = score(encoder, sets)
        sizes[code] = [[len(s.gold), len(s.others), len(s.english)] for s in sets]
        print(f"{code}: mined", file=sys.stderr)
    result = {
        "encoder": given.encoder.name,
        "fingerprint": encoder.fingerprint,
        "parameters": encoder.num_parameters,
        "k": K,
        "seed": given.seed,
        "pairs_and_sentences_of_both_halves": sizes,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "mean_f1": means(rows),
        "languages": rows,
    }
    write_json(given.out, result)
    stream = sys.stderr if given.json else sys.stdout
    print("\n".join(table(rows)), file=stream)
    print(f"mean F1: {json.dumps(result['mean_f1'])}", file=stream)
    if given.json:
        print(json.dumps(result, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
