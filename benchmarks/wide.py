"""One small file for about forty languages, made from word frequencies alone.

`keras-msd distil --languages ...` takes every language that both e5-small and wordfreq
know; its file is scored on Tatoeba's sets (P@1, mean of both directions), most of them
of languages that small12's training never saw. Beside it e5-small, and the start before
it is cut.

    python benchmarks/wide.py --sets DATA/tatoeba MORE/tatoeba --max-mb 48
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from distil import rows_of

from keras_msd import load_encoder
from keras_msd.checkpoints.packaged import known_languages
from keras_msd.data.languages import code_of
from keras_msd.data.words import word_languages
from keras_msd.distillation.start import BACKBONE_LANGUAGES
from keras_msd.evaluate import retrieval
from keras_msd.io.files import read_json, write_json
from keras_msd.models import restore_vocabulary

RESULT = Path(__file__).parent / "results" / "wide.json"


def scores(encoder: Any, folders: list[Path]) -> dict[str, float]:
    """Return P@1 of each language."""
    found = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.gz")):
        name = path.name.split(".")[1].split("-")[0]
        code = code_of(name) or name
        if code not in found:
            found[code] = retrieval(encoder, rows_of([path]))["precision"]
            print(code, round(found[code], 2), flush=True)
    return found


def main() -> None:
    """Make the file and score it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=Path, nargs="+", required=True)
    parser.add_argument("--max-mb", type=float, default=48)
    given = parser.parse_args()
    languages = sorted(set(word_languages()) & set(BACKBONE_LANGUAGES))
    command = ["distil", "--languages", ",".join(languages), "--out", "wide"]
    command += ["--max-mb", f"{given.max_mb:g}"]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "keras_msd", *command], cwd=folder, check=True
        )
        minutes = (time.perf_counter() - began) / 60
        report = read_json(Path(folder, "wide", "report.json"))
        found = {"file": scores(load_encoder(Path(folder, "wide/litert")), given.sets)}
    backbone = load_encoder("e5-small")
    found["e5-small"] = scores(backbone, given.sets)
    whole = restore_vocabulary(load_encoder("small12"), backbone)
    found["small12 with the tokens of e5-small"] = scores(whole, given.sets)
    result = {
        "command": f"keras-msd {' '.join(command)}",
        "bytes": report["bytes"],
        "plan": report["plan"],
        "minutes": round(minutes, 1),
        "trained_on_pairs": known_languages("small12"),
        "scores": found,
    }
    write_json(RESULT, result)
    for name, of in found.items():
        print(f"{name}: {sum(of.values()) / len(of):.2f}, {len(of)} languages")


if __name__ == "__main__":
    main()
