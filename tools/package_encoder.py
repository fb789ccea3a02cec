"""Write a Python package of a trained encoder that runs without Keras and TensorFlow.

    python tools/package_encoder.py runs/mine/student --module my_encoder --out mine
    pip install ./mine
    python -c "from my_encoder import load; print(load().encode(['A text.']).shape)"

The package holds the encoder's folder and `light.py`, which runs it: a bag of words on
NumPy and SentencePiece; an encoder with layers on onnxruntime, with `network.onnx`, a
graph without weights. Its vectors are compared with the encoder's. The tokenizer must
be a SentencePiece unigram vocabulary, and the encoder have no prompts.

    python tools/package_encoder.py runs/tiny12/assistant --name tiny12

With `--name` it writes packages/NAME of this repository, whose README.md is written by
hand, and the SHA-256 of the encoder's files into the library's table.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from onnx import helper

from keras_msd import InputError, light, load_encoder
from keras_msd.checkpoints import packaged
from keras_msd.export.onnx import FLOAT, INT32, Graph, append_network
from keras_msd.export.onnx_files import IDS, OUTPUT
from keras_msd.export.proof import proof_sentences, row_cosines
from keras_msd.io.files import digest, read_table, write_json
from keras_msd.models.network import WORD
from keras_msd.quantize import FULL, SCHEMES

ROOT = Path(__file__).resolve().parents[1]
LEAST_COSINE = 0.9999
FLOAT_ARITHMETIC = 1  # MatMulNBits' name for it; with int8 vectors would differ

INIT = '''"""A sentence encoder: `load().encode(["A text."])`."""

from pathlib import Path

from {module}.light import LightEncoder

FOLDER = Path(__file__).with_name("encoder")


def load() -> LightEncoder:
    """Load the encoder, which needs neither Keras nor TensorFlow.

    `keras_msd.load_encoder({source})` gives one that can be trained and exported.
    """
    return LightEncoder(FOLDER)
'''

PYPROJECT = """# Written by tools/package_encoder.py.
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{project}"
version = "{version}"
description = "{description}"
{about}requires-python = ">=3.11"
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
{module} = ["*.onnx", "encoder/*", "encoder/tokenizer/*"]
"""
OURS = """readme = "README.md"
license = "Apache-2.0"
"""
BAG_OF_WORDS = ["numpy>=1.26", "sentencepiece>=0.2.0"]
# 1.23 is the first onnxruntime with the attention operator of opset 23.
LAYERS = ["numpy>=1.26", "onnxruntime>=1.23", "sentencepiece>=0.2.0"]


def main(arguments: Sequence[str] | None = None) -> Path:
    """Write the package, and the library's table; return the encoder's folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", help="what load_encoder takes")
    parser.add_argument("--module", help="name of the module that is written")
    parser.add_argument("--out", type=Path, help="folder of the package")
    parser.add_argument("--version", default="0.2.0")
    parser.add_argument("--quantize", default="int8", help="or int4_table, int4")
    parser.add_argument("--name", help="of one of the library's own, in packaged.json")
    parser.add_argument("--packages", type=Path, default=ROOT / "packages")
    options = parser.parse_args(arguments)
    table, name = read_table(packaged.TABLE), options.name
    if not (name or (options.module and options.out)):
        raise InputError("Give --module and --out, or --name for one of the library's.")
    if name and name not in table:
        raise InputError(f"`{packaged.TABLE}` has no `{name}`. Add it.")
    record = table[name] if name else {"module": options.module}
    if not str(record["module"]).isidentifier():
        raise InputError(
            f"`--module` must be a Python name. Received: {record['module']!r}. Use "
            "letters, digits and `_`."
        )
    encoder = load_encoder(options.encoder)
    if getattr(encoder, "tokenizer", None) is None or any(encoder.prompts.values()):
        raise InputError(
            "A package holds an encoder without prompts, not an artefact. Received: "
            f"`{options.encoder}`. Load it with `prompts={{}}`, and save it."
        )
    if encoder.tokenizer.kind != "unigram":
        raise InputError(
            "A packaged encoder must have a unigram tokenizer, which SentencePiece "
            f"runs. Received: {encoder.tokenizer.kind}. Train a student with one."
        )
    package = options.packages / name if name else options.out
    module = package / record["module"]
    encoder.save(module / "encoder", quantize=options.quantize)
    languages = len(record["card"]["languages"]) if name else 0
    fields = {
        "module": record["module"],
        "source": f'"{name}"' if name else "FOLDER",
        "project": f"keras-msd-{name}" if name else package.name.replace("_", "-"),
        "version": options.version,
        "description": f"{name}, a small sentence encoder for {languages} languages"
        if name
        else "A sentence encoder",
        "about": OURS if name else "",
    }
    write_code(package, module, encoder.config.num_layers, options.quantize, fields)
    check_vectors(module)
    if name:
        record["sha256"] = packaged.files_sha256(module / "encoder")
        write_json(packaged.TABLE, table)
    size = sum(path.stat().st_size for path in module.rglob("*") if path.is_file())
    print(f"{module}: {size:,} bytes")
    return module / "encoder"


def write_code(
    package: Path, module: Path, layers: int, quantize: str, fields: dict[str, str]
) -> None:
    """Write what is around the encoder's folder, but for README.md."""
    needed = LAYERS if layers else BAG_OF_WORDS
    dependencies = ", ".join(f'"{package}"' for package in needed)
    init = INIT.format(**fields)
    (module / "__init__.py").write_text(init, encoding="utf-8")
    shutil.copyfile(Path(light.__file__), module / "light.py")
    if layers:
        write_network(load_encoder(module / "encoder"), quantize, module)
    content = PYPROJECT.format(**fields, dependencies=dependencies)
    (package / "pyproject.toml").write_text(content, encoding="utf-8")


def write_network(encoder: Any, quantize: str, module: Path) -> None:
    """Write the ONNX graph of an encoder, whose weights `light.py` fills in.

    Args:
        encoder: Of the package.
        quantize: How its folder is stored; the graph takes the word table so.
        module: Where `network.onnx` goes.
    """
    folder = light.weights_of(module / "encoder")
    # Each weight gets numbers of its own, by which its place in the graph is found.
    draw = np.random.default_rng(0)
    weights = {
        path: value if path == WORD else draw.random(value.shape, np.float32)
        for path, value in encoder.weights().items()
    }
    scheme = FULL._replace(table=SCHEMES[quantize].table)
    stored = weights | {path: folder[path] for path in folder if path.startswith(WORD)}
    graph, fake = Graph(), SimpleNamespace(config=encoder.config)
    fake.weights = lambda: dict(weights)
    _, vector = append_network(graph, fake, scheme, *IDS)
    model = graph.model(
        dict.fromkeys(IDS, (INT32, ["batch", "length"])),
        {OUTPUT: (vector, FLOAT, ["batch", encoder.dim])},
    )
    given = light.network_weights(encoder.config.model_dump(), stored)
    paths = {digest(array.tobytes()): path for path, array in given.items()}
    # The graph's table has zeros for padding, so it is known by its shape.
    table = {
        (*given[path].shape, helper.np_dtype_to_tensor_dtype(given[path].dtype)): path
        for path in given
        if path.startswith(WORD)
    }
    names = {}
    for tensor in model.graph.initializer:
        path = paths.get(digest(tensor.raw_data))
        path = path or table.get((*tensor.dims, tensor.data_type))
        if path:
            names[tensor.name] = path
            tensor.name = path
            tensor.ClearField("raw_data")
            tensor.data_location = tensor.EXTERNAL
            tensor.external_data.add(key="location", value="the encoder's folder")
    if lost := sorted(given.keys() - names.values()):
        raise InputError(f"The graph has no place for {', '.join(lost)}.")
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    if light.has_four_bits(folder):
        in_four_bits(model, light.network_weights(encoder.config.model_dump(), folder))
    (module / light.NETWORK).write_bytes(model.SerializeToString(deterministic=True))


def in_four_bits(model: Any, given: dict[str, np.ndarray]) -> None:
    """Let a graph multiply by kernels as `light.network_weights` gives those in 4 bits.

    Args:
        model: Its products are with float32 kernels, which have their paths as names.
        given: The weights of the package, by their paths.
    """
    kernels = {path for path, it in given.items() if it.dtype == np.uint8} - {WORD}
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in kernels:
            continue
        outputs, blocks, half = given[node.input[1]].shape
        size = {"K": 2 * blocks * half, "N": outputs, "block_size": 2 * half, "bits": 4}
        product = helper.make_node(
            "MatMulNBits",
            [*node.input, f"{node.input[1]}{light.SCALES}"],
            node.output,
            node.name,
            domain="com.microsoft",
            accuracy_level=FLOAT_ARITHMETIC,
            **size,
        )
        node.CopyFrom(product)
    for tensor in list(model.graph.initializer):
        if tensor.name not in kernels:
            continue
        for path in (tensor.name, f"{tensor.name}{light.SCALES}"):
            made = model.graph.initializer.add()
            made.CopyFrom(tensor)
            made.name, array = path, given[path]
            made.dims[:] = array.shape
            made.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.initializer.remove(tensor)


def check_vectors(module: Path) -> None:
    """Raise `InputError` unless the package gives the vectors of its encoder."""
    texts = proof_sentences()
    expected = load_encoder(module / "encoder").encode(texts)
    found = light.LightEncoder(module / "encoder").encode(texts)
    least = float(row_cosines(expected, found).min())
    print(f"smallest cosine with keras-msd on {len(texts)} texts: {least:.7f}")
    if not least >= LEAST_COSINE:
        raise InputError(
            f"The package must give the encoder's vectors to cosine {LEAST_COSINE}. "
            f"Received: {least:.6f}. Compare the versions of the libraries."
        )


if __name__ == "__main__":
    main()
