"""Every format and quantisation of one encoder: size, speed, and what it loses.

Each artefact is written, loaded in its own runtime and compared with the Keras encoder
on real sentences and on a graded set. Times depend on the machine and its load, so
nothing else should run; each is taken in a process of its own, on one core. What is in
`--work FOLDER` is not made again: give `--no-times` first, and the same command without
it when the machine is idle.

    python benchmarks/formats.py runs/backbone/student --data DATA
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import InputError, load_encoder
from keras_msd.data import read_pairs
from keras_msd.evaluate import cost, read_sts_folder, sts_aligned
from keras_msd.export import FORMATS, export, load_artefact, quantizations
from keras_msd.export.proof import parity
from keras_msd.io.files import digest, read_json, write_json

RESULTS = Path(__file__).parent / "results"
TOKENS = 16  # of the timed sentence, start and end included
PAIRS = 25  # of held-out sentences in each language that cosines are taken on
CALLS = 200  # timed in each process
SCORES = ("cross_lingual", "monolingual")


class Remembered:
    """An encoder whose vectors are computed once, for all rows of the table."""

    def __init__(self, encoder: Any) -> None:
        self._encoder, self._vectors = encoder, {}

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector a sentence: `(n, dim)`."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= zip(new, self._encoder.encode(new), strict=True)
        return np.stack([self._vectors[text] for text in texts])


def real_sentences(data: Path) -> list[str]:
    """Return distinct held-out sentences: `PAIRS` of every file's language."""
    texts: list[str] = []
    folder = data / "parallel" / "dev"
    files = sorted(folder.glob("*.tsv.gz"))
    for language in sorted({file.name.split(".")[-3] for file in files}):
        own = sorted(folder.glob(f"*.{language}.tsv.gz"))
        # Files of one language take turns, so that every corpus is there.
        each = [islice(iter(read_pairs([file])), PAIRS) for file in own]
        pairs = islice((p for row in zip(*each, strict=False) for p in row), PAIRS)
        texts += [text for pair in pairs for text in (pair.source, pair.target)]
    return list(dict.fromkeys(texts))


def timed_sentence(encoder: Any, texts: Sequence[str]) -> str:
    """Return the first sentence of exactly `TOKENS` tokens, else one that is cut."""
    lengths = [len(ids) for ids in encoder.tokenizer.encode(list(texts))]
    if TOKENS in lengths:
        return texts[lengths.index(TOKENS)]
    longest = texts[int(np.argmax(lengths))]
    cut = [longest[:end] for end in range(len(longest), 0, -1)]
    for text, ids in zip(cut, encoder.tokenizer.encode(cut), strict=True):
        if len(ids) == TOKENS:
            return text
    raise InputError(f"No held-out sentence has {TOKENS} tokens. Give longer ones.")


def time_one(artefact: str, text: str) -> None:
    """Print the median milliseconds of encoding one sentence on one core."""
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    run = load_artefact(artefact, threads=1)
    spent = []
    for call in range(CALLS + 20):
        began = time.perf_counter()
        run.encode([text], progress=False)
        if call >= 20:
            spent.append(time.perf_counter() - began)
    print(1000 * statistics.median(spent))


def add_times(
    rows: Iterable[dict[str, Any]], text: str, folder: Path, rounds: int
) -> None:
    """Give each row `milliseconds` and their range over the rounds."""
    rows = list(rows)
    for number in range(rounds):
        for row in rows:
            path = folder / f"{row['format']}_{row['quantize']}"
            command = [sys.executable, __file__, "--time", str(path), text]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row.setdefault("rounds", []).append(float(done.stdout.split()[-1]))
        print(f"round {number + 1} of {rounds} timed", file=sys.stderr)
    for row in rows:
        spent = row.pop("rounds")
        row["milliseconds"] = round(statistics.median(spent), 3)
        row["milliseconds_range"] = [round(min(spent), 3), round(max(spent), 3)]


def measure(
    encoder: Any,
    keras: Remembered,
    path: Path,
    texts: list[str],
    graded: dict[str, Any],
    format: str,
    quantize: str | None,
) -> dict[str, Any]:
    """Write one artefact and return its row, which stays beside it."""
    kept = path.with_suffix(".json")
    key = {"encoder": encoder.fingerprint, "texts": texts, "graded": graded}
    key_digest = digest(json.dumps(key, sort_keys=True))
    if kept.is_file() and (row := read_json(kept))["key"] == key_digest:
        return row["row"]
    row = _measured(encoder, keras, path, texts, graded, format, quantize)
    write_json(kept, {"key": key_digest, "row": row})
    return row


def _measured(
    encoder: Any,
    keras: Remembered,
    path: Path,
    texts: list[str],
    graded: dict[str, Any],
    format: str,
    quantize: str | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"format": format, "quantize": quantize}
    try:
        lenient = {"min_cosine": -1, "min_neighbours": 0, "max_sts_loss": 100}
        export(encoder, path, format, quantize, **lenient)
    except InputError as error:
        return row | {"refused": str(error)}
    artefact = load_artefact(path)
    found = parity(texts, keras.encode(texts), artefact.encode(texts))
    before, after = sts_aligned(keras, graded), sts_aligned(artefact, graded)
    return row | {
        "bytes": artefact.card["bytes"],
        "libraries": artefact.card["libraries"],
        "before": {name: before[name] for name in SCORES if name in before},
        "after": {name: after[name] for name in SCORES if name in after},
        **found,
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    head = (
        "format", "quantize", "bytes", "ms", "min cosine", "mean cosine",
        "neighbours kept", "cross-lingual", "lost", "monolingual", "lost",
    )  # fmt: skip
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)]]
    refused = []
    for row in rows:
        name = [row["format"], row["quantize"] or "float32"]
        if "refused" in row:
            refused.append(f"Not for this encoder: {' '.join(name)}: {row['refused']}")
            continue
        cells = [
            f"{row['bytes']:,}",
            f"{row['milliseconds']:.2f}" if "milliseconds" in row else "",
            f"{row['min_cosine']:.6f}",
            f"{row['mean_cosine']:.6f}",
            f"{100 * row['neighbours_kept']:.1f} %",
        ]
        for score in SCORES:
            if score in row["after"]:
                after, before = row["after"][score], row["before"][score]
                cells += [f"{after:.2f}", f"{before - after:.2f}"]
            else:
                cells += ["", ""]
        lines.append([*name, *cells])
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*shown, "", *refused])


def main() -> None:
    """Write every artefact, print the table, write the result."""
    if sys.argv[1:2] == ["--time"]:
        time_one(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--name", help="of the result's file; else the encoder's")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS))
    parser.add_argument("--quantize", nargs="+", help="float32, fp16, int8, ...")
    parser.add_argument("--sts", default="stsb", help="graded set")
    parser.add_argument("--languages", nargs="+", help="of the set; else all")
    parser.add_argument("--every", type=int, default=1, help="take each n-th row of it")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--work", type=Path, help="keeps artefacts and rows")
    parser.add_argument("--rounds", type=int, default=5, help="processes for a time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()

    encoder = load_encoder(given.encoder)
    texts, keras = real_sentences(given.data), Remembered(encoder)
    files = (given.data / "sts").glob(f"{given.sts}.dev.*.tsv.gz")
    codes = given.languages or sorted(file.name.split(".")[2] for file in files)
    sets = read_sts_folder(given.data / "sts", codes, dataset=given.sts)
    graded = {code: rows[:: given.every] for code, rows in sets.items()}
    with tempfile.TemporaryDirectory() as temporary:
        folder, rows = given.work or Path(temporary), []
        folder.mkdir(parents=True, exist_ok=True)
        for format in given.formats:
            for quantize in quantizations(format):
                if given.quantize and (quantize or "float32") not in given.quantize:
                    continue
                path = folder / f"{format}_{quantize}"
                rows.append(
                    measure(encoder, keras, path, texts, graded, format, quantize)
                )
                print(f"{format}, {quantize}: measured", file=sys.stderr)
        if not given.no_times:
            kept = (row for row in rows if "refused" not in row)
            add_times(kept, timed_sentence(encoder, texts), folder, given.rounds)
    result = {
        "encoder": given.encoder.name,
        "fingerprint": encoder.fingerprint,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "rows": rows,
        "sentences": len(texts),
        "sts": f"{given.sts} dev: {len(graded['en'])} rows in {', '.join(graded)}",
        "timed": None if given.no_times else f"{TOKENS} tokens, one core, batch 1",
    } | cost(encoder)
    name = given.name or given.encoder.name
    text = json.dumps(result, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (given.results / f"formats_{name}.json").write_text(text, encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
