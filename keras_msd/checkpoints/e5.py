"""multilingual-e5-small from its packages, and the `E5S1` files that hold its weights.

Such a file holds a BERT body and its word table in 4-bit blocks. It is little-endian: a
header, a tokenizer (skipped here), a directory of tensors, the tensors. A block holds
32 weights of one row in 18 bytes.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checkpoints.packaged import E5, backbone_files
from keras_msd.checkpoints.weights import (
    E5S1_KEYS,
    in_our_layout,
    layer_keys,
    stored_shape,
)
from keras_msd.io.files import read_json
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import EncoderConfig, weight_shapes
from keras_msd.quantize import StoredTable
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, rebuild

BLOCK = 32  # weights: a float16 scale, then two of them in a byte
FLOAT32 = 0  # the type of a tensor; any other is in blocks
SIZES = (
    "hidden_dim",
    "num_layers",
    "num_heads",
    "intermediate_dim",
    "vocabulary_size",
    "max_length",
    "num_types",
)


def load_e5_small(**fields: Any) -> Encoder:
    """Load multilingual-e5-small from its packages.

    The weights are those of intfloat/multilingual-e5-small, rounded to 4 bits; the
    tokenizer is its own, run by SentencePiece, so that blanks around a text do not
    count.

    Args:
        **fields: Fields of `EncoderConfig` in place of the model's own.

    Raises:
        InputError: A package is missing, or a file is not the expected one.

    Source: Wang et al. 2024 (arXiv:2402.05672).
    """
    weights, tokenizer_json = backbone_files(E5)
    settings, arrays = read_four_bits(weights)
    origin = f"`{tokenizer_json}`"
    tokenizer = SentencePieceTokenizer(
        rebuild(read_json(tokenizer_json), origin), origin
    )
    settings |= {
        "pad_id": tokenizer.pad_id,
        "max_positions": settings["max_length"],
        "pooling": "mean",
        "normalize": True,
    }
    encoder = Encoder.from_config(tokenizer, settings | fields, origin=E5)
    encoder.set_weights(arrays, origin=f"`{weights}`")
    return encoder


class _Reader:
    """Takes values off a file's bytes, one after another."""

    def __init__(self, content: bytes) -> None:
        self.content, self.position = content, 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self.content, self.position)
        self.position += struct.calcsize("<" + layout)
        return values


def read_four_bits(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the settings and weights of an `E5S1` file.

    Args:
        path: The file. Its hash has been compared: damage is not looked for.

    Returns:
        Fields of `EncoderConfig` and float32 arrays by weight path.
    """
    reader = _Reader(path.read_bytes())
    reader.take("4sI")  # "E5S1", version 1
    fields: dict[str, Any] = dict(zip(SIZES, reader.take("7i"), strict=True))
    epsilon, _ = reader.take("fi")
    # As a decimal number of seven digits, as the published config.json has it.
    fields["layer_norm_epsilon"] = float(str(np.float32(epsilon)))
    fields |= {"activation": "gelu_erf", "dropout": 0.1, "position_offset": 0}
    _skip_tokenizer(reader)
    entries = {}
    for _ in range(reader.take("i")[0]):
        name = reader.take(f"{reader.take('H')[0]}s")[0].decode()
        entries[name] = reader.take("BIQQ")
    shapes = weight_shapes(EncoderConfig.model_construct(pad_id=0, **fields))
    arrays = {}
    for name, weight in layer_keys(E5S1_KEYS, fields["num_layers"]).items():
        kind, count, offset, _ = entries[name]
        if kind == FLOAT32:
            array = np.frombuffer(reader.content, "<f4", count, offset)
        else:
            array = _from_blocks(reader.content, count // BLOCK, offset)
        shape = shapes[weight]
        array = array.reshape(stored_shape(weight, shape))
        arrays[weight] = in_our_layout(weight, array, shape)
    return fields, arrays


def _skip_tokenizer(reader: _Reader) -> None:
    pieces = reader.take("5i")[0]
    text = reader.take("Q")[0]
    reader.position += 4 * (pieces + 1) + 4 * pieces + text
    rules = reader.take("iI")[0]
    for _ in range(rules):
        count = reader.take("IB")[1]
        reader.position += 4 * count


def _from_blocks(content: bytes, blocks: int, offset: int) -> np.ndarray:
    """Return the weights of `blocks`, float32 `(blocks, 32)`.

    Byte j of a block holds weight j in its low half and weight j + 16 in its high one;
    a weight is the scale times its number less 8.
    """
    stored = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)])
    block = np.frombuffer(content, stored, blocks, offset)
    scales = block["scale"][:, np.newaxis]
    return StoredTable(block["pairs"], scales, BLOCK, bits=4).dequantize()
