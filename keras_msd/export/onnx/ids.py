"""ONNX that takes token ids; the tokenizer's description travels in the file."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.data.padding import pad_batch
from keras_msd.export.artefact import Run
from keras_msd.export.onnx.files import FILE, open_session, require_onnx, save, versions
from keras_msd.export.portable import copy_reader, describe, load_portable
from keras_msd.export.quantization import SCHEMES

QUANTIZE = ("fp16", "int8", "int4_table", "int4")
IDS = ("token_ids", "padding_mask")
TOKENIZER = "tokenizer"  # metadata: the portable description of the tokenizer

HOW_TO_LOAD = """\
import sys

import numpy as np
import onnxruntime

sys.path.append("FOLDER")
from portable_tokenizer import PortableTokenizer  # a file of this folder

session = onnxruntime.InferenceSession("FOLDER/model.onnx")
description = session.get_modelmeta().custom_metadata_map["tokenizer"]
rows = PortableTokenizer(description.encode()).encode(["A sentence."])
token_ids = np.array(rows, np.int32)  # rows of one length; pad others at the right
inputs = {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)}
vectors = session.run(["embedding"], inputs)[0]  # float32 (n, dim)
"""


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.onnx`: network, pooling and normalisation.

    Inputs `token_ids`, `padding_mask` (1 on real tokens) int32 `(batch, length)`,
    padded at the right, at most `encoder.max_length` long; output `embedding` float32
    `(batch, dim)`. A tensor that several layers use is in the file once, and the same
    encoder gives the same bytes.

    With "fp16" arithmetic is float32. The other quantisations multiply in int8 by
    onnxruntime's own operator, MatMulNBits, and run in onnxruntime only: blocks of a
    kernel's columns and of each token's inputs have scales of their own. (The standard
    MatMulInteger has one scale for the inputs of a whole batch. It is faster, but makes
    a vector depend on its batch, and loses too much on bodies like MiniLM's.)

    Args:
        encoder: The encoder to write.
        path: A folder that does not exist yet.
        quantize: How weights are stored, None or one of `QUANTIZE`.

    Returns:
        Facts for the card.

    Raises:
        InputError: `quantize` is unknown, the tokenizer has no portable description,
            the file would be over 2 GiB, or a package is not installed.
    """
    checks.one_of((None, *QUANTIZE), quantize=quantize)
    require_onnx()
    from keras_msd.export.onnx.graph import FLOAT, INT32, Graph
    from keras_msd.export.onnx.network import Network

    description = describe(encoder.tokenizer, encoder.max_length)
    graph = Graph()
    network = Network(graph, encoder.config, encoder.weights(), SCHEMES[quantize])
    model = graph.model(
        inputs=dict.fromkeys(IDS, (INT32, ["batch", "length"])),
        outputs={"embedding": (network.embed(*IDS), FLOAT, ["batch", encoder.dim])},
        metadata={TOKENIZER: description.decode()},
    )
    save(model, path)
    copy_reader(path)
    return {
        "how_to_load": HOW_TO_LOAD,
        "libraries": versions("onnx", "onnxruntime"),
        "operators": sorted({node.op_type for node in model.graph.node}),
        "opset": model.opset_import[0].version,
        "signatures": {
            "inputs": dict.fromkeys(IDS, "int32[batch, length]"),
            "output": {"embedding": f"float32[batch, {encoder.dim}]"},
        },
    }


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load `model.onnx` as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write` wrote.
        threads: How many threads onnxruntime may use; by default its own choice.

    Raises:
        InputError: The file is missing, damaged or another model, or onnxruntime is
            not installed.
    """
    session = open_session(path, IDS, threads)
    metadata = session.get_modelmeta().custom_metadata_map
    if TOKENIZER not in metadata:
        raise InputError(
            f"`{Path(path) / FILE}` must carry its tokenizer as the metadata "
            f"{TOKENIZER!r} and does not. Export the encoder again."
        )
    tokenizer = load_portable(metadata[TOKENIZER].encode())

    def run(texts: list[str]) -> np.ndarray:
        rows = tokenizer.encode(texts)
        batch = pad_batch(rows, tokenizer.pad_id, tokenizer.max_length, multiple=1)
        return session.run(["embedding"], batch)[0]

    return run
