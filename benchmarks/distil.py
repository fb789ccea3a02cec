"""Own pairs: what one command gains over its closed form with 3,000 pairs.

For each language 3,000 pairs go into a CSV, `keras-msd distil` is run on it, and its
closed form, what it started from and its encoder search 1,000 other pairs, which
nothing chose on and which share no text with those. Pairs are drawn from the corpora of
DATA/parallel/train that tiny12 did not learn from; of a language that is not there,
from the gettext catalogues of programs under `--catalogues`: sentences of four words
and more, of letters alone, as a name or a number on both sides finds its translation
without a model. The encoder is then exported as `onnx` in int8, with proof.

    python benchmarks/distil.py --data DATA --json
"""

import argparse
import csv
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "distil.json"
PAIRS, TESTED, WORDS, CHARACTERS = 3000, 1000, 4, 250
CLOSED_FORM, START = "closed_form", "start"  # encoders in its folder
PROSE = re.compile(r"[A-Za-z ,.'?!;:()]+")
# Lists of names, no sentences.
NO_TEXTS = ("iso_", "xdg-user-dirs", "xkeyboard")


def rows_of(language: str, data: Path, catalogues: Path) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a language: of the data folder, else of catalogues."""
    import polib

    from keras_msd.data import read_pairs
    from keras_msd.recipes import load_recipe

    known = load_recipe("tiny12").data.corpora
    files = read_pairs(data / "parallel" / "train").files
    if found := [file for file in files if file.languages == ("en", language)]:
        for file in found:
            if file.name.partition(".")[0] not in known:
                yield from file.rows()
        return
    folder = catalogues / language / "LC_MESSAGES"
    for path in sorted(folder.glob("*.mo")):
        if path.name.startswith(NO_TEXTS):
            continue
        for entry in polib.mofile(str(path)):
            long = len(entry.msgid.split()) >= WORDS and entry.msgstr
            if long and PROSE.fullmatch(entry.msgid):
                yield entry.msgid, entry.msgstr


def drawn(rows: Iterable[tuple[str, str]], count: int, seed: int) -> list[Any]:
    """Return pairs that share no text with one another."""
    from keras_msd.data import normalize

    first: dict[str, str] = {}
    for pair in rows:
        source, target = map(normalize, pair)
        if source and target and len(source) <= CHARACTERS >= len(target):
            first.setdefault(source, target)
    pairs = {target: source for source, target in first.items()}
    both = sorted((source, target) for target, source in pairs.items())
    if len(both) < count:
        raise SystemExit(f"{count} pairs are needed. Received: {len(both)}.")
    return random.Random(seed).sample(both, count)


def distilled(given: argparse.Namespace, language: str, work: Path) -> dict[str, Any]:
    """Return what one language gave."""
    from keras_msd import load_encoder
    from keras_msd.evaluate import retrieval
    from keras_msd.io.files import read_json

    pairs = drawn(
        rows_of(language, given.data, given.catalogues),
        given.pairs + given.tested,
        given.seed,
    )
    own, out = work / "own.csv", work / "model"
    with open(own, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("en", language), *pairs[: given.pairs]])
    command = ["distil", "own.csv", "--out", "model", "--minutes", str(given.minutes)]
    used, began = _processor_seconds(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "keras_msd", *command, "--store", "store"],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    minutes = (time.perf_counter() - began) / 60
    processor = (_processor_seconds() - used) / 60
    encoder = load_encoder(out / "encoder")
    before = (load_encoder(out / it) for it in (CLOSED_FORM, START))
    scores = [
        retrieval(it, pairs[given.pairs :])["precision"] for it in (*before, encoder)
    ]
    encoder.export(work / "onnx", format="onnx", quantize="int8")
    card = read_json(work / "onnx" / "card.json")
    return {
        "closed_form": scores[0],
        "start": scores[1],
        "encoder": scores[2],
        "gain": round(scores[2] - scores[0], 4),
        "minutes": round(minutes, 2),
        "processor_minutes": round(processor, 2),
        "report": read_json(out / "report.json"),
        "int8": {"bytes": card["bytes"], "parity": card["parity"]},
        "transcript": [f"$ keras-msd {' '.join(command)}", *done.stdout.splitlines()],
    }


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, write the result, print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs="+", default=["de", "tr", "fi"])
    parser.add_argument("--catalogues", type=Path, default=Path("/usr/share/locale"))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--tested", type=int, default=TESTED)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--note", default="", help="What else the machine did.")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()

    from keras_msd.io.files import write_json

    results: dict[str, Any] = {}
    for language in given.languages:
        with tempfile.TemporaryDirectory() as folder:
            results[language] = distilled(given, language, Path(folder))
        result = {
            "pairs": given.pairs,
            "tested": given.tested,
            "seed": given.seed,
            "cores": len(os.sched_getaffinity(0)),
            "load": os.getloadavg(),
            "note": given.note,
            "languages": results,
        }
        write_json(given.out, result)
        names = "closed_form", "start", "encoder", "minutes"
        shown = {name: results[language][name] for name in names}
        print(language, shown, file=sys.stderr)
    if given.json:
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
