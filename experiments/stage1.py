"""Stage 1 from a backbone: which teacher, and how much of what it trained to keep?

Scores, for each run of `msd_backbone` or of a row of `msd_stage1`:

- the backbone (share 0), what stage 1 made of it (share 1), mixtures of their weights;
- "words": the mean of the backbone's own word rows, without any layer;
- with `--all-tokens`, the trained layers on the rows of every token of the run's pairs.
  Stage 1 leaves the table as it is, so that they fit a larger one;
- with `--quantize`, the trained weights rounded as such an export stores them.

Settings are chosen by the tuning half; `--part report` gives the numbers that are
reported. Rows of the result are not scored again:

    python experiments/stage1.py runs/msd_stage1_own runs/msd_stage1_both --data DATA
    python experiments/stage1.py runs/backbone --data DATA --part report
"""

import argparse
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np

from keras_msd import load_encoder, trim_vocabulary
from keras_msd.choices import IntegerScheme
from keras_msd.data import TextTable
from keras_msd.evaluate import score_set
from keras_msd.io.files import read_json, write_json
from keras_msd.models import average_weights
from keras_msd.starts.closed_form import mean_rows, word_rows
from keras_msd.training.rounding import Rounding

RESULT = Path(__file__).parent / "results" / "stage1.json"
STSB = ["de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh"]
BACKBONE = "e5-small"
STEPS = "assistant_start", "teach_assistant"  # of a run: before and after
TATOEBA = "ara cmn deu fra ita jpn nld pol por rus spa tur".split()


class Words:
    """The mean of an encoder's word rows, without its layers."""

    def __init__(self, encoder: Any) -> None:
        self.encoder, self.table = encoder, word_rows(encoder.weights())

    def encode(self, texts: list[str], **options: Any) -> np.ndarray:
        """Return the mean row of each sentence."""
        return mean_rows(self.table, self.encoder.tokenizer.encode(texts))


def with_all_tokens(run: Path, trained: Any) -> Any:
    """Return the trained layers on the backbone's rows of every token of the pairs."""
    table = TextTable.open(run / "stages/pairs/texts")
    sides = (table.chunks(side) for side in ("source", "target"))
    texts = chain.from_iterable(chain.from_iterable(sides))
    made = trim_vocabulary(load_encoder(BACKBONE), texts)
    rows = made.weights()["embedding/word"]
    made.set_weights({**trained.weights(), "embedding/word": rows})
    return made


def scores(encoder: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Return the three STSb scores, P@1 on Tatoeba, and all tracks."""
    sts = score_set(encoder, "stsb", given.data, given.sts, "dev", given.part)
    pairs = score_set(encoder, "tatoeba", given.data, given.tatoeba, part=given.part)
    return {
        "across": sts["cross_lingual"],
        "within": sts["monolingual"],
        "english": sts["tracks"]["en"],
        "tatoeba": pairs["precision"],
        "tracks": sts["tracks"] | pairs["tracks"],
    }


def main() -> None:
    """Score what is not in the result, and print a line for each row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--part", default="choose", choices=["choose", "report"])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, 0.5, 1.0])
    parser.add_argument("--all-tokens", action="store_true")
    parser.add_argument(
        "--quantize", nargs="*", default=[], choices=get_args(IntegerScheme)
    )
    parser.add_argument("--sts", nargs="+", default=STSB, metavar="LANGUAGE")
    parser.add_argument("--tatoeba", nargs="+", default=TATOEBA, metavar="LANGUAGE")
    given = parser.parse_args()
    found = read_json(RESULT) if RESULT.is_file() else {}
    languages = f"{given.part}: {' '.join(given.sts)}; {' '.join(given.tatoeba)}"
    rows = found.setdefault(languages, {})
    names = ("across", "within", "English", "P@1")
    print(f"{'run':24} {'share':>10}", *(f"{it:>7}" for it in names))
    for run in given.runs:
        start, trained = (load_encoder(run / f"stages/{it}/encoder") for it in STEPS)
        whole = ["all tokens"] if given.all_tokens else []
        for share in ["words", *given.shares, *whole, *given.quantize]:
            row = rows.setdefault(run.name, {}).get(str(share))
            if row is None:
                if share == "words":
                    encoder: Any = Words(start)
                elif share in whole:
                    encoder = with_all_tokens(run, trained)
                elif share in given.quantize:
                    encoder = average_weights(start, trained, 1.0)
                    Rounding(encoder.model, share).finish()
                else:
                    encoder = average_weights(start, trained, share)
                row = rows[run.name][str(share)] = scores(encoder, given)
                write_json(RESULT, found)
            numbers = (row[key] for key in ("across", "within", "english", "tatoeba"))
            print(f"{run.name:24} {share!s:>10}", *(f"{it:7.1f}" for it in numbers))


if __name__ == "__main__":
    main()
