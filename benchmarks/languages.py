"""What each quantization costs an encoder, language by language.

The encoder is stored with rounded weights, read back and scored like before: STSb dev
within a language and against English, and translations of Tatoeba. It computes in
float32, so the differences are those of the weights alone. An artefact's runtime may
also round activations.

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
PART = "report"
QUANTIZATIONS = ("float32", "int8", "int4_table", "int4")
# Of the files of Tatoeba.
CODES = {
    "ar": "ara", "de": "deu", "es": "spa", "fr": "fra", "it": "ita", "ja": "jpn",
    "nl": "nld", "pl": "pol", "pt": "por", "ru": "rus", "tr": "tur", "zh": "cmn",
}  # fmt: skip
STARTS = {"within": "", "across": "en-", "Tatoeba": "tatoeba "}  # of a track


def scores(encoder: Any, data: Path) -> dict[str, float]:
    """Return the score of every track, and of every language of Tatoeba."""
    similarity = score_set(encoder, "stsb", data, part=PART)
    codes = tuple(CODES.values())
    translations = score_set(encoder, "tatoeba", data, languages=codes, part=PART)
    found = dict(similarity["tracks"])
    for language, code in CODES.items():
        found[f"tatoeba {language}"] = translations["tracks"][code]
    return found


def measure(name: str, data: Path) -> dict[str, dict[str, float]]:
    """Return the scores of one encoder with each quantization."""
    encoder, found = load_encoder(name), {}
    with tempfile.TemporaryDirectory() as folder:
        for quantize in QUANTIZATIONS:
            stored = encoder
            if quantize != "float32":
                encoder.save(Path(folder, quantize), quantize=quantize)
                stored = load_encoder(Path(folder, quantize))
            found[quantize] = scores(stored, data)
    return found


def changes(found: dict[str, dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Return, for each quantization and set, the track that changes most, by how much.

    Args:
        found: What `measure` returns.
    """
    before = found["float32"]
    most: dict[str, dict[str, Any]] = {}
    for kind in QUANTIZATIONS[1:]:
        for name, start in STARTS.items():
            tracks = [f"{start}{code}" for code in ("en", *CODES)]
            moved = {it: found[kind][it] - before[it] for it in tracks if it in before}
            track = max(moved, key=lambda it: abs(moved[it]))
            most.setdefault(kind, {})[name] = track, round(moved[track], 1)
    return most


def main() -> None:
    """Score every encoder, print the largest changes, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", nargs="+", help="name or folder")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    found = {name: measure(name, given.data) for name in given.encoder}
    for name, rows in found.items():
        print(name, changes(rows))
    write_json(RESULT, {"part": PART, "encoders": found})


if __name__ == "__main__":
    main()
