"""Write the package of a trained encoder, and its SHA-256 into the library.

python tools/package_encoder.py runs/tiny12/assistant

The package holds the encoder. With a bag of words comes `light.py`, which runs it on
NumPy and SentencePiece; an encoder with layers needs keras-msd. The package's README.md
is written by hand.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_msd import InputError, light, load_encoder
from keras_msd.checkpoints import packaged
from keras_msd.io.files import read_table, write_json

ROOT = Path(__file__).resolve().parents[1]

BAG_OF_WORDS = '''"""The sentence encoder {name}: `load().encode(["A text."])`."""

from pathlib import Path

from {module}.light import LightEncoder

FOLDER = Path(__file__).with_name("encoder")


def load() -> LightEncoder:
    """Load the encoder, which needs neither Keras nor TensorFlow.

    `keras_msd.load_encoder("{name}")` gives one that can be trained and exported.
    """
    return LightEncoder(FOLDER)
'''

LAYERS = '''"""The sentence encoder {name}: `keras_msd.load_encoder("{name}")`."""

from pathlib import Path

FOLDER = Path(__file__).with_name("encoder")
'''

PYPROJECT = """# Written by tools/package_encoder.py.
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "keras-msd-{name}"
version = "0.1.0"
description = "{name}, a small sentence encoder for {languages} languages"
readme = "README.md"
license = "Apache-2.0"
requires-python = ">=3.11"
keywords = ["sentence embeddings", "multilingual"]
classifiers = [
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: OS Independent",
    "Programming Language :: Python :: 3",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
]
dependencies = [{dependencies}]

[tool.setuptools]
packages = ["{module}"]

[tool.setuptools.package-data]
{module} = ["encoder/*", "encoder/tokenizer/*"]
"""


def main(arguments: Sequence[str] | None = None) -> Path:
    """Write the package and the library's table; return the encoder's folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("encoder", help="its folder")
    parser.add_argument("--name", default="tiny12", help="in packaged.json")
    parser.add_argument("--quantize", default="int8", help="or int4_table, int4")
    parser.add_argument("--packages", type=Path, default=ROOT / "packages")
    options = parser.parse_args(arguments)
    table = read_table(packaged.TABLE)
    if options.name not in table:
        raise InputError(f"`{packaged.TABLE}` has no `{options.name}`. Add it.")
    record = table[options.name]
    encoder = load_encoder(options.encoder)
    if encoder.tokenizer.kind != "unigram":
        raise InputError(
            "A packaged encoder must have a unigram tokenizer, which SentencePiece "
            f"runs. Received: {encoder.tokenizer.kind}. Train a student with one."
        )
    package = options.packages / options.name
    folder = package / record["module"] / "encoder"
    encoder.save(folder, quantize=options.quantize)
    write_code(package, options.name, record, encoder)
    record["sha256"] = packaged.files_sha256(folder)
    write_json(packaged.TABLE, table)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size:,} bytes")
    return folder


def write_code(package: Path, name: str, record: dict[str, Any], encoder: Any) -> None:
    """Write what is around the encoder's folder, but for README.md."""
    module, layers = package / record["module"], encoder.config.num_layers
    fields = {"name": name, "module": record["module"]}
    fields["dependencies"] = (
        '"keras-msd"' if layers else '"numpy>=1.26", "sentencepiece>=0.2.0"'
    )
    content = (LAYERS if layers else BAG_OF_WORDS).format(**fields)
    (module / "__init__.py").write_text(content, encoding="utf-8")
    if not layers:
        shutil.copyfile(Path(light.__file__), module / "light.py")
        light.LightEncoder(module / "encoder")  # an error unless it can run it
    fields["languages"] = str(len(record["card"]["languages"]))
    content = PYPROJECT.format(**fields)
    (package / "pyproject.toml").write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
