"""ONNX that takes strings; onnxruntime-extensions runs its tokenizer."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.export.artefact import Run
from keras_msd.export.onnx.extensions import load_extensions
from keras_msd.export.onnx.files import open_session, require_onnx, save, versions
from keras_msd.export.quantization import SCHEMES
from keras_msd.tokenizers.base import checked_texts

QUANTIZE = ("fp16", "int8", "int4_table", "int4")
TEXT = "text"

HOW_TO_LOAD = """\
import numpy as np
import onnxruntime
import onnxruntime_extensions

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
session = onnxruntime.InferenceSession("FOLDER/model.onnx", options)
text = np.array(["A sentence."], object)
vectors = session.run(["embedding"], {"text": text})[0]  # float32 (n, dim)
"""


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.onnx`: tokenizer, network, pooling, normalisation.

    Input `text`, strings `(batch,)` in UTF-8; output `embedding` float32 `(batch,
    dim)`. Longer texts than `encoder.max_length` tokens are cut as `encoder.encode`
    cuts them. The ids in the file are compared with the tokenizer's own, over the whole
    vocabulary and all of Unicode, before it is written. `onnx_ids.write` says the rest.

    Args:
        encoder: The encoder to write; its tokenizer is unigram or WordPiece.
        path: A folder that does not exist yet.
        quantize: How weights are stored, None or one of `QUANTIZE`.

    Returns:
        Facts for the card; `tokenizer_check` says what was compared.

    Raises:
        InputError: `quantize` is unknown, no operator gives the tokenizer's ids, the
            file would be over 2 GiB, or a package is not installed.
    """
    checks.one_of((None, *QUANTIZE), quantize=quantize)
    require_onnx()
    load_extensions()
    from keras_msd.export.onnx.check import check_ids
    from keras_msd.export.onnx.front import token_ids
    from keras_msd.export.onnx.graph import FLOAT, STRING, Graph
    from keras_msd.export.onnx.network import Network

    compared = check_ids(encoder.tokenizer)
    graph = Graph()
    ids = token_ids(graph, encoder.tokenizer, encoder.max_length, TEXT)
    network = Network(graph, encoder.config, encoder.weights(), SCHEMES[quantize])
    model = graph.model(
        inputs={TEXT: (STRING, ["batch"])},
        outputs={"embedding": (network.embed(*ids), FLOAT, ["batch", encoder.dim])},
    )
    save(model, path)
    return {
        "how_to_load": HOW_TO_LOAD,
        "libraries": versions("onnx", "onnxruntime", "onnxruntime_extensions"),
        "operators": sorted({node.op_type for node in model.graph.node}),
        "opset": model.opset_import[0].version,
        "tokenizer_check": compared,
        "signatures": {
            "inputs": {TEXT: "string[batch]"},
            "output": {"embedding": f"float32[batch, {encoder.dim}]"},
        },
    }


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load `model.onnx` as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write` wrote.
        threads: How many threads onnxruntime may use; by default its own choice.

    Raises:
        InputError: The file is missing, damaged or another model, or a package is not
            installed.
    """
    session = open_session(path, (TEXT,), threads, extensions=True)

    def run(texts: list[str]) -> np.ndarray:
        text = np.array(checked_texts(texts), object)
        return session.run(["embedding"], {TEXT: text})[0]

    return run
