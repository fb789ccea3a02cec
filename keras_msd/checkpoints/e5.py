"""multilingual-e5-small from its packages, and the `E5S1` files that hold its weights.

Such a file holds a BERT body and its word table in 4-bit blocks. It is little-endian: a
header, a tokenizer (skipped here), a directory of tensors, the tensors. A block holds
32 weights of one row in 18 bytes.
"""

import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checkpoints.backbones import E5, backbone_files
from keras_msd.checkpoints.weights import in_our_layout, stored_shape
from keras_msd.checks import InputError, divides, existing_file, placed
from keras_msd.files import read_json
from keras_msd.limits import DEPTH
from keras_msd.models.encoder import Encoder
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, rebuild

MAGIC, VERSION, BLOCK = b"E5S1", 1, 32
BLOCK_BYTES = 2 + BLOCK // 2  # a float16 scale, then two weights in a byte
FLOAT32, FOUR_BITS = 0, 1
WHOLE = "Install its package again."
SIZES = (
    "hidden_dim",
    "num_layers",
    "num_heads",
    "intermediate_dim",
    "vocabulary_size",
    "max_length",
    "num_types",
)
TABLES = {"word": "word", "pos": "position", "type": "type"}
LAYER = {
    "q": "self_attention_layer/query",
    "k": "self_attention_layer/key",
    "v": "self_attention_layer/value",
    "ao": "self_attention_layer/attention_output",
    "aln": "self_attention_layer_norm",
    "fi": "feedforward_intermediate_dense",
    "fo": "feedforward_output_dense",
    "oln": "feedforward_layer_norm",
}


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

    def __init__(self, path: Path) -> None:
        self.path, self.content, self.position = path, path.read_bytes(), 0

    def take(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + layout)
        return struct.unpack("<" + layout, self.bytes(size))

    def bytes(self, size: int) -> bytes:
        start = self.position
        self.skip(size)
        return self.content[start : self.position]

    def skip(self, size: int) -> None:
        self.position += size
        if size < 0 or self.position > len(self.content):
            raise self.error(f"whole, and has {len(self.content):,} bytes")

    def error(self, finding: str) -> InputError:
        return InputError(f"`{self.path}` is not {finding}. {WHOLE}")


def read_four_bits(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the settings and weights of an `E5S1` file.

    Args:
        path: The file.

    Returns:
        Fields of `EncoderConfig` and float32 arrays by weight path.

    Raises:
        InputError: The file is missing, cut short, of another version, or its tensors
            are not those of the network that its header describes.
    """
    reader = _Reader(existing_file(path))
    magic, version = reader.bytes(4), reader.take("I")[0]
    if (magic, version) != (MAGIC, VERSION):
        raise reader.error(
            f"an E5S1 file of version {VERSION}: it begins with {magic!r}, {version}"
        )
    fields: dict[str, Any] = dict(zip(SIZES, reader.take("7i"), strict=True))
    (epsilon,), (block,) = reader.take("f"), reader.take("i")
    if min(fields.values()) < 1 or not 0 < epsilon < 1 or block != BLOCK:
        raise reader.error(f"a network: its sizes are {fields}, {epsilon}, {block}")
    DEPTH.check(fields["num_layers"], f"`{reader.path}`", WHOLE)
    with placed(reader.path):
        divides({"heads": fields["num_heads"]}, {"hidden": fields["hidden_dim"]})
    # As a decimal number of seven digits, as the published config.json has it.
    fields["layer_norm_epsilon"] = float(str(np.float32(epsilon)))
    fields |= {"activation": "gelu_erf", "dropout": 0.1, "position_offset": 0}
    _skip_tokenizer(reader)
    expected = _weight_paths(fields["num_layers"])
    entries = dict(_entry(reader) for _ in range(reader.take("i")[0]))
    if entries.keys() != expected.keys():
        other = sorted(entries.keys() ^ expected.keys())
        raise reader.error(f"a BERT body: `{other[0]}` is unknown or missing")
    arrays = {}
    for name, weight in expected.items():
        array = _tensor(reader, name, entries[name], stored_shape(weight, fields))
        arrays[weight] = in_our_layout(weight, array, fields["num_heads"])
    return fields, arrays


def _skip_tokenizer(reader: _Reader) -> None:
    pieces = reader.take("5i")[0]
    text = reader.take("Q")[0]
    reader.skip(4 * (pieces + 1) + 4 * pieces + text)
    rules = reader.take("iI")[0]
    for _ in range(rules):
        count = reader.take("IB")[1]
        reader.skip(4 * count)


def _entry(reader: _Reader) -> tuple[str, tuple[int, ...]]:
    """Return a tensor's name, and its type, count, offset and bytes."""
    name = reader.bytes(reader.take("H")[0])
    return name.decode("ascii", "replace"), reader.take("BIQQ")


def _weight_paths(num_layers: int) -> dict[str, str]:
    """Return a tensor's name -> the path of our weight."""
    paths = {f"emb.{short}": f"embedding/{name}" for short, name in TABLES.items()}
    norms = {"emb.ln": "embedding/layer_norm"}
    for i in range(num_layers):
        for short, name in LAYER.items():
            place, weight = f"l{i}.{short}", f"body/block_{i}/{name}"
            if short.endswith("ln"):
                norms[place] = weight
            else:
                paths |= {
                    f"{place}.w": f"{weight}/kernel",
                    f"{place}.b": f"{weight}/bias",
                }
    for place, weight in norms.items():
        paths |= {f"{place}.w": f"{weight}/gamma", f"{place}.b": f"{weight}/beta"}
    return paths


def _tensor(
    reader: _Reader, name: str, entry: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    kind, count, offset, size = entry
    sizes = {FLOAT32: 4 * count, FOUR_BITS: count // BLOCK * BLOCK_BYTES}
    blocks = kind == FLOAT32 or shape[-1] % BLOCK == 0
    if size != sizes.get(kind) or count != prod(shape) or not blocks:
        raise reader.error(
            f"a network of the sizes in its header: `{name}` must be {shape}, and has "
            f"type {kind}, {count:,} numbers, {size:,} bytes"
        )
    if offset + size > len(reader.content):
        raise reader.error(
            f"whole: `{name}` ends after its {len(reader.content):,} bytes"
        )
    if kind == FLOAT32:
        array = np.frombuffer(reader.content, "<f4", count, offset)
    else:
        array = _from_blocks(reader.content, count // BLOCK, offset)
    if not np.isfinite(array).all():
        raise reader.error(f"finite: `{name}` holds NaN or infinity")
    return array.reshape(shape)


def _from_blocks(content: bytes, blocks: int, offset: int) -> np.ndarray:
    """Return the weights of `blocks`, float32 `(blocks, 32)`.

    Byte j of a block holds weight j in its low half and weight j + 16 in its high one;
    a weight is the scale times its number less 8.
    """
    stored = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)])
    block = np.frombuffer(content, stored, blocks, offset)
    weights = np.empty((blocks, BLOCK), np.float32)
    weights[:, : BLOCK // 2] = block["pairs"] & 15
    weights[:, BLOCK // 2 :] = block["pairs"] >> 4
    weights -= 8
    weights *= block["scale"].astype(np.float32)[:, None]
    return weights
