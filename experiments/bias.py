"""Bias towards pairs within a language: Reimers and Gurevych's table 8 at lab size.

All pairs of STSb dev, within each language and across English and each, as one list
beside the mean of the single tracks, on the half that is reported. An encoder without
bias has the same score both ways. A name that is given again is that of another seed;
one that is given once is the same in all.

    python experiments/bias.py --data DATA --encoder raw=FOLDER x-kd=FOLDER
"""

import argparse
import statistics
from itertools import chain
from pathlib import Path
from typing import Any

from keras_msd import load_encoder
from keras_msd.evaluate import read_sts_folder, sts, sts_tracks
from keras_msd.evaluate.measures import SentenceEncoder
from keras_msd.evaluate.parts import REPORT
from keras_msd.evaluate.similarity import across_tracks, aligned_part
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "bias.json"
LANGUAGES = ["de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh"]


def measure(
    encoder: SentenceEncoder, folder: Path, languages: list[str]
) -> dict[str, Any]:
    """Score an encoder; the row says its agreement as `unbiased`, highest at zero."""
    rows = aligned_part(read_sts_folder(folder, languages), REPORT)
    tracks = rows | across_tracks(rows)
    mean = round(statistics.mean(sts_tracks(encoder, tracks).values()), 4)
    pooled = sts(encoder, chain.from_iterable(tracks.values()))
    bias = round(mean - pooled["spearman"], 4)
    return {
        "mean": mean,
        "pooled": pooled["spearman"],
        "bias": bias,
        "pairs": pooled["pairs"],
        "primary": "pooled",
        "unbiased": -abs(bias),
    }


def main() -> None:
    """Score the encoders, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES)
    parser.add_argument("--result", type=Path, default=RESULT)
    given = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {}
    for named in given.encoder:
        name, _, source = named.partition("=")
        encoder = load_encoder(source or name)
        row = measure(encoder, given.data / "sts", given.languages)
        row["encoder"] = encoder.fingerprint
        found.setdefault(name, []).append(row)
        print(name, row, flush=True)
    count = max(map(len, found.values()))
    if wrong := [name for name, rows in found.items() if len(rows) not in (1, count)]:
        parser.error(f"{wrong[0]} has {len(found[wrong[0]])} seeds, others {count}.")
    seeds = {
        str(seed): {
            "rows": {name: rows[seed % len(rows)] for name, rows in found.items()}
        }
        for seed in range(count)
    }
    write_json(given.result, {"part": REPORT, "tables": {"bias": {"seeds": seeds}}})


if __name__ == "__main__":
    main()
