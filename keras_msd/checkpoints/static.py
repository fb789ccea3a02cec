"""Static models: a table of token vectors and their mean, without a transformer.

Folders of model2vec, and the module StaticEmbedding of sentence-transformers.
"""

from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checkpoints.weights import (
    SINGLE,
    check_settings,
    checkpoint_tensors,
)
from keras_msd.checks import InputError
from keras_msd.files import parse_json, read_bytes, read_table
from keras_msd.limits import VOCABULARY
from keras_msd.tensors import FLOATS, INT8, WHOLE
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.tokenizer_json import of_backend, read_backend

MODEL2VEC = "model2vec"
TABLE, TABLE_OF_MODULE = "embeddings", "embedding.weight"
WEIGHTS, MAPPING = "weights", "mapping"
INTEGERS = ("I64", "I32")
LONGEST = 2048  # tokens of a text, where the folder sets no limit
MODEL2VEC_LONGEST = 512  # where its config.json does not say


def is_model2vec(folder: Path) -> bool:
    """Tell whether a folder was written by model2vec.

    Its config.json names no other model, and the table is called `embeddings`.
    """
    path = folder / "config.json"
    if not path.is_file() or not (folder / SINGLE).is_file():
        return False
    kind = read_table(path).get("model_type", MODEL2VEC)
    return kind == MODEL2VEC and TABLE in checkpoint_tensors(folder).shapes


def read_static(
    folder: Path,
) -> tuple[dict[str, Any], dict[str, np.ndarray], Tokenizer]:
    """Read a table of token vectors and its tokenizer.

    A folder of model2vec cuts texts and leaves out unknown tokens as that library does,
    sentence-transformers does neither. A text of over 2,048 tokens is cut there.

    Args:
        folder: Holds tokenizer.json and model.safetensors with `embeddings` `(n, dim)`
            and perhaps `mapping` and `weights` `(vocabulary,)`, as model2vec writes
            them; or with `embedding.weight`, as sentence-transformers does.

    Returns:
        Fields of `EncoderConfig`, float32 arrays by weight path, and the tokenizer.

    Raises:
        InputError: A file is missing, damaged or does not fit the other.
    """
    config = folder / "config.json"
    settings = read_table(config) if is_model2vec(folder) else None
    tokenizer, limit = _tokenizer(folder, settings)
    table = _table(folder)
    if len(table) < tokenizer.vocabulary_size:
        raise InputError(
            f"The table in `{folder / SINGLE}` must have a row for every token of its "
            f"tokenizer, {tokenizer.vocabulary_size}. Received: {len(table)} rows. "
            f"{WHOLE}"
        )
    rows, width = table.shape
    fields = {
        "vocabulary_size": rows,
        "hidden_dim": width,
        "num_layers": 0,
        "num_heads": 1,
        "intermediate_dim": 1,
        "embedding_layer_norm": False,
        "dropout": 0.0,
        "max_length": limit,
        "pad_id": tokenizer.pad_id,
    }
    arrays = {
        "embedding/word": table,
        "embedding/position": np.zeros((limit, width), np.float32),
        "embedding/type": np.zeros((1, width), np.float32),
    }
    return fields, arrays, tokenizer


def _table(folder: Path) -> np.ndarray:
    """Return one row for every token, float32 `(vocabulary, dim)`."""
    files = checkpoint_tensors(folder)
    names = files.shapes.keys()
    known = {TABLE, WEIGHTS, MAPPING} if TABLE in names else {TABLE_OF_MODULE}
    key = TABLE if TABLE in names else TABLE_OF_MODULE
    if odd := sorted(names - known):
        raise InputError(
            f"`{folder / SINGLE}` must hold `{TABLE}`, and perhaps `{WEIGHTS}` and "
            f"`{MAPPING}`; or `{TABLE_OF_MODULE}` alone. Received: `{odd[0]}`. {WHOLE}"
        )
    shape = files.shapes.get(key, ())
    if len(shape) != 2:
        raise InputError(
            f"`{key}` in `{folder / SINGLE}` must be a table (n, dim). Received: the "
            f"shape {shape}. {WHOLE}"
        )
    files.check(key, shape, FLOATS + INT8)
    table = files.read(key)
    if MAPPING in names:
        files.check(MAPPING, (*files.shapes[MAPPING], 0)[:1], INTEGERS)
        rows = files.read(MAPPING).astype(np.int64)
        if rows.min(initial=0) < 0 or rows.max(initial=0) >= len(table):
            raise InputError(
                f"`{MAPPING}` in `{folder / SINGLE}` must name rows of `{TABLE}`, 0 to "
                f"{len(table) - 1}. Received: {rows.min()} to {rows.max()}. {WHOLE}"
            )
        table = table[rows]
    if WEIGHTS in names:
        files.check(WEIGHTS, (len(table),))
        table = table * files.read(WEIGHTS)[:, None]
    return np.ascontiguousarray(table)


def _tokenizer(folder: Path, settings: dict[str, Any] | None) -> tuple[Tokenizer, int]:
    """Return the tokenizer, which adds no special tokens, and the most tokens."""
    path = folder / "tokenizer.json"
    origin = f"`{path}`"
    raw = read_bytes(path, VOCABULARY, WHOLE)
    tokenizer = of_backend(
        read_backend(raw, origin), origin, model2vec=settings is not None
    )
    if settings is None:
        cut = parse_json(raw, origin).get("truncation") or {}
        check_settings(cut, {"direction": "Right"}, path, WHOLE)
        limit = cut.get("max_length", LONGEST)
    else:  # model2vec passes over what the file says of long texts
        limit = settings.get("max_length", MODEL2VEC_LONGEST) or LONGEST
    if not isinstance(limit, int) or limit < 1:
        raise InputError(
            f"The longest text in `{folder}` must be a whole number of tokens. "
            f"Received: {limit!r:.60}. {WHOLE}"
        )
    # An encoder takes two tokens or more.
    return tokenizer, max(2, min(limit, LONGEST))
