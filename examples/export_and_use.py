"""Export an encoder as a small LiteRT file, and search the lines of a text with it.

    python examples/export_and_use.py out/encoder artefact notes.md --query "Wo?"

Needs the extra `litert`. The export compares the artefact with the encoder. The search
runs in LiteRT, as on a phone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import keras_msd as msd


def main(arguments: Sequence[str] | None = None) -> list[str]:
    """Write the artefact, and return the lines that it finds, the nearest first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", help="a saved encoder")
    parser.add_argument("artefact", type=Path, help="folder for the artefact")
    parser.add_argument("file", type=Path, help="a text to search, UTF-8")
    parser.add_argument("--query", required=True)
    parser.add_argument("--quantize", default="int8", help="fp16, int8, int4_table ...")
    options = parser.parse_args(arguments)

    encoder = msd.load_encoder(options.encoder)
    encoder.export(options.artefact, format="litert", quantize=options.quantize)
    card = msd.export.read_card(options.artefact)
    cosine = card["parity"]["min_cosine"]
    print(f"{card['bytes']:,} bytes, smallest cosine {cosine:.4f}")

    lines = options.file.read_text(encoding="utf-8").splitlines()
    sentences = [line for line in lines if line.strip()]
    artefact = msd.load_encoder(options.artefact)  # runs in LiteRT, not in Keras
    found = msd.search(artefact, options.query, sentences, top=3)
    for match in found:
        print(f"  {match.cosine:.3f}  {match.sentence}")
    return [match.sentence for match in found]


if __name__ == "__main__":
    main()
