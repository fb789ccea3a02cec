"""The parts of a sentence-transformers folder, as its modules.json lists them."""

import logging
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.checkpoints.tensor_files import TensorFiles
from keras_msd.checks import InputError
from keras_msd.files import read_json

logger = logging.getLogger(__name__)

ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
MODES = ("mean", "cls", "max")
# Older files have one true-or-false key per pooling.
MODE_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
}


class Modules(NamedTuple):
    """The parts of a sentence encoder: their folders and settings."""

    transformer: Path
    pooling: str = "mean"
    dense: Path | None = None
    normalize: bool = False


def read_modules(folder: Path) -> Modules:
    """Return the parts of a checkpoint folder.

    Module types are compared with four known names; no class path is imported. A
    folder without modules.json is a plain transformer: mean pooling, no normalisation.

    Raises:
        InputError: A module or pooling is not supported, or they come in another order
            than Transformer, Pooling, Dense (optional), Normalize (optional).
    """
    path = folder / "modules.json"
    if not path.is_file():
        logger.warning(
            "%s has no modules.json: taken as a plain transformer, pooled by the mean "
            "of its tokens and not normalised.",
            folder,
        )
        return Modules(folder)
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise InputError(
            f"`{path}` must be a list of modules. Take a whole copy of the checkpoint."
        )
    kinds = [_kind(entry, path) for entry in entries]
    expected = [kind for kind in ORDER if kind in kinds]
    if kinds != expected or tuple(kinds[:2]) != ORDER[:2]:
        raise InputError(
            f"`{path}` must list Transformer, Pooling, then at most one Dense and one "
            f"Normalize, in this order. Received: {', '.join(kinds) or 'nothing'}. "
            "Give its encode function as a callable teacher instead."
        )
    places = {
        kind: _inside(folder, entry.get("path", ""), path)
        for kind, entry in zip(kinds, entries, strict=True)
    }
    return Modules(
        places["Transformer"],
        _pooling(places["Pooling"] / "config.json"),
        places.get("Dense"),
        "Normalize" in places,
    )


def _kind(entry: dict[str, Any], path: Path) -> str:
    name = str(entry.get("type"))
    package, _, kind = name.rpartition(".")
    if package.split(".")[0] != "sentence_transformers" or kind not in ORDER:
        raise InputError(
            f"Every `type` in `{path}` must be a module of sentence_transformers among "
            f"{', '.join(ORDER)}. Received: {name!r}. Give the model's encode function "
            "as a callable teacher instead."
        )
    return kind


def _inside(folder: Path, place: Any, path: Path) -> Path:
    parts = PurePosixPath(place) if isinstance(place, str) else None
    if parts is None or parts.is_absolute() or ".." in parts.parts:
        raise InputError(
            f"Every `path` in `{path}` must stay within its folder. Received: "
            f"{place!r}. Take a whole copy of the checkpoint."
        )
    return folder / parts


def _table(path: Path, what: str) -> dict[str, Any]:
    values = read_json(checks.existing_file(path, what))
    if not isinstance(values, dict):
        raise InputError(
            f"`{path}` must be a table of settings. Received: {values!r:.60}. "
            "Take a whole copy of the checkpoint."
        )
    return values


def _pooling(path: Path) -> str:
    settings = _table(path, "pooling's settings")
    modes = settings.get(
        "pooling_mode", [mode for key, mode in MODE_KEYS.items() if settings.get(key)]
    )
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in MODES:
        raise InputError(
            f"`{path}` must ask for one pooling among {', '.join(MODES)}. Received: "
            f"{modes}. Give the model's encode function as a callable teacher instead."
        )
    return modes[0]


def read_dense(
    folder: Path, hidden_dim: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a Dense module of `hidden_dim` inputs: config fields and weights by path.

    Raises:
        InputError: The activation is neither Tanh nor Identity, the module is wired in
            another way than vector to vector, or its tensors do not fit.
    """
    path = folder / "config.json"
    settings = _table(path, "dense layer's settings")
    activation = str(settings.get("activation_function"))
    checks.one_of(ACTIVATIONS, activation_function=activation)
    for key, only in {
        "in_features": hidden_dim,
        "use_residual": False,
        "module_input_name": "sentence_embedding",
        "module_output_name": "sentence_embedding",
    }.items():
        if settings.get(key, only) not in (only, None):
            raise InputError(
                f"`{key}` in `{path}` must be {only!r}. Received: {settings[key]!r}. "
                "Give the model's encode function as a callable teacher instead."
            )
    out, bias = settings.get("out_features"), settings.get("bias", True)
    files = TensorFiles(folder)
    wanted: dict[str, tuple[Any, ...]] = {"linear.weight": (out, hidden_dim)}
    if bias:
        wanted["linear.bias"] = (out,)
    if unknown := sorted(files.shapes.keys() - wanted.keys()):
        raise InputError(
            f"`{folder}` must hold {' and '.join(wanted)} alone. Received: "
            f"`{unknown[0]}`. Take a whole copy of the checkpoint."
        )
    for key, shape in wanted.items():
        files.check(key, shape)
    arrays = {"projection/kernel": files.read("linear.weight").T}
    if bias:
        arrays["projection/bias"] = files.read("linear.bias")
    fields = {
        "projection_dim": out,
        "projection_bias": bool(bias),
        "projection_activation": ACTIVATIONS[activation],
    }
    return fields, arrays
