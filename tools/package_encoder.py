"""Put a trained encoder into its package, in int8, and its SHA-256 into the library.

python tools/package_encoder.py runs/tiny12/assistant
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from keras_msd import InputError, load_encoder
from keras_msd.checkpoints import packaged
from keras_msd.files import atomic_path, read_toml

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> Path:
    """Write the encoder's folder and the library's table; return the folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("encoder", help="its folder")
    parser.add_argument("--name", default="tiny12", help="in packaged.toml")
    parser.add_argument("--packages", type=Path, default=ROOT / "packages")
    options = parser.parse_args(arguments)
    known = read_toml(packaged.TABLE)
    if options.name not in known:
        raise InputError(f"`{packaged.TABLE}` has no table [{options.name}]. Add it.")
    folder = options.packages / options.name / known[options.name]["module"] / "encoder"
    load_encoder(options.encoder).save(folder, quantize="int8")
    write_sha256(options.name, packaged.files_sha256(folder))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size:,} bytes")
    return folder


def write_sha256(name: str, sha256: str) -> None:
    """Write what a packaged encoder's files have into the library's table."""
    text = packaged.TABLE.read_text(encoding="utf-8")
    line = rf'(^\[{re.escape(name)}\]\n(?:(?!\[).*\n)*?sha256 = ")[^"]*'
    text, count = re.subn(line, rf"\g<1>{sha256}", text, flags=re.MULTILINE)
    if count != 1:
        raise InputError(f"[{name}] in `{packaged.TABLE}` has no `sha256`. Add it.")
    with atomic_path(packaged.TABLE) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
