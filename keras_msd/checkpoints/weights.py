"""Reading published checkpoints: config.json and safetensors to our fields and weights.

Families: BERT (also multilingual MiniLM, which is a BERT body), RoBERTa, XLM-RoBERTa
and DistilBERT; see `key_tables`.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.checkpoints.key_tables import (
    BUFFERS,
    FAMILIES,
    HEADS,
    Family,
    layer_keys,
    modern_name,
    stored_shape,
    to_own_layout,
)
from keras_msd.checkpoints.tensor_files import TensorFiles
from keras_msd.checks import InputError
from keras_msd.files import read_json

logger = logging.getLogger(__name__)

ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
WORD_TABLE = "embeddings.word_embeddings.weight"
# What every family means when its config.json is silent.
SILENT = {"dropout": 0.1, "layer_norm_epsilon": 1e-12, "num_types": 1}


def read_checkpoint(folder: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a transformer's settings and weights from a folder.

    Every tensor is kept: all position rows and all token types. A family without token
    types gets one row of zeros. Buffers are passed over; an unused pooler or task head
    is named in a log line; any other tensor left over is an error.

    Args:
        folder: Holds config.json and model.safetensors, or its shards and their index.

    Returns:
        Fields of `EncoderConfig` (`pad_id` as config.json has it, `max_length` the
        number of positions) and float32 arrays by weight path.

    Raises:
        InputError: The family or a setting is not supported, a file is damaged, or a
            tensor is missing, unknown or of another shape or type than expected.
    """
    folder = checks.existing_folder(folder, "checkpoint folder")
    settings = read_settings(folder)
    family = FAMILIES[settings["model_type"]]
    fields = _fields(settings, family, folder / "config.json")
    return fields, _arrays(TensorFiles(folder), family, fields)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return config.json of a supported family; `InputError` for any other."""
    path = checks.existing_file(folder / "config.json", "checkpoint's settings")
    settings = read_json(path)
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if kind not in list(FAMILIES):
        raise InputError(
            f"`model_type` in `{path}` must be one of {', '.join(FAMILIES)}. "
            f"Received: {kind!r}. For any other model, give its encode function as a "
            "callable teacher."
        )
    for key, only in {
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    }.items():
        if settings.get(key, only) != only:
            raise InputError(
                f"`{key}` in `{path}` must be {only!r}. Received: {settings[key]!r}. "
                "Give an encoder with absolute positions."
            )
    return settings


def _fields(settings: dict[str, Any], family: Family, path: Path) -> dict[str, Any]:
    def integer(key: str, least: int) -> int:
        value = settings.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(
                f"`{key}` in `{path}` must be a whole number, at least {least}. "
                f"Received: {value!r}. Take a whole copy of the checkpoint."
            )
        return value

    fields: dict[str, Any] = dict(SILENT)
    for name, key in family.settings.items():
        if name == "activation":
            checks.one_of(ACTIVATIONS, **{key: settings.get(key, "gelu")})
            fields[name] = ACTIVATIONS[settings.get(key, "gelu")]
        elif name in ("dropout", "layer_norm_epsilon"):
            fields[name] = settings.get(key, SILENT[name])
        else:
            fields[name] = integer(key, 1)
    checks.divides(
        {family.settings["num_heads"]: fields["num_heads"]},
        {family.settings["hidden_dim"]: fields["hidden_dim"]},
    )
    if settings.get("pad_token_id") is None:
        fields["pad_id"] = family.pad_id
    else:
        fields["pad_id"] = integer("pad_token_id", 0)
    offset = fields["pad_id"] + 1 if family.positions_after_padding else 0
    rows = integer("max_position_embeddings", offset + 2)
    return fields | {"position_offset": offset, "max_length": rows - offset}


def _arrays(
    files: TensorFiles, family: Family, fields: dict[str, Any]
) -> dict[str, np.ndarray]:
    prefix = _prefix(files)
    names = {modern_name(key): key for key in files.shapes}
    wanted = {
        prefix + key: path
        for key, path in layer_keys(family, fields["num_layers"]).items()
    }
    _account_for_the_rest(files, names.keys() - wanted.keys(), prefix)
    # Every shape is compared before the first tensor takes memory.
    for key, path in wanted.items():
        files.check(names.get(key, key), stored_shape(path, fields))
    arrays = {
        path: to_own_layout(path, files.read(names[key]), fields["num_heads"])
        for key, path in wanted.items()
    }
    if "embedding/type" not in arrays:
        arrays["embedding/type"] = np.zeros((1, fields["hidden_dim"]), np.float32)
    return arrays


def _prefix(files: TensorFiles) -> str:
    """Return what stands before the body's keys, such as "roberta." or ""."""
    found = [
        key.removesuffix(WORD_TABLE)
        for key in sorted(files.shapes)
        if key == WORD_TABLE or key.endswith("." + WORD_TABLE)
    ]
    if len(found) != 1:
        raise InputError(
            f"`{files.folder}` must have one tensor `...{WORD_TABLE}`. Received: "
            f"{len(found)} {found}. Give a checkpoint of one encoder."
        )
    return found[0]


def _account_for_the_rest(files: TensorFiles, rest: set[str], prefix: str) -> None:
    unused, unknown = [], []
    for key in sorted(rest):
        name = key.removeprefix(prefix)
        if HEADS.fullmatch(name):
            unused.append(key)
        elif not BUFFERS.fullmatch(name):
            unknown.append(key)
    if unknown:
        raise InputError(
            f"`{files.folder}` holds {len(unknown)} tensors that its family does not "
            f"have, such as `{unknown[0]}`. Check `model_type` and the layer count in "
            "its config.json."
        )
    if unused:
        logger.warning(
            "%s: a pooler or task head is not part of an encoder and stays unused: %s",
            files.folder,
            ", ".join(unused),
        )
