"""The formats `onnx`, which takes token ids, and `onnx_text`, which takes strings.

An `onnx` file carries the tokenizer's description as metadata; in an `onnx_text` file
operators of onnxruntime-extensions are the tokenizer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_msd.arrays import pad_batch
from keras_msd.checks import InputError, explained, sentences
from keras_msd.export.formats import SCHEMES, Run
from keras_msd.export.onnx.files import (
    FILE,
    facts_of,
    load_extensions,
    open_session,
    require_onnx,
    save,
)
from keras_msd.export.portable import TokenRun, copy_reader, describe, load_portable

if TYPE_CHECKING:
    import onnx

    from keras_msd.export.onnx.network import Graph

IDS, TEXT, OUTPUT = ("token_ids", "padding_mask"), "text", "embedding"
TOKENIZER = "tokenizer"  # metadata: the portable description of the tokenizer


def write_ids(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
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
        quantize: How weights are stored, None or a key of `SCHEMES`.

    Returns:
        Facts for the card.

    Raises:
        InputError: The tokenizer has no portable description, the file would be over 2
            GiB, or a package is not installed.
    """
    require_onnx()
    from keras_msd.export.onnx.network import INT32, Graph

    description = describe(encoder.tokenizer, encoder.max_length).decode()
    inputs = dict.fromkeys(IDS, (INT32, ["batch", "length"]))
    model = _model(Graph(), encoder, quantize, inputs, IDS)
    model.metadata_props.add(key=TOKENIZER, value=description)
    save(model, path)
    copy_reader(path)
    return facts_of(model)


def write_text(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.onnx`: tokenizer, network, pooling, normalisation.

    Input `text`, strings `(batch,)` in UTF-8; output `embedding` float32 `(batch,
    dim)`. Longer texts than `encoder.max_length` tokens are cut as `encoder.encode`
    cuts them. The ids in the file are compared with the tokenizer's own, over the whole
    vocabulary and all of Unicode, before it is written. `write_ids` says the rest.

    Args:
        encoder: The encoder to write; its tokenizer is SentencePiece unigram.
        path: A folder that does not exist yet.
        quantize: How weights are stored, None or a key of `SCHEMES`.

    Returns:
        Facts for the card; `tokenizer_check` says what was compared.

    Raises:
        InputError: No operator gives the tokenizer's ids, the file would be over 2 GiB,
            or a package is not installed.
    """
    require_onnx()
    load_extensions()
    from keras_msd.export.onnx.network import STRING, Graph
    from keras_msd.export.onnx.tokenizer import check_ids, token_ids

    compared = check_ids(encoder.tokenizer)
    graph = Graph()
    ids = token_ids(graph, encoder.tokenizer, encoder.max_length, TEXT)
    model = _model(graph, encoder, quantize, {TEXT: (STRING, ["batch"])}, ids)
    save(model, path)
    return facts_of(model) | {"tokenizer_check": compared}


def load_ids(path: str | Path, threads: int | None = None) -> Run:
    """Load `model.onnx` as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write_ids` wrote.
        threads: How many threads onnxruntime may use; by default its own choice.

    Raises:
        InputError: The file is missing, damaged or another model, or onnxruntime is
            not installed.
    """
    session = open_session(path, IDS, threads)
    foreign = f"The metadata of `{Path(path) / FILE}` must be UTF-8. Export it again."
    with explained(foreign, UnicodeDecodeError):
        metadata = session.get_modelmeta().custom_metadata_map
    if TOKENIZER not in metadata:
        raise InputError(
            f"`{Path(path) / FILE}` must carry its tokenizer as the metadata "
            f"{TOKENIZER!r} and does not. Export the encoder again."
        )
    tokenizer = load_portable(metadata[TOKENIZER].encode(), f"`{Path(path) / FILE}`")

    def embed(rows: list[list[int]]) -> np.ndarray:
        batch = pad_batch(rows, tokenizer.pad_id, tokenizer.max_length, multiple=1)
        return session.run([OUTPUT], batch)[0]

    return TokenRun(tokenizer, embed)


def load_text(path: str | Path, threads: int | None = None) -> Run:
    """Load what `write_text` wrote; arguments and errors as for `load_ids`."""
    session = open_session(path, (TEXT,), threads, extensions=True)

    def run(texts: list[str]) -> np.ndarray:
        # The operator ends a text at NUL. Like it, the replacement is in no vocabulary.
        whole = [text.replace("\0", "\uffff") for text in sentences(texts)]
        return session.run([OUTPUT], {TEXT: np.array(whole, object)})[0]

    return run


def _model(
    graph: "Graph",
    encoder: Any,
    quantize: str | None,
    inputs: Mapping[str, tuple[int, list[Any]]],
    ids: tuple[str, str],
) -> "onnx.ModelProto":
    """Append the network to a graph that has made `token_ids` and `padding_mask`."""
    from keras_msd.export.onnx.network import FLOAT, append_network

    _, vector = append_network(graph, encoder, SCHEMES[quantize], *ids)
    return graph.model(inputs, {OUTPUT: (vector, FLOAT, ["batch", encoder.dim])})
