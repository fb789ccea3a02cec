r"""How much of its backbone should small12's weights have?

For each share, the mean of small12_pairs and multilingual-e5-small, both in float32, on
the tuning halves: STSb, five languages, and retrieval of passages, the five sets on
which small12_pairs had lost most. A share is scored once: what the result has is passed
over.

    python experiments/average.py runs/small12_pairs/assistant --data DATA \
        --retrieval SETS

Writes results/average.json. It needs the packages of requirements-backbones.txt.
"""

import argparse
from pathlib import Path

from keras_msd import load_encoder
from keras_msd.evaluate.sets import score_set
from keras_msd.io.files import read_json, write_json
from keras_msd.models import average_weights

RESULT = Path(__file__).parent / "results/average.json"
SHARES = (0.0, 0.3, 0.4, 0.5, 1.0)
LANGUAGES = {
    "stsb": ["de", "es", "ja", "ru", "zh"],
    "retrieval": ["ar", "ja", "pl", "tr", "zh"],
}
KEPT = ("cross_lingual", "monolingual", "ndcg_at_10")


def main() -> None:
    """Score the shares, write the result, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--retrieval", type=Path, required=True)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    given = parser.parse_args()
    encoder, backbone = load_encoder(given.encoder), load_encoder("e5-small")
    rows = read_json(RESULT) if RESULT.exists() else {}
    folders = {"stsb": given.data, "retrieval": given.retrieval}
    for share in map(str, given.shares):
        if share in rows:
            continue
        mean = average_weights(encoder, backbone, float(share))
        row = {}
        for name, languages in LANGUAGES.items():
            scores = score_set(mean, name, folders[name], languages, part="choose")
            row |= {key: scores[key] for key in KEPT if key in scores}
            if name == "stsb":
                row["english"] = scores["tracks"]["en"]
        rows = dict(sorted((rows | {share: row}).items()))
        write_json(RESULT, rows)
    for share, row in rows.items():
        print(share, *(f"{key} {value:.2f}" for key, value in row.items()))


if __name__ == "__main__":
    main()
