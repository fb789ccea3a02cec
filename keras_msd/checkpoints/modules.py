"""What a sentence-transformers folder is made of: modules.json and the modules' files.

The types of modules are compared with known names; no class path in a file is imported.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checkpoints.weights import check_settings, checkpoint_tensors
from keras_msd.checks import InputError, one_of, placed
from keras_msd.files import read_json, read_table
from keras_msd.layers.pooling import POOLINGS
from keras_msd.tensors import WHOLE

MODULES, CONFIG = "modules.json", "config.json"
SETTINGS = "config_sentence_transformers.json"
# Names of all versions: `models` before 5.4, then with the name of the file or not.
MODULE = re.compile(
    r"sentence_transformers"
    r"\.(models|(base|sentence_transformer)\.modules(\.[a-z_]+)?)"
    r"\.(?P<kind>Transformer|Pooling|Dense|Normalize|StaticEmbedding)"
)
ORDER = re.compile(r"(Transformer( Pooling)?|StaticEmbedding)( Dense)?( Normalize)?")
# Older files have one true-or-false key per pooling.
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
LONGEST_NAME = 255  # bytes, in the file systems that are used
REPAIR = (
    "Load the model with sentence-transformers, and give `load_teacher` the "
    "`SentenceTransformer` itself."
)
ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
}
# From a sentence's vector to another: what Dense and Normalize are.
VECTORS = dict.fromkeys(
    ("module_input_name", "module_output_name"), "sentence_embedding"
)


class Modules(NamedTuple):
    """The parts of a sentence encoder.

    Attributes:
        first: Folder of the transformer, or of the static embedding.
        static: Whether it is a static embedding, which has a pooling of its own.
        pooling: How a transformer's token vectors are pooled.
        dense: Folder of the dense layer, if there is one.
        normalize: Whether vectors have length one.
        strips: Whether blanks around a text are taken away, as versions before 5.4 do:
            if the folder names such a version, or, without one, a module of those.
    """

    first: Path
    static: bool = False
    pooling: str = "mean"
    dense: Path | None = None
    normalize: bool = False
    strips: bool = False


def read_modules(folder: Path, pooling: str | None) -> Modules:
    """Return the parts that modules.json names.

    Args:
        folder: The checkpoint's.
        pooling: Takes the place of the module Pooling, which may then be absent.

    Raises:
        InputError: A module or pooling is not supported, or they are others than
            Transformer and Pooling, or StaticEmbedding, and then perhaps Dense and
            Normalize.
    """
    path = folder / MODULES
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise InputError(f"`{path}` must be a list of modules. {WHOLE}")
    kinds = [_kind(entry, path) for entry in entries]
    folders = [_inside(folder, entry.get("path", ""), path) for entry in entries]
    places = dict(zip(kinds, folders, strict=True))
    static = "StaticEmbedding" in places
    pools = static or pooling is not None or "Pooling" in places
    if not (pools and ORDER.fullmatch(" ".join(kinds))):
        raise InputError(
            f"`{path}` must list Transformer and Pooling, or StaticEmbedding, and then "
            "at most one Dense and one Normalize. Received: "
            f"{', '.join(kinds) or 'nothing'}. {REPAIR}"
        )
    if static and pooling is not None:
        raise InputError(
            f"A static embedding has the pooling mean. Received: {pooling!r}. Leave "
            "`pooling` out."
        )
    if "Normalize" in places and (file := places["Normalize"] / CONFIG).is_file():
        check_settings(read_table(file), VECTORS, file, REPAIR)
    if pooling is None and not static:
        pooling = _pooling(places["Pooling"] / CONFIG)
    dense, normalize = places.get("Dense"), "Normalize" in places
    strips = not static and _is_old(folder, entries[0]["type"])
    return Modules(folders[0], static, pooling or "mean", dense, normalize, strips)


def _is_old(folder: Path, name: str) -> bool:
    path = folder / SETTINGS
    versions = read_table(path).get("__version__") if path.is_file() else None
    given = versions if isinstance(versions, dict) else {}
    parts = re.match(r"(\d+)\.(\d+)", str(given.get("sentence_transformers")))
    if parts is None:
        return name.startswith("sentence_transformers.models.")
    return (int(parts[1]), int(parts[2])) < (5, 4)


def _kind(entry: dict[str, Any], path: Path) -> str:
    name = str(entry.get("type"))
    module = MODULE.fullmatch(name)
    if module is None:
        raise InputError(
            f"Every `type` in `{path}` must be the whole name of a module that is "
            "read, such as sentence_transformers.models.Pooling. Received: "
            f"{name!r:.200}. {REPAIR}"
        )
    return module["kind"]


def _inside(folder: Path, place: Any, path: Path) -> Path:
    parts = PurePosixPath(place if isinstance(place, str) else "..")
    odd = parts.is_absolute() or ".." in parts.parts
    if odd or not str(place).isprintable() or len(place.encode()) > LONGEST_NAME:
        raise InputError(
            f"Every `path` in `{path}` must name a folder within its own. Received: "
            f"{place!r:.200}. {WHOLE}"
        )
    return folder / parts


def _pooling(path: Path) -> str:
    settings = read_table(path, "pooling's settings")
    check_settings(settings, {"include_prompt": True}, path, REPAIR)
    flags = [mode for key, mode in FLAGS.items() if settings.get(key)]
    modes = settings.get("pooling_mode", flags or ["mean"])
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in POOLINGS:
        raise InputError(
            f"`{path}` must ask for one pooling among {', '.join(POOLINGS)}. Received: "
            f"{modes}. {REPAIR}"
        )
    return modes[0]


def read_dense(
    folder: Path, width: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a dense layer of `width` inputs.

    Returns:
        Fields of `EncoderConfig`, and float32 arrays by weight path.

    Raises:
        InputError: The activation is not in `ACTIVATIONS`, the module is wired in
            another way than vector to vector, or its tensors do not fit.
    """
    path = folder / CONFIG
    settings = read_table(path, "dense layer's settings")
    # sentence-transformers takes tanh where the file does not say.
    default = "torch.nn.modules.activation.Tanh"
    activation = str(settings.get("activation_function", default))
    with placed(path):
        one_of(ACTIVATIONS, activation_function=activation)
    needed = VECTORS | {"in_features": width, "use_residual": False}
    check_settings(settings, needed, path, REPAIR)
    out, bias = settings.get("out_features"), bool(settings.get("bias", True))
    files = checkpoint_tensors(folder)
    tensors: dict[str, tuple[Any, ...]] = {"linear.weight": (out, width)}
    tensors |= {"linear.bias": (out,)} if bias else {}
    if unknown := sorted(files.shapes.keys() - tensors.keys()):
        raise InputError(
            f"`{folder}` must hold {' and '.join(tensors)} alone. Received: "
            f"`{unknown[0]}`. {WHOLE}"
        )
    for key, shape in tensors.items():
        files.check(key, shape)
    fields = {
        "projection_dim": out,
        "projection_bias": bias,
        "projection_activation": ACTIVATIONS[activation],
    }
    arrays = {"projection/kernel": files.read("linear.weight").T}
    if bias:
        arrays["projection/bias"] = files.read("linear.bias")
    return fields, arrays
