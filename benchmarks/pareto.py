"""The table that a user chooses by: bytes, scores and speed of small encoders.

Ours are measured on the reported halves of STSb dev and Tatoeba, in float32 and as the
files that are shipped, and so are the models of others that pip can install. The rest
has the numbers that pareto.toml names with their sources. Rows of an earlier result
that are not measured again stay. Run it on an idle machine: it times one sentence on
one core.

    python benchmarks/pareto.py --encoder tiny12=tiny12 small12=small12,int4 \
        --teacher muse=muse e5-small=e5-small --data DATA --json
"""

import argparse
import json
import os
import tempfile
import time
import tomllib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import load_encoder, load_teacher
from keras_msd.checkpoints.packaged import backbone_files
from keras_msd.evaluate import read_tatoeba, score_set
from keras_msd.evaluate.measures import SentenceEncoder, SentenceVectors
from keras_msd.evaluate.nearest import top_k
from keras_msd.io.files import read_json, write_json

HERE = Path(__file__).parent
RESULT = HERE / "results" / "pareto.json"
PAGE, PLOT, PUBLISHED = HERE / "pareto.md", HERE / "pareto.svg", HERE / "pareto.toml"
LANGUAGES = ["ar", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "tr", "zh"]
FIVE = ("de", "es", "fr", "ja", "zh")
NINE = ("de", "es", "fr", "it", "nl", "pl", "pt", "ru", "zh")  # of MTEB's results
FLOAT = "float32"
FILES = {
    "litert_text": "model.tflite",
    "onnx_text": "model.onnx",
    "gguf": "model.gguf",
    "saved_model": "",
}
QUANTIZED = {"gguf": {"int4": "q4_0", "int8": "q8_0"}}  # where names are others
PACKAGE = "package"  # of ours, which needs no TensorFlow
SENTENCE = "The children are playing football in the park behind the old school."
CALLS = 300
PREFIXES = 256, 128, 64, 32


def weighted_f1(encoder: SentenceEncoder, folder: Path) -> float:
    """Score the search for the English side in Tatoeba as mteb does.

    The answer to sentence i is a class, i the right one: F1 of each class is
    `2 hits / (1 + answers)`, and their mean, x100, is that of languages.
    """
    scores = []
    for pairs in read_tatoeba(folder, LANGUAGES).values():
        texts = (text for pair in pairs for text in pair)
        vectors = SentenceVectors(encoder.encode, texts)
        english, other = (vectors(pair[side] for pair in pairs) for side in (0, 1))
        found = top_k(other, english, 1)[1][:, 0]
        answers = np.bincount(found, minlength=len(pairs))
        hits = found == np.arange(len(pairs))
        scores.append((2 * hits / (1 + answers)).mean())
    return round(100 * float(np.mean(scores)), 2)


def scores_of(encoder: SentenceEncoder, data: Path, part: str) -> dict[str, float]:
    """Return the encoder's scores on one half of both sets, and its F1 on Tatoeba."""
    similarity = score_set(encoder, "stsb", data, part=part)
    tracks = similarity["tracks"]
    whole = score_set(encoder, "stsb", data)["tracks"]
    found = score_set(encoder, "tatoeba", data, languages=LANGUAGES, part=part)

    def mean(names: Iterable[str], tracks: dict[str, float] = tracks) -> float:
        return round(float(np.mean([tracks[name] for name in names])), 2)

    return {
        "cross": round(similarity["cross_lingual"], 2),
        "within": round(similarity["monolingual"], 2),
        "english": mean(["en"]),
        "cross_five": mean([f"en-{code}" for code in FIVE]),
        "within_five": mean(FIVE),
        "stsb_dev": mean(NINE, whole),
        "stsb_dev_english": mean(["en"], whole),
        "tatoeba": round(found["precision"], 2),
        "tatoeba_f1": weighted_f1(encoder, data / "tatoeba"),
    }


def milliseconds(encoder: SentenceEncoder) -> float:
    """Return the median time of one call with one sentence of 12 words."""
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        encoder.encode([SENTENCE])
        times.append(time.perf_counter() - began)
    return round(1000 * float(np.median(times[CALLS // 10 :])), 3)


class Remembering:
    """Embeds each text once, however often it is asked for.

    Attributes:
        width: How many of the first numbers of a vector `encode` returns.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self._known: dict[str, np.ndarray] = {}
        self.width = encoder.encode(["A sentence."]).shape[1]

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return a row for each text."""
        texts = list(texts)
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._known[text][: self.width] for text in texts])


def measure(
    name: str, source: str, data: Path, part: str | None, formats: list[str]
) -> list[dict[str, Any]]:
    """Score an encoder from Python and as stored files with the tokenizer inside.

    Args:
        name: What the table calls it.
        source: What `load_encoder` takes; how files are stored after a comma, by
            default int8.
        data: The data folder.
        part: A half of the sets; None for times and bytes of files alone.
        formats: "float32", in Python, keys of `FILES`, and "package", which is
            `keras_msd_<source>`.
    """
    source, _, quantize = source.partition(",")
    quantize = quantize or "int8"
    encoder = load_encoder(source)
    rows = []
    if FLOAT in formats and part:
        first = {"name": name, "format": FLOAT, "bytes": 4 * encoder.num_parameters}
        remembering = Remembering(encoder)
        for remembering.width in (encoder.dim, *PREFIXES):
            scores = scores_of(remembering, data, part)
            rows.append(first | {"dim": remembering.width} | scores)
    for format_ in (name for name in FILES if name in formats):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "artefact"
            stored = QUANTIZED.get(format_, {}).get(quantize, quantize)
            encoder.export(out, format=format_, quantize=stored)
            row = {"name": name, "format": f"{format_} {stored}", "dim": encoder.dim}
            row["bytes"] = size(out / FILES[format_])
            rows.append(row | scores_and_time(load_encoder(out), data, part))
    if PACKAGE in formats:
        package = import_module(f"keras_msd_{source}")
        row = {"name": name, "format": PACKAGE, "dim": encoder.dim}
        row["bytes"] = size(Path(package.__file__).parent)
        rows.append(row | scores_and_time(package.load(), data, part))
    return rows


def scores_and_time(
    encoder: SentenceEncoder, data: Path, part: str | None
) -> dict[str, float]:
    """Return the scores, if there is a `part`, and the milliseconds of a sentence."""
    ms = milliseconds(encoder)
    scores = scores_of(Remembering(encoder), data, part) if part else {}
    return scores | {"ms": ms}


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder but compiled Python."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(
        it.stat().st_size for it in files if it.is_file() and it.suffix != ".pyc"
    )


def measure_package(name: str, source: str, data: Path, part: str) -> list[Any]:
    """Score a model of others from its package."""
    model = Remembering(load_teacher(source))
    row = {"name": name, "format": "its package", "dim": model.width}
    row["bytes"] = sum(map(size, backbone_files(source)))
    return [row | scores_of(model, data, part)]


def published() -> list[dict[str, Any]]:
    """Return the rows of pareto.toml."""
    return list(tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))["model"])


def table(rows: list[dict[str, Any]], columns: dict[str, str]) -> list[str]:
    """Return a table in Markdown; what a row does not have stays empty."""
    lines = [f"| {' | '.join(columns.values())} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        cells = ["" if row.get(key) is None else row[key] for key in columns]
        shown = [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells]
        lines.append(f"| {' | '.join(shown)} |")
    return lines


HEAD = """# Bytes and scores

Made by `python benchmarks/pareto.py`, which measures the first table; the second
repeats [published numbers](pareto.toml). **They are of different sets.** Ours are on
the half `{part}` of STSb *dev* (Spearman x 100; across: English against a
translation, mean of 10 languages; within: mean of 11; five: de es fr ja zh) and of
Tatoeba (12 languages; P@1 x 100 both ways; F1 into English, weighted as mteb has it,
on all pairs); theirs are on test sets that are not here. Tatoeba's corpus, none of
its sentences that are scored, is in our training text. Bytes of a file are those of
weights and tokenizer; numbers are those of a vector; ms is one sentence of 12 words,
from text to vector, on one core with AVX2.
"""
OURS = {
    "name": "encoder", "format": "format", "bytes": "bytes", "dim": "numbers",
    "cross": "STSb across",
    "within": "within", "english": "English", "cross_five": "across, five",
    "within_five": "within, five", "tatoeba": "Tatoeba P@1", "tatoeba_f1": "F1",
    "ms": "ms",
}  # fmt: skip
OF_PREFIXES = "name", "dim", "cross", "within", "english", "tatoeba", "tatoeba_f1"
THEIRS = {
    "name": "model", "megabytes": "MB, float32", "sts17_across": "STS17 across",
    "sts17_within": "within", "stsb": "STSb", "stsb_english": "STSb English",
    "tatoeba_f1": "Tatoeba F1, 112", "tatoeba_p1": "P@1, 112",
    "tatoeba12_f1": "Tatoeba F1, our 12", "source": "source",
}  # fmt: skip
SAME_ROWS = """Of the same rows, all of STSb dev, with scores of MTEB's public results:
nine languages (de es fr it nl pl pt ru zh; each alone, their mean) and English. Half
of these rows chose our encoders' settings.
"""
OF_ALL = {
    "name": "model", "format": "format", "megabytes": "MB",
    "stsb_dev": "nine languages", "stsb_dev_english": "English",
}  # fmt: skip


def of_all_rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all models with a score on the whole of STSb dev, the best first."""
    ours = (
        row | {"megabytes": round(row["bytes"] / 1e6, 1)}
        for row in result["ours"]
        if row["dim"] not in PREFIXES
    )
    theirs = (row | {"format": FLOAT} for row in result["published"])
    rows = [row for row in (*ours, *theirs) if "stsb_dev" in row]
    return sorted(rows, key=lambda row: -row["stsb_dev"])


def page(result: dict[str, Any]) -> str:
    """Return pareto.md."""
    prefixes = [row for row in result["ours"] if row["dim"] in PREFIXES]
    lines = [
        HEAD.format(part=result["part"]),
        *table([row for row in result["ours"] if row not in prefixes], OURS),
        "",
        "The first numbers of a vector alone, as `encode(truncate_dim=)` gives them:",
        "",
        *table(prefixes, {key: OURS[key] for key in OF_PREFIXES}),
        "",
        "![Bytes and scores](pareto.svg)",
        "",
        *table(result["published"], THEIRS),
        "",
        SAME_ROWS,
        *table(of_all_rows(result), OF_ALL),
        "",
    ]
    return "\n".join(lines)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw bytes against F1 on Tatoeba in our 12 languages, where that is known."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pareto"  # the same bytes again
    from matplotlib import pyplot as plt

    points = [
        (row["bytes"] / 1e6, row["tatoeba_f1"], f"{row['name']}, {row['format']}")
        for row in result["ours"]
        # The other files of an encoder lie on those of LiteRT.
        if not row["format"].startswith((*list(FILES)[1:], PACKAGE))
        and row["dim"] not in PREFIXES
    ]
    points += [
        (row["megabytes"], row["tatoeba12_f1"], row["name"])
        for row in result["published"]
        if "tatoeba12_f1" in row
    ]
    figure, axes = plt.subplots(figsize=(7, 3.5))
    for place, (size, score, name) in enumerate(points):
        axes.scatter(size, score, color=f"C{place}", label=name)
    axes.legend()
    axes.set_xscale("log")
    axes.set_xlabel("MB of weights; of a file with its tokenizer")
    axes.set_ylabel("Tatoeba F1, 12 languages")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    """Measure ours, write the result, the page and the plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--encoder",
        metavar="NAME=SOURCE",
        nargs="+",
        default=["tiny12=tiny12"],
        help="ours: what the table calls them, what `load_encoder` takes, and after a "
        "comma how files are stored (int8)",
    )
    parser.add_argument("--teacher", metavar="NAME=SOURCE", nargs="+", default=[])
    every = [FLOAT, *FILES, PACKAGE]
    usual = [FLOAT, "litert_text", "onnx_text"]
    parser.add_argument("--formats", nargs="+", choices=every, default=usual)
    parser.add_argument(
        "--times-only", action="store_true", help="of files whose scores are known"
    )
    parser.add_argument("--part", default="report", choices=["choose", "report"])
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    known = read_json(given.out) if given.out.exists() else {"part": given.part}
    if known["part"] != given.part:
        parser.error(f"{given.out} is of the half {known['part']}; give another --out.")
    earlier = known.get("ours", [])
    ours = []
    for each in given.encoder:
        name, _, source = each.partition("=")
        part = None if given.times_only else given.part
        ours += measure(name, source, given.data, part, given.formats)
    for each in given.teacher:
        name, _, source = each.partition("=")
        ours += measure_package(name, source, given.data, given.part)

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["name"], row["format"], row["dim"]

    again = {key(row): row for row in ours}
    new = [row for row in ours if key(row) not in {key(each) for each in earlier}]
    ours = [row | again.get(key(row), {}) for row in earlier] + new
    result = {"part": given.part, "ours": ours, "published": published()}
    write_json(given.out, result)
    if given.out == RESULT:
        PAGE.write_text(page(result), encoding="utf-8")
        draw(result, PLOT)
    print(page(result))
    if given.json:
        print(json.dumps({"part": given.part, "ours": ours}))


if __name__ == "__main__":
    main()
