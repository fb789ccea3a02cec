"""Encoders from folders, hub names and artefacts."""

import logging
import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checkpoints.packaged import (
    is_packaged,
    packaged_folder,
    packaged_names,
)
from keras_msd.checkpoints.weights import (
    SINGLE,
    check_settings,
    checkpoint_tensors,
    read_checkpoint,
    read_settings,
)
from keras_msd.checks import (
    InputError,
    existing_folder,
    nearest,
    one_of,
    placed,
    require,
)
from keras_msd.files import read_json, read_table
from keras_msd.layers.pooling import POOLINGS
from keras_msd.models.encoder import Encoder, load_saved
from keras_msd.models.encoder_folder import is_saved_encoder
from keras_msd.tensors import WHOLE
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.kinds import read_checkpoint_tokenizer

logger = logging.getLogger(__name__)

# One of these says that a folder is an artefact, or was one before it was taken apart.
MODELS = ("1/saved_model.pb", "saved_model.pb", "model.tflite", "model.onnx")
# Weights, settings and vocabularies only: nothing that can run.
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model"]

# Where a folder states its longest sentence: the first that has a number counts.
FAMILIES = ("bert", "roberta", "distilbert", "xlm-roberta")
LIMITS = {f"sentence_{family}_config.json": "max_seq_length" for family in FAMILIES}
LIMITS[CONFIG] = "model_max_length"
ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
# Whole names of modules, of sentence-transformers before version 5.4 and since.
TYPES = {f"sentence_transformers.models.{kind}": kind for kind in ORDER} | {
    "sentence_transformers.base.modules.transformer.Transformer": "Transformer",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling": "Pooling",
    "sentence_transformers.base.modules.dense.Dense": "Dense",
    "sentence_transformers.base.modules.normalize.Normalize": "Normalize",
}
# Older files have one true-or-false key per pooling, such as pooling_mode_mean_tokens.
MODE_KEY = re.compile(r"pooling_mode_(.+?)(?:_tokens?)?")
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # organisation/model
LONGEST_NAME = 255  # bytes, in the file systems that are used
REPAIR = "Give the model's encode function as a callable teacher instead."
ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
}


def load_encoder(source: str | Path, pooling: str | None = None) -> Any:
    """Load an encoder.

    Args:
        source: A folder of ours, a folder in sentence-transformers layout (so is an
            artefact with model.safetensors), "hf://org/name", an artefact of any
            format: its folder, or the model file in it; or "tiny12", an encoder in a
            package of its own. A folder of that name comes first.
        pooling: "mean", "cls" or "max": pools the token vectors in another way than
            the folder says, or where it says nothing.

    Returns:
        An `Encoder`; from an artefact an `Artefact` with `encode`, `dim` and `card`.

    Raises:
        InputError: Nothing of these kinds is there, it is damaged, it is an artefact
            and `pooling` is given, or its package is not installed or of another
            version than the library.

    Example:
        >>> msd.testing.tiny_encoder().save("encoder")
        >>> msd.load_encoder("encoder").config.pooling
        'mean'
        >>> msd.load_encoder("encoder", pooling="cls").config.pooling
        'cls'
    """
    if pooling is not None:
        one_of(POOLINGS, pooling=pooling)
    folder = _folder_of(source)
    if is_saved_encoder(folder):
        return load_saved(folder, pooling)
    is_artefact = folder.is_file() or (folder / "card.json").is_file()
    if not is_artefact or (folder / SINGLE).is_file():
        existing_folder(folder, "encoder")
        if any((folder / name).is_file() for name in ("config.json", "modules.json")):
            if is_artefact:
                from keras_msd.export.card import check_parts

                check_parts(folder, PATTERNS)
            return load_checkpoint(folder, pooling)
        if not any((folder / name).exists() for name in MODELS):
            raise InputError(
                f"`{folder}` holds no encoder: neither encoder.json (ours), "
                "modules.json or config.json (a checkpoint) nor card.json (an "
                "artefact). Give one of these folders."
            )
    if pooling is not None:
        raise InputError(
            f"An artefact's pooling is part of its graph. Received: `{folder}`, "
            f"pooling={pooling!r}. Leave it out, or export the encoder anew."
        )
    from keras_msd.export import load_artefact

    return load_artefact(folder)


def _folder_of(source: str | Path) -> Path:
    if is_packaged(source):
        return packaged_folder(str(source))
    if str(source).startswith("hf://"):
        return fetch(str(source))
    if not Path(source).exists():
        raise InputError(f"The encoder `{source}` does not exist. {_hint(str(source))}")
    return Path(source)


def _hint(name: str) -> str:
    """Return what a name that is no path may stand for."""
    if HUB_NAME.fullmatch(name) and not Path(name).parent.is_dir():
        return f"Give the path of a folder, or of a model on the hub hf://{name}"
    return nearest(name, packaged_names()) or "Give the path of a folder."


def fetch(name: str) -> Path:
    """Download a checkpoint, or find it in the hub's cache, and return its folder.

    Args:
        name: "hf://organisation/model", or "hf://organisation/model@revision".

    Raises:
        InputError: The name has another form, `huggingface_hub` is not installed, or
            the hub cannot be reached or has no such model.
    """
    parts = re.fullmatch(r"hf://(\w[\w.-]*/\w[\w.-]*)(?:@([\w./-]+))?", name)
    if not parts:
        raise InputError(
            f"A hub name must read hf://organisation/model. Received: {name!r}. "
            "For a folder on this machine, give its path without hf://."
        )
    hub = require("huggingface_hub", "hf", f"Reading {name}")
    try:
        folder = hub.snapshot_download(
            parts[1], revision=parts[2], allow_patterns=PATTERNS
        )
    # The client's errors share no base class across its versions and its transports.
    except Exception as error:
        raise InputError(
            f"`{name}` could not be fetched ({type(error).__name__}: {error}). Check "
            "the name and the network, or give the path of a folder that holds the "
            "model's files."
        ) from error
    return Path(folder)


class Modules(NamedTuple):
    """The parts of a sentence encoder: their folders and settings."""

    transformer: Path
    pooling: str = "mean"
    dense: Path | None = None
    normalize: bool = False


def load_checkpoint(folder: str | Path, pooling: str | None = None) -> Encoder:
    """Load an encoder from a published checkpoint.

    With modules.json the folder has sentence-transformers layout: a Transformer, a
    Pooling (mean, cls or max), perhaps a Dense, perhaps a Normalize. Without it the
    folder is a plain transformer, pooled by the mean and not normalised, and a log line
    says so.

    Args:
        folder: The checkpoint's folder.
        pooling: "mean", "cls" or "max", whatever the folder asks for.

    Raises:
        InputError: A module, pooling, activation or model family is not supported, or a
            file is missing or damaged.
    """
    folder = existing_folder(folder, "checkpoint folder")
    modules = _read_modules(folder, pooling)
    body = modules.transformer
    fields, arrays = read_checkpoint(body)
    tokenizer = read_checkpoint_tokenizer(body, read_settings(body)["model_type"])
    _refuse_text_changes(folder, body, tokenizer)
    positions = fields["max_length"]
    fields |= {
        "pad_id": tokenizer.pad_id,
        "max_positions": positions,
        "max_length": _longest_sentence(body, positions),
        "pooling": modules.pooling,
        "normalize": modules.normalize,
    }
    if modules.dense is not None:
        more_fields, more_arrays = read_dense(modules.dense, fields["hidden_dim"])
        fields, arrays = fields | more_fields, arrays | more_arrays
    if tokenizer.vocabulary_size > fields["vocabulary_size"]:
        raise InputError(
            f"The word table in `{body}` must have a row for every token of its "
            f"tokenizer, {tokenizer.vocabulary_size}. Received: "
            f"{fields['vocabulary_size']} rows. {WHOLE}"
        )
    encoder = Encoder.from_config(tokenizer, fields, origin=str(folder))
    encoder.set_weights(arrays, origin=f"`{folder}`")
    return encoder


def _settings(path: Path) -> dict[str, Any]:
    values = read_json(path) if path.is_file() else {}
    return values if isinstance(values, dict) else {}


def _longest_sentence(body: Path, positions: int) -> int:
    for name, key in LIMITS.items():
        limit = _settings(body / name).get(key)
        if isinstance(limit, (int, float)) and limit >= 2:
            return int(min(limit, positions))
    return positions


def _refuse_text_changes(folder: Path, body: Path, tokenizer: Tokenizer) -> None:
    """Raise `InputError` if the folder asks for texts other than those it is given."""
    ignores_case = len({*map(tuple, tokenizer.encode_plain(["ABC", "abc"]))}) == 1
    for name in list(LIMITS)[:-1]:
        if _settings(body / name).get("do_lower_case") and not ignores_case:
            raise InputError(
                f"`do_lower_case` in `{body / name}` must be false unless the "
                "tokenizer itself lower-cases. Received: true. Lower-case the texts, "
                "and set it to false."
            )
    path = folder / "config_sentence_transformers.json"
    settings = _settings(path)
    default = settings.get("default_prompt_name")
    prompts = settings.get("prompts")
    if default and isinstance(prompts, dict) and prompts.get(str(default)):
        raise InputError(
            f"`default_prompt_name` in `{path}` must be null, as no words are put "
            f"before a text. Received: {default!r}. Give a callable teacher that adds "
            "the prompt."
        )


def _read_modules(folder: Path, pooling: str | None) -> Modules:
    """Return the parts of a checkpoint folder.

    Module types are compared with known names, from end to end; no class path is
    imported. A folder without modules.json is a plain transformer: mean pooling, no
    normalisation.

    Args:
        folder: The checkpoint's.
        pooling: Takes the place of the module Pooling, which may then be absent.

    Raises:
        InputError: A module or pooling is not supported, or they come in another order
            than Transformer, Pooling, Dense (optional), Normalize (optional).
    """
    path = folder / "modules.json"
    if not path.is_file():
        logger.warning(
            "%s has no modules.json: taken as a plain transformer, pooled by %s and "
            "not normalised.",
            folder,
            f'"{pooling}"' if pooling else "the mean of its tokens",
        )
        return Modules(folder, pooling or "mean")
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise InputError(f"`{path}` must be a list of modules. {WHOLE}")
    kinds = [_kind(entry, path) for entry in entries]
    needed = ORDER[:1] if pooling else ORDER[:2]
    in_order = [kind for kind in ORDER if kind in kinds]
    if kinds != in_order or tuple(kinds[: len(needed)]) != needed:
        raise InputError(
            f"`{path}` must list Transformer, Pooling, then at most one Dense and one "
            f"Normalize, in this order. Received: {', '.join(kinds) or 'nothing'}. "
            f"{REPAIR}"
        )
    places = {
        kind: _inside(folder, entry.get("path", ""), path)
        for kind, entry in zip(kinds, entries, strict=True)
    }
    return Modules(
        places["Transformer"],
        pooling or _pooling(places["Pooling"] / "config.json"),
        places.get("Dense"),
        "Normalize" in places,
    )


def _kind(entry: dict[str, Any], path: Path) -> str:
    name = str(entry.get("type"))
    if name not in TYPES:
        raise InputError(
            f"Every `type` in `{path}` must be a module of sentence_transformers among "
            f"{', '.join(ORDER)}, in full: {', '.join(TYPES)}. Received: "
            f"{name!r:.200}. {REPAIR}"
        )
    return TYPES[name]


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
    flags = (MODE_KEY.fullmatch(key) for key, asked in settings.items() if asked)
    modes = settings.get("pooling_mode", [flag[1] for flag in flags if flag])
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in POOLINGS:
        raise InputError(
            f"`{path}` must ask for one pooling among {', '.join(POOLINGS)}. Received: "
            f"{modes}. {REPAIR}"
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
    settings = read_table(path, "dense layer's settings")
    activation = str(settings.get("activation_function"))
    with placed(path):
        one_of(ACTIVATIONS, activation_function=activation)
    needed = {
        "in_features": hidden_dim,
        "use_residual": False,
        "module_input_name": "sentence_embedding",
        "module_output_name": "sentence_embedding",
    }
    check_settings(settings, needed, path, REPAIR)
    out, bias = settings.get("out_features"), settings.get("bias", True)
    files = checkpoint_tensors(folder)
    tensors: dict[str, tuple[Any, ...]] = {"linear.weight": (out, hidden_dim)}
    tensors |= {"linear.bias": (out,)} if bias else {}
    if unknown := sorted(files.shapes.keys() - tensors.keys()):
        raise InputError(
            f"`{folder}` must hold {' and '.join(tensors)} alone. Received: "
            f"`{unknown[0]}`. {WHOLE}"
        )
    for key, shape in tensors.items():
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
