"""What helps tiny12: arms of its recipe, scored on the halves that settings come from.

All arms but the first three have 32,000 pieces, and the same pairs, stages and updates
but for what their name says. Scores are those before the weights by frequency, and
after them. An arm whose folder has its scores is not run again; one that was stopped
goes on. What the result file has of other arms and seeds stays in it.

    python experiments/tiny12.py --data DATA --data MORE --folder runs/tiny12
"""

import argparse
import json
from pathlib import Path
from typing import Any

from keras_msd.io.files import read_json, write_json
from keras_msd.recipes import run
from keras_msd.recipes.load import parse_override

RESULT = Path(__file__).parent / "results" / "tiny12.json"
STAGE = "stages.pretrain_assistant"
PIECES = ["tokenizer.vocabulary_size=32000"]
LONG = [*PIECES, f"{STAGE}.steps=3000"]
SHORT = [*PIECES, f"{STAGE}.steps=600"]
OF_DATA = [
    *("tatoeba", "ms-courses", "mozilla-www", "tico19", "opensource-guide"),
    *("rust-course", "tldr", "mlqe-pe", "darktable-docs", "gnome-help"),
    *("python-docs", "europarl"),
]
LEXICONS = ["cldr", "omw", "omw-wikt", "wechsel"]
OF_MORE = [
    *("ami-meeting", "bible", "bitcoin-www", "freebsd-docs", "mediawiki-ui", "mgsm"),
    *("privacy-guides", "pud", "qald", "raspberry-projects", "skycultures"),
    *("storybooks", "xcopa", "xsid"),
]
UNSHIPPED = ["multi30k", "bsd-dialogue", "quran"]  # and the WMT test sets


def corpora(*lists: list[str], of: str = "data") -> str:
    """Return the setting that takes these corpora alone, a stage or the whole run."""
    return f"{of}.corpora={json.dumps([name for names in lists for name in names])}"


ARMS: dict[str, list[str]] = {
    "the recipe": [],
    "batches of 4,096, no lexicons drawn": [
        f"{STAGE}.batch_size=4096",
        f"{STAGE}.steps=2500",
        corpora(OF_DATA, OF_MORE, of=STAGE),
    ],
    "prefixes, too": [f"{STAGE}.matryoshka_dims=[32, 64, 128, 256]"],
    "3,000 updates": LONG,
    "capitals apart": [*LONG, "tokenizer.case_fold=false"],
    "600 updates": SHORT,
    "600 updates, softmax alone": [*SHORT, f"{STAGE}.losses.others.weight=0.0"],
    "600 updates, similarities alone": [*SHORT, f"{STAGE}.contrastive_weight=0.0"],
    "vectors imitated, too; half the updates": [
        *PIECES,
        f"{STAGE}.kd_weight=192",
        f"{STAGE}.steps=1500",
    ],
    "600 updates, vectors imitated, nothing else": [
        *SHORT,
        f"{STAGE}.kd_weight=192",
        f"{STAGE}.contrastive_weight=0.0",
        f"{STAGE}.losses.others.weight=0.0",
    ],
    "600 updates, temperature 0.03": [*SHORT, f"{STAGE}.temperature=0.03"],
    "600 updates, temperature 0.1": [*SHORT, f"{STAGE}.temperature=0.1"],
    "600 updates, of DATA alone": [*SHORT, corpora(OF_DATA), "data.weights={}"],
    "600 updates, with multi30k, bsd-dialogue and quran": [
        *SHORT,
        corpora(OF_DATA, OF_MORE, LEXICONS, UNSHIPPED),
    ],
}
SCORES = ("cross_lingual", "monolingual", "retrieval")


def folder_of(arm: str) -> str:
    """Return the name of an arm's folder."""
    return "_".join("".join(it if it.isalnum() else " " for it in arm).split())


def scores_of(arm: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run an arm with a seed, unless it is done; return its scores and minutes."""
    folder = given.folder / (folder_of(arm) + (f"_{seed}" if seed else ""))
    own = ARMS[arm]
    if not (folder / "timings.json").is_file():
        seeded = [f"recipe.seed={seed}"] if seed else []
        changes = ['evaluate.part="choose"', *own, *seeded, *given.set]
        run(
            "tiny12",
            folder,
            given.scale,
            data_dir=given.data,
            store_dir=given.folder / "store",
            overrides=dict(map(parse_override, changes)),
            share_steps=True,
        )
    rows = read_json(folder / "scores.json")["rows"]
    by_name = {row["name"]: row for row in rows}
    last = by_name["assistant"]
    trained = by_name.get("assistant before weights by frequency", last)
    timings = read_json(folder / "timings.json")
    history = read_json(folder / "stages" / "pretrain_assistant" / "history.json")
    weighted = {"weighted": scores_in(last)} if last is not trained else {}
    return {
        "settings": own,
        "start": scores_in(by_name["assistant before pre-training"]),
        "closed_form": scores_in(by_name.get("closed form", {})),
        "scores": scores_in(trained),
        **weighted,
        "across_on_the_way": [
            round(it, 2) for it in history["scores"]["cross_lingual"]
        ],
        "stage_minutes": round(timings["parts"]["stages"] / 60, 1),
    }


def scores_in(row: dict[str, Any]) -> dict[str, float]:
    """Return what a row of a run's scores says of STSb dev and of Tatoeba."""
    found = {key: row[key] for key in SCORES if key in row}
    if english := row.get("tracks", {}).get("en"):
        found["english"] = english
    return {key: round(score, 2) for key, score in found.items()}


def main() -> None:
    """Run what is not there yet, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, action="append")
    parser.add_argument("--scale", default="lab")
    parser.add_argument("--folder", type=Path, default=Path("runs/tiny12"))
    parser.add_argument("--arms", nargs="+", choices=ARMS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--set", metavar="KEY=VALUE", nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    result: dict[str, Any] = {"scale": given.scale, "part": "choose", "seeds": {}}
    if given.out.is_file():
        result = read_json(given.out)
        if result["scale"] != given.scale:
            parser.error(f"{given.out} is of scale {result['scale']}; move it.")
    for seed in given.seeds:
        found = result["seeds"].setdefault(str(seed), {})
        for arm in given.arms or ARMS:
            found[arm] = scores_of(arm, seed, given)
            write_json(given.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
