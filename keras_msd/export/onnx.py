"""The formats `onnx`, which takes token ids, and `onnx_text`, which takes strings.

An `onnx` file carries the tokenizer's description as metadata; in an `onnx_text` file
operators of onnxruntime-extensions are the tokenizer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_msd.checks import InputError
from keras_msd.export.onnx_files import (
    FILE,
    IDS,
    OPSET,
    OUTPUT,
    TEXT,
    TOKENIZER,
    load_extensions,
    require_onnx,
)
from keras_msd.export.portable import copy_reader, describe
from keras_msd.quantize.schemes import SCHEMES

if TYPE_CHECKING:
    import onnx

    from keras_msd.export.onnx_network import Graph

LARGEST = 2**31 - 1  # bytes in a protocol buffer


def write_ids(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.onnx`: network, pooling and normalisation.

    Inputs `token_ids`, `padding_mask` (1 on real tokens) int32 `(batch, length)`,
    padded at the right, at most `encoder.max_length` long; output `embedding` float32
    `(batch, dim)`. A tensor that several layers use is in the file once, and the same
    encoder gives the same bytes.

    With "fp16" arithmetic is float32. With the other quantizations it is that of the
    standard operator MatMulInteger, 8 bits times 8 bits. Each token's inputs have a
    scale of their own, so that a vector does not depend on its batch, as it does with
    onnxruntime's dynamic quantization.

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
    from keras_msd.export.onnx_network import INT32, Graph

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
    from keras_msd.export.onnx_network import STRING, Graph
    from keras_msd.export.onnx_tokenizer import check_ids, token_ids

    compared = check_ids(encoder.tokenizer)
    graph = Graph()
    ids = token_ids(graph, encoder.tokenizer, encoder.max_length, TEXT)
    model = _model(graph, encoder, quantize, {TEXT: (STRING, ["batch"])}, ids)
    save(model, path)
    return facts_of(model) | {"tokenizer_check": compared}


def _model(
    graph: "Graph",
    encoder: Any,
    quantize: str | None,
    inputs: Mapping[str, tuple[int, list[Any]]],
    ids: tuple[str, str],
) -> "onnx.ModelProto":
    """Append the network to a graph that has made `token_ids` and `padding_mask`."""
    from keras_msd.export.onnx_network import FLOAT, append_network

    _, vector = append_network(graph, encoder, SCHEMES[quantize], *ids)
    return graph.model(inputs, {OUTPUT: (vector, FLOAT, ["batch", encoder.dim])})


def facts_of(model: "onnx.ModelProto") -> dict[str, Any]:
    """Return what a card says of a model."""
    operators = sorted({node.op_type for node in model.graph.node})
    return {"opset": OPSET, "min_onnxruntime": "1.23", "operators": operators}


def save(model: "onnx.ModelProto", folder: Path, name: str = FILE) -> None:
    """Check a model and write it as a file; the same model gives the same bytes.

    Raises:
        InputError: It is larger than an ONNX file may be.
    """
    import onnx

    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size > LARGEST:
        raise InputError(
            f"An ONNX file must be smaller than {LARGEST} bytes. Received: weights of "
            f"{size} bytes. Give quantize='fp16' or 'int8', or trim the vocabulary."
        )
    onnx.checker.check_model(model, full_check=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(model.SerializeToString(deterministic=True))
