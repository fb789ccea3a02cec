"""What `distil` makes of six languages, by size and number of pairs.

For each language and size, `keras-msd distil` is given no pairs (the languages alone,
with word frequencies), or some, and its file is scored on Tatoeba's retrieval set and
on the development pairs, neither of which it saw: P@1, mean of both directions. Beside
it the same scores of e5-small, of the start before it is cut, and of the multilingual
Universal Sentence Encoder where it has the language. What is in the result is not made
again.

    python benchmarks/distil.py --data DATA --sizes 12 16 24 --pairs 0 1500 --minutes 10

With `--pivot DATA`, pairs of German and Turkish are made from those that both have with
English, and 1,000 others are the set.
"""

import argparse
import gzip
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "distil.json"
TATOEBA = {
    "cs": "ces",
    "id": "ind",
    "ko": "kor",
    "sv": "swe",
    "uk": "ukr",
    "vi": "vie",
}
PIVOT, PIVOT_SET = ("de", "tr"), 1000  # the languages, and how many pairs are the set
MUSE = {"de", "ko", "tr"}  # of these languages, those of the encoder of that name
Rows = list[tuple[str, str]]


def rows_of(paths: Iterable[Path]) -> Rows:
    """Return the rows of two columns in compressed TSV files."""
    rows = []
    for path in sorted(paths):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows += [tuple(line.rstrip("\n").split("\t")[:2]) for line in file]
    return rows


def shuffled(given: argparse.Namespace, language: str) -> Rows:
    """Return the training pairs of a language in a fixed random order."""
    if not given.pivot:
        rows = rows_of((given.data / "train").glob(f"*.en-{language}.tsv.gz"))
    else:
        folder = given.pivot / "parallel" / "train"
        one, two = (dict(rows_of(folder.glob(f"*.en-{code}.tsv.gz"))) for code in PIVOT)
        rows = sorted({(one[text], two[text]) for text in one.keys() & two.keys()})
    random.Random(0).shuffle(rows)
    return rows


def scores(encoder: Any, given: argparse.Namespace, language: str) -> dict[str, float]:
    """Return P@1 on the sets of a language."""
    from keras_msd.evaluate import retrieval

    if given.pivot:
        rows = shuffled(given, language)[-PIVOT_SET:]
        return {"others": retrieval(encoder, rows)["precision"]}
    data = given.data
    sets = {
        "tatoeba": [data / "tatoeba" / f"tatoeba.{TATOEBA[language]}-eng.tsv.gz"],
        "dev": (data / "dev").glob(f"*.en-{language}.tsv.gz"),
    }
    return {
        name: retrieval(encoder, rows_of(paths))["precision"]
        for name, paths in sets.items()
    }


def made(
    given: argparse.Namespace, languages: list[str], size: int, pairs: int, work: Path
) -> dict[str, Any]:
    """Run the command once and score its file."""
    from keras_msd import load_encoder
    from keras_msd.io.files import read_json

    for language in languages:
        rows = shuffled(given, language)
        path = work / own_file(given, language)
        path.write_text("".join("\t".join(row) + "\n" for row in rows[:pairs]))
    command = command_of(given, languages, size, pairs)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "keras_msd", *command],
        cwd=work,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    minutes = (time.perf_counter() - began) / 60
    report = read_json(work / "model" / "report.json")
    file = load_encoder(work / "model" / "litert")
    return {
        "command": in_words(command),
        "bytes": report["bytes"],
        "plan": report["plan"],
        "kept": report["kept"],
        "minutes": round(minutes, 1),
        "scores": {language: scores(file, given, language) for language in languages},
        "report": [
            {key: row[key] for key in ("name", "bytes", "precision", "interval", "mrr")}
            for row in report["encoders"]
        ],
    }


def own_file(given: argparse.Namespace, language: str) -> str:
    """Return the name of a language's file of pairs."""
    return f"own.{language if given.pivot else f'en-{language}'}.tsv"


def command_of(
    given: argparse.Namespace, languages: list[str], size: int, pairs: int
) -> list[str]:
    """Return the arguments of `keras-msd` that make a cell."""
    command = [own_file(given, language) for language in languages]
    if not pairs:
        codes = ",".join(PIVOT if given.pivot else ["en", *languages])
        command = ["--languages", codes]
    elif given.updates:
        command += ["--updates", str(given.updates)]
    else:
        command += ["--minutes", f"{given.minutes:g}"]
    command = ["distil", *command, "--out", "model", "--max-mb", str(size)]
    if given.align:
        command.append("--align")
    return [*command, "--start", given.start] if given.start else command


def in_words(command: list[str]) -> str:
    """Return a command as one types it."""
    return f"keras-msd {' '.join(command)}"


def baseline(given: argparse.Namespace, language: str) -> dict[str, Any]:
    """Return the scores of the backbone and of the uncut start."""
    from keras_msd import load_encoder, load_teacher
    from keras_msd.models import restore_vocabulary

    backbone = load_encoder("e5-small")
    found = {"e5-small": scores(backbone, given, language)}
    whole = restore_vocabulary(load_encoder("small12"), backbone)
    found["small12 with the tokens of e5-small"] = scores(whole, given, language)
    if set(language.split("-")) <= MUSE:
        found["muse"] = scores(load_teacher("muse"), given, language)
    return found


def main() -> None:
    """Make every cell that is not in the result yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the six languages")
    parser.add_argument("--languages", nargs="+", default=[*TATOEBA])
    parser.add_argument("--sizes", type=int, nargs="+", default=[12, 16, 24])
    parser.add_argument("--pairs", type=int, nargs="*", default=[0, 1500])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--updates", type=int, help="steps, in place of --minutes")
    parser.add_argument("--start", help="where distil starts, such as tiny12")
    parser.add_argument("--align", action="store_true", help="as distil's option")
    parser.add_argument("--together", action="store_true", help="all languages in one")
    parser.add_argument("--pivot", type=Path, help="the corpora of a recipe")
    parser.add_argument("--work", type=Path, default=Path("distil-work"))
    given = parser.parse_args()
    if not (given.data or given.pivot):
        parser.error("give --data or --pivot")
    result = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    if given.pivot:
        given.languages = ["-".join(PIVOT)]
    groups = [[code] for code in given.languages]
    if given.together:
        groups = [given.languages]
    start = f", from {given.start}" if given.start else ""
    start += ", aligned" * given.align
    cells = [
        (f"{'+'.join(codes)}, {size} MB, {pairs} pairs{start}", codes, size, pairs)
        for pairs in given.pairs
        for size in given.sizes
        for codes in groups
    ]
    for name, codes, size, pairs in cells:
        if known := result.get("cells", {}).get(name):
            asked = in_words(command_of(given, codes, size, pairs))
            if known["command"] != asked:
                parser.error(f"{RESULT} has {name} of `{known['command']}`; move it.")
            continue
        work = given.work / name.replace(" ", "_").replace(",", "")
        work.mkdir(parents=True, exist_ok=True)
        cell = made(given, codes, size, pairs, work)
        result.setdefault("cells", {})[name] = cell
        RESULT.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
        print(name, f"{cell['bytes'] / 1e6:.1f} MB", cell["scores"], flush=True)
        shutil.rmtree(work)
    for code in given.languages:
        if code not in result.get("baselines", {}):
            found = baseline(given, code)
            result.setdefault("baselines", {})[code] = found
            RESULT.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
