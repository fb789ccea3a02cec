"""What each quantization costs an encoder, language by language.

The encoder is stored with rounded weights, read back and scored like before: STSb dev
within a language and against English, and translations of Tatoeba. It computes in
float32, so the differences are those of the weights alone. An artefact's runtime may
also round activations: benchmarks/formats.py measures artefacts.

    python benchmarks/languages.py tiny12 small12 --data DATA
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from keras_msd import load_encoder
from keras_msd.evaluate import score_set
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "languages.json"
QUANTIZATIONS = ("float32", "int8", "int4_table", "int4")
# Of the files of Tatoeba.
CODES = {
    "ar": "ara", "de": "deu", "es": "spa", "fr": "fra", "it": "ita", "ja": "jpn",
    "nl": "nld", "pl": "pol", "pt": "por", "ru": "rus", "tr": "tur", "zh": "cmn",
}  # fmt: skip
COLUMNS = {"within": "{}", "across": "en-{}", "Tatoeba": "tatoeba {}"}


def scores(encoder: Any, data: Path, part: str) -> dict[str, float]:
    """Return the score of every track, and of every language of Tatoeba."""
    similarity = score_set(encoder, "stsb", data, part=part)
    translations = score_set(
        encoder, "tatoeba", data, languages=tuple(CODES.values()), part=part
    )
    found = dict(similarity["tracks"])
    for language, code in CODES.items():
        found[f"tatoeba {language}"] = translations["tracks"][code]
    return found


def measure(name: str, data: Path, part: str) -> dict[str, dict[str, float]]:
    """Return the scores of one encoder with each quantization."""
    encoder, found = load_encoder(name), {}
    with tempfile.TemporaryDirectory() as folder:
        for quantize in QUANTIZATIONS:
            stored = encoder
            if quantize != "float32":
                encoder.save(Path(folder, quantize), quantize=quantize)
                stored = load_encoder(Path(folder, quantize))
            found[quantize] = scores(stored, data, part)
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    """Return scores in float32 and what the others lose, as Markdown."""
    before = found["float32"]
    kinds = [(column, kind) for column in COLUMNS for kind in QUANTIZATIONS]
    lines = [
        ["language", *(f"{column}, {kind}" for column, kind in kinds)],
        ["---", *("---:" for _ in kinds)],
    ]
    for language in ("en", *CODES):
        cells = []
        for column, kind in kinds:
            track = COLUMNS[column].format(language)
            if track not in before:
                cells.append("")
            elif kind == "float32":
                cells.append(f"{before[track]:.1f}")
            else:
                change = round(found[kind][track] - before[track], 1)
                cells.append(f"{change + 0.0:+.1f}")  # no -0.0
        lines.append([language, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Score every encoder, print its table, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", nargs="+", help="name or folder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--part", default="report", choices=["choose", "report"])
    parser.add_argument("--result", type=Path, default=RESULT)
    given = parser.parse_args()
    found = {name: measure(name, given.data, given.part) for name in given.encoder}
    for name, rows in found.items():
        print(f"{name}\n\n{table(rows)}\n")
    write_json(given.result, {"part": given.part, "encoders": found})


if __name__ == "__main__":
    main()
