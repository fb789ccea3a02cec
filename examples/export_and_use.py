"""Export an encoder as a small LiteRT file, and search an index with only that file.

    python examples/export_and_use.py out/encoder artefact notes.md --query "Wo?"

Needs the extra `litert`. The export compares the artefact with the encoder. The index
is built with the encoder and searched with the artefact, as on a phone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import keras_msd as msd


def main(arguments: Sequence[str] | None = None) -> list[str]:
    """Write artefact and index, and return what was found, the nearest first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", help="a saved encoder")
    parser.add_argument("artefact", type=Path, help="folder for the artefact")
    parser.add_argument("files", nargs="+", help="texts to search")
    parser.add_argument("--query", required=True)
    parser.add_argument("--quantize", default="int8", help="fp16, int8, int4_table ...")
    options = parser.parse_args(arguments)

    encoder = msd.load_encoder(options.encoder)
    encoder.export(options.artefact, format="litert", quantize=options.quantize)
    card = msd.export.read_card(options.artefact)
    cosine = card["parity"]["min_cosine"]
    print(f"{card['bytes']:,} bytes, smallest cosine {cosine:.4f}")

    place = options.artefact.with_suffix(".index")
    index = msd.build_index(encoder, options.files, place)
    artefact = msd.load_encoder(options.artefact)  # runs in LiteRT, not in Keras
    found = index.search(artefact, options.query, top=3)
    for one in found:
        print(f"  {one.cosine:.3f}  {one.file}:{one.line}  {one.text}")
    return [one.text for one in found]


if __name__ == "__main__":
    main()
