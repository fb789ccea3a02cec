r"""What `distil` keeps of small12, by the vectors that its training learns.

For each language: a file of so many megabytes before training, after sentences have
learnt the vectors that the uncut encoder gives them (the default), and after
translations have learnt those of their sources (`--align`). Reporting halves.

    python experiments/distil_goals.py --data DATA --retrieval SETS

It needs the packages of requirements-backbones.txt, as `distil` does.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from keras_msd import load_encoder
from keras_msd.choices import PASSAGE_LENGTH
from keras_msd.evaluate.sets import score_set
from keras_msd.io.files import read_json, write_json

RESULT = Path(__file__).parent / "results" / "distil_goals.json"
TATOEBA = {"ar": "ara", "de": "deu", "ru": "rus", "tr": "tur", "zh": "cmn"}
SIMILAR = {"de", "ru", "zh"}  # languages of STSb
GOALS = {"own": [], "sources": ["--align"]}
ROWS = {  # row of the result -> goals of the training, and the encoder in its folder
    "start": ("own", "start"),
    "own": ("own", "trained"),
    "sources": ("sources", "trained"),
}


def scores(encoder: Any, given: argparse.Namespace, code: str) -> dict[str, float]:
    """Return the scores of an encoder in one language, and in English."""
    found, similar = {}, code in SIMILAR
    row = score_set(
        encoder, "stsb", given.data, [code if similar else "de"], part="report"
    )
    if similar:
        found = {"across": row["cross_lingual"], "within": row["tracks"][code]}
    found["english"] = row["tracks"]["en"]
    row = score_set(encoder, "tatoeba", given.data, [TATOEBA[code]], part="report")
    found["tatoeba"] = row["precision"]
    row = score_set(encoder, "retrieval", given.retrieval, [code], part="report")
    return found | {"ndcg_at_10": row["ndcg_at_10"]}


def made(given: argparse.Namespace, code: str, goals: str) -> Path:
    """Run `distil`, unless that is done, and return its folder."""
    out = (
        given.work / f"{code}_{given.size:g}_{given.updates}_{given.max_length}_{goals}"
    )
    if (out / "report.json").is_file():
        return out
    files = sorted(given.data.glob(f"parallel/train/tatoeba.en-{code}.*"))
    files += sorted(given.data.glob(f"parallel/train/ms-courses.en-{code}.*"))
    command = ["distil", *files, "--out", out, "--max-mb", given.size, *GOALS[goals]]
    command += ["--updates", given.updates] if given.updates else ["--minutes", 0]
    command += ["--no-guard", "--max-length", given.max_length]
    command = [sys.executable, "-m", "keras_msd", *command]
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return out


def main() -> None:
    """Score every file that the result does not have yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--retrieval", type=Path, required=True)
    parser.add_argument("--languages", nargs="+", default=["tr", "zh"])
    parser.add_argument("--size", type=float, default=12)
    parser.add_argument("--max-length", type=int, default=PASSAGE_LENGTH)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--work", type=Path, default=Path("distil-goals"))
    given = parser.parse_args()
    result = read_json(RESULT) if RESULT.is_file() else {}
    rows = ROWS if given.updates else {"start": ROWS["start"]}
    for code in given.languages:
        name = f"{code}, {given.size:g} MB, {given.updates} steps"
        name += f", {given.max_length} tokens" * (given.max_length != PASSAGE_LENGTH)
        found = result.setdefault(name, {})
        for row, (goals, folder) in rows.items():
            if row not in found:
                encoder = load_encoder(made(given, code, goals) / "rounded" / folder)
                found[row] = scores(encoder, given, code)
                write_json(RESULT, result)
                print(name, row, found[row], flush=True)
        if given.updates and "uncut" not in found:
            found["uncut"] = scores(load_encoder("small12"), given, code)
            write_json(RESULT, result)


if __name__ == "__main__":
    main()
