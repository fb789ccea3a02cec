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
from keras_msd.models import Encoder, restore_vocabulary

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


def made(command: list[str], work: Path) -> dict[str, Any]:
    """Run the command once; return what it made."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "keras_msd", *command], cwd=work, check=True)
    report = read_json(work / "wide" / "report.json")
    return {
        "bytes": report["bytes"],
        "plan": report["plan"],
        "minutes": round((time.perf_counter() - began) / 60, 1),
        "trained_on_pairs": known_languages("small12"),
    }


def main() -> None:
    """Make the file, and score what is not in the result yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=Path, nargs="+", required=True)
    parser.add_argument("--max-mb", type=float, default=48)
    parser.add_argument("--work", type=Path, default=Path("wide-work"))
    given = parser.parse_args()
    given.work.mkdir(exist_ok=True)
    languages = sorted(set(word_languages()) & set(BACKBONE_LANGUAGES))
    command = ["distil", "--languages", ",".join(languages), "--out", "wide"]
    command += ["--max-mb", f"{given.max_mb:g}"]
    typed = f"keras-msd {' '.join(command)}"
    result = read_json(RESULT) if RESULT.is_file() else {"scores": {}}
    if result.get("command", typed) != typed:
        parser.error(f"{RESULT} is of `{result['command']}`; move it.")
    if "plan" not in result:
        result |= {"command": typed} | made(command, given.work)
        write_json(RESULT, result)

    def whole() -> Encoder:
        return restore_vocabulary(load_encoder("small12"), load_encoder("e5-small"))

    encoders = {
        "file": lambda: load_encoder(given.work / "wide" / "litert"),
        "e5-small": lambda: load_encoder("e5-small"),
        "small12 with the tokens of e5-small": whole,
    }
    for name, load in encoders.items():
        if name not in result["scores"]:
            result["scores"][name] = scores(load(), given.sets)
            write_json(RESULT, result)
        of = result["scores"][name]
        print(f"{name}: {sum(of.values()) / len(of):.2f}, {len(of)} languages")


if __name__ == "__main__":
    main()
