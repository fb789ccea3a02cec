"""Reading published checkpoints: config.json and safetensors to our fields and weights.

Families: BERT (also multilingual MiniLM, which is a BERT body), RoBERTa, XLM-RoBERTa,
CamemBERT (a RoBERTa) and DistilBERT. Checkpoints hold linear maps as `(out, in)`, ours
are `(in, out)`, and attention maps have the heads apart.
"""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checks import InputError, divides, existing_folder, one_of, placed
from keras_msd.io.files import DEPTH, read_table, read_toml
from keras_msd.io.tensors import WHOLE, TensorFile
from keras_msd.models.network import EncoderConfig, outputs, weight_shapes

SINGLE = "model.safetensors"
OTHERS = ("*.index.json", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")

WORD_TABLE = "embeddings.word_embeddings.weight"
_TABLES = read_toml(Path(__file__).with_name("families.toml"))
ACTIVATIONS, SILENT = _TABLES["activations"], _TABLES["silent"]
POOLING_FLAGS, DENSE_ACTIVATIONS = _TABLES["poolings"], _TABLES["dense_activations"]
E5S1_KEYS: dict[str, str] = _TABLES["e5s1"]["keys"]


class Family(NamedTuple):
    """How one kind of checkpoint names its tensors and settings.

    `keys`: tensors to paths of weights, with `{i}` for the layer.
    `settings`: our fields to keys of config.json.
    `positions_after_padding`: the first token takes position row `pad_token_id + 1`.
    `pad_id`: the pad token where config.json names none.
    """

    keys: dict[str, str]
    settings: dict[str, str]
    positions_after_padding: bool
    pad_id: int


FAMILIES = {
    family: Family(**_TABLES[about.pop("named_as")], **about)
    for family, about in _TABLES["families"].items()
}

# Index buffers hold no knowledge; poolers and heads belong to tasks, not to the body.
BUFFERS = r"embeddings\.(position_ids|token_type_ids)"
HEADS = (
    r"(pooler|cls|lm_head|classifier|pre_classifier|qa_outputs"
    r"|vocab_transform|vocab_layer_norm|vocab_projector)\..+"
)


def checkpoint_tensors(folder: Path) -> TensorFile:
    """Open `model.safetensors`.

    Raises:
        InputError: There is no such file, or as `TensorFile`.
    """
    if (folder / SINGLE).is_file():
        return TensorFile(folder / SINGLE)
    others = [path for pattern in OTHERS for path in sorted(folder.glob(pattern))]
    received = f"`{others[0].name}`" if others else "no weights"
    raise InputError(
        f"`{folder}` must hold `{SINGLE}`, all weights in one file. Received: "
        f"{received}. Other formats can run code when they are read: load the model "
        "with `transformers` where you trust it and write it again with "
        f'`model.save_pretrained("{folder}", max_shard_size="100GB")`.'
    )


def read_checkpoint(folder: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a transformer's settings and weights from a folder.

    Every tensor is kept: all position rows and all token types. A family without token
    types gets one row of zeros. Buffers, a pooler and task heads are passed over; any
    other tensor left over is an error.

    Args:
        folder: Holds config.json and model.safetensors.

    Returns:
        Fields of `EncoderConfig` (`pad_id` as config.json has it, `max_length` the
        number of positions) and float32 arrays by weight path.

    Raises:
        InputError: The family or a setting is not supported, a file is damaged, or a
            tensor is missing, unknown or of another shape or type than expected.
    """
    folder = existing_folder(folder, "checkpoint folder")
    settings = read_settings(folder)
    family = FAMILIES[settings["model_type"]]
    fields = _fields(settings, family, folder / "config.json")
    return fields, _arrays(checkpoint_tensors(folder), family, fields)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return config.json of a supported family; `InputError` for any other."""
    path = folder / "config.json"
    settings = read_table(path, "checkpoint's settings")
    family = settings.get("model_type")
    if family not in list(FAMILIES):
        raise InputError(
            f"`model_type` in `{path}` must be one of {', '.join(FAMILIES)}. "
            f"Received: {family!r}. Load any other model with sentence-transformers, "
            "and give `load_teacher` the `SentenceTransformer` itself."
        )
    needed: dict[str, Any] = {"position_embedding_type": "absolute"}
    needed |= {"is_decoder": False, "add_cross_attention": False}
    check_settings(settings, needed, path, "Give an encoder with absolute positions.")
    return settings


def check_settings(
    settings: dict[str, Any], needed: dict[str, Any], path: Path, repair: str
) -> None:
    """Raise `InputError` where settings of `path` have other values than `needed`.

    What is absent or null has the value that is needed.
    """
    for key, value in needed.items():
        if settings.get(key) not in (value, None):
            raise InputError(
                f"`{key}` in `{path}` must be {value!r}. Received: {settings[key]!r}. "
                f"{repair}"
            )


def _fields(settings: dict[str, Any], family: Family, path: Path) -> dict[str, Any]:
    fields, names = dict(SILENT), family.settings
    for name, key in names.items():
        fields[name] = settings.get(key, SILENT.get(name))
        if name == "activation":
            with placed(path):
                one_of(ACTIVATIONS, **{key: fields[name]})
            fields[name] = ACTIVATIONS[fields[name]]
        elif name not in ("dropout", "layer_norm_epsilon"):
            _whole(fields[name], 1, key, path)
    DEPTH.check(fields["num_layers"], f"`{names['num_layers']}` in `{path}`", WHOLE)
    with placed(path):
        heads, width = fields["num_heads"], fields["hidden_dim"]
        divides({names["num_heads"]: heads}, {names["hidden_dim"]: width})
    pad = settings.get("pad_token_id")
    pad = family.pad_id if pad is None else _whole(pad, 0, "pad_token_id", path)
    offset = pad + 1 if family.positions_after_padding else 0
    rows = settings.get("max_position_embeddings")
    length = _whole(rows, offset + 2, "max_position_embeddings", path) - offset
    return fields | {"pad_id": pad, "position_offset": offset, "max_length": length}


def _whole(value: Any, least: int, key: str, path: Path) -> int:
    if type(value) is not int or value < least:
        raise InputError(
            f"`{key}` in `{path}` must be a whole number, at least {least}. "
            f"Received: {value!r}. {WHOLE}"
        )
    return value


def _arrays(
    files: TensorFile, family: Family, fields: dict[str, Any]
) -> dict[str, np.ndarray]:
    prefix = _prefix(files)
    names = {_modern_name(key): key for key in files.shapes}
    expected = {
        prefix + key: path
        for key, path in layer_keys(family.keys, fields["num_layers"]).items()
    }
    known = rf"({re.escape(prefix)})?({BUFFERS}|{HEADS})"
    rest = [k for k in names.keys() - expected.keys() if not re.fullmatch(known, k)]
    if rest:
        raise InputError(
            f"`{files.folder}` holds {len(rest)} tensors that its family does not "
            f"have, such as `{min(rest)}`. Check `model_type` and the layer count in "
            "its config.json."
        )
    shapes = weight_shapes(EncoderConfig.model_construct(**fields))
    # Every shape is compared before the first tensor takes memory.
    for key, path in expected.items():
        files.check(names.get(key, key), stored_shape(path, shapes[path]))
    arrays = {
        path: in_our_layout(path, files.read(names[key]), shapes[path])
        for key, path in expected.items()
    }
    if "embedding/type" not in arrays:
        arrays["embedding/type"] = np.zeros((1, fields["hidden_dim"]), np.float32)
    return arrays


def _prefix(files: TensorFile) -> str:
    """Return what stands before the body's keys, such as "roberta." or ""."""
    prefixes = [
        key.removesuffix(WORD_TABLE)
        for key in sorted(files.shapes)
        if key == WORD_TABLE or key.endswith("." + WORD_TABLE)
    ]
    if len(prefixes) != 1:
        raise InputError(
            f"`{files.folder}` must have one tensor `...{WORD_TABLE}`. Received: "
            f"{len(prefixes)} {prefixes}. Give a checkpoint of one encoder."
        )
    return prefixes[0]


def _modern_name(key: str) -> str:
    """Return `key` with the `gamma` and `beta` of old checkpoints renamed."""
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        key = re.sub(rf"LayerNorm\.{old}$", f"LayerNorm.{new}", key)
    return key


def layer_keys(keys: dict[str, str], num_layers: int) -> dict[str, str]:
    """Return checkpoint key -> weight path for every layer, without a prefix."""
    return {
        key.format(i=i): path.format(i=i)
        for key, path in keys.items()
        for i in (range(num_layers) if "{i}" in key else (0,))
    }


def stored_shape(path: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that a checkpoint has for our weight of some shape."""
    if path.endswith("/kernel"):
        out = outputs(path, shape)
        return out, math.prod(shape) // out
    return (math.prod(shape),) if path.endswith("/bias") else shape


def in_our_layout(path: str, tensor: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a checkpoint's tensor as our weight, whose heads have an axis."""
    return (tensor.T if path.endswith("/kernel") else tensor).reshape(shape)
