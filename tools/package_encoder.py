"""Put a trained encoder into its package, in int8, and its SHA-256 into the library.

python tools/package_encoder.py runs/tiny12/assistant
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from keras_msd import InputError, load_encoder
from keras_msd.checkpoints import packaged
from keras_msd.files import read_table, write_json

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> Path:
    """Write the encoder's folder and the library's table; return the folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("encoder", help="its folder")
    parser.add_argument("--name", default="tiny12", help="in packaged.json")
    parser.add_argument("--packages", type=Path, default=ROOT / "packages")
    options = parser.parse_args(arguments)
    table = read_table(packaged.TABLE)
    if options.name not in table:
        raise InputError(f"`{packaged.TABLE}` has no `{options.name}`. Add it.")
    folder = options.packages / options.name / table[options.name]["module"] / "encoder"
    load_encoder(options.encoder).save(folder, quantize="int8")
    table[options.name]["sha256"] = packaged.files_sha256(folder)
    write_json(packaged.TABLE, table)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size:,} bytes")
    return folder


if __name__ == "__main__":
    main()
