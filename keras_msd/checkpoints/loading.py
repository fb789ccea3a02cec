"""Encoders from folders, hub names and artefacts."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checkpoints.e5 import load_e5_small
from keras_msd.checkpoints.modules import (
    MODULES,
    REPAIR,
    SETTINGS,
    Modules,
    is_model2vec,
    read_dense,
    read_modules,
    read_static,
)
from keras_msd.checkpoints.packaged import (
    E5,
    is_packaged,
    packaged_folder,
    packaged_names,
)
from keras_msd.checkpoints.weights import SINGLE, check_settings, read_checkpoint
from keras_msd.checks import InputError, existing_folder, nearest, one_of, require
from keras_msd.files import read_json, read_table
from keras_msd.layers.pooling import POOLINGS
from keras_msd.models.encoder import Encoder, load_saved
from keras_msd.models.encoder_folder import is_saved_encoder
from keras_msd.tensors import WHOLE
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

logger = logging.getLogger(__name__)

# One of these says that a folder is an artefact, or was one before it was taken apart.
MODELS = ("1/saved_model.pb", "saved_model.pb", "model.tflite", "model.onnx")
# Weights, settings and vocabularies only: nothing that can run.
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model"]

# Where a folder states its longest sentence: the first that has a number counts.
FAMILIES = ("bert", "roberta", "distilbert", "xlm-roberta", "camembert")
LIMITS = {f"sentence_{family}_config.json": "max_seq_length" for family in FAMILIES}
LIMITS[CONFIG] = "model_max_length"
# What such a file may say of how texts are run.
RUN = {
    "transformer_task": "feature-extraction",
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "last_hidden_state"}
    },
    "module_output_name": "token_embeddings",
    "query_length": None,
    "document_length": None,
    "query_expansion": None,
    "processing_kwargs": None,
}
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # organisation/model


def load_encoder(
    source: str | Path, pooling: str | None = None, prefix: str | None = None
) -> Any:
    """Load an encoder.

    Args:
        source: A folder of ours, a folder in sentence-transformers layout (so is an
            artefact with model.safetensors), "hf://org/name", an artefact of any
            format: its folder, or the model file in it; "tiny12" or "small12", encoders
            in packages of their own; or "e5-small", multilingual-e5-small in 4 bits
            from two packages on PyPI. A folder of that name comes first.
        pooling: "mean", "cls" or "max": pools the token vectors in another way than
            the folder says, or where it says nothing.
        prefix: Text that `encode` puts before every sentence, such as "query: "; it is
            saved with the encoder. "" for none, by default what the encoder was saved
            with. A student made of the encoder has none.

    Returns:
        An `Encoder`; from an artefact an `Artefact` with `encode`, `dim` and `card`.

    Raises:
        InputError: Nothing of these kinds is there, it is damaged, it is an artefact
            and `pooling` or `prefix` is given, or its package is not installed or of
            another version than the library.

    Example:
        >>> msd.testing.tiny_encoder().save("encoder")
        >>> msd.load_encoder("encoder").config.pooling
        'mean'
        >>> msd.load_encoder("encoder", pooling="cls").config.pooling
        'cls'
        >>> msd.load_encoder("encoder", prefix="query: ").prefix
        'query: '
    """
    if pooling is not None:
        one_of(POOLINGS, pooling=pooling)
    given: dict[str, Any] = {} if pooling is None else {"pooling": pooling}
    given |= {} if prefix is None else {"prefix": prefix}
    if is_packaged(source, [E5]):
        return load_e5_small(**given)
    folder = _folder_of(source)
    if is_saved_encoder(folder):
        return load_saved(folder, **given)
    is_artefact = folder.is_file() or (folder / "card.json").is_file()
    if not is_artefact or (folder / SINGLE).is_file():
        existing_folder(folder, "encoder")
        if any((folder / name).is_file() for name in ("config.json", "modules.json")):
            if is_artefact:
                from keras_msd.export.card import check_parts

                check_parts(folder, PATTERNS)
            return load_checkpoint(folder, **given)
        if not any((folder / name).exists() for name in MODELS):
            raise InputError(
                f"`{folder}` holds no encoder: neither encoder.json (ours), "
                "modules.json or config.json (a checkpoint) nor card.json (an "
                "artefact). Give one of these folders."
            )
    if given:
        raise InputError(
            "An artefact is loaded as it was exported. Received: "
            f"`{folder}`, {', '.join(f'{k}={v!r}' for k, v in given.items())}. Export "
            'the encoder with another pooling, or call `encode(prompt="...")`.'
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
    return nearest(name, [*packaged_names(), E5]) or "Give the path of a folder."


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


def load_checkpoint(
    folder: str | Path, pooling: str | None = None, prefix: str | None = None
) -> Encoder:
    """Load an encoder from a published checkpoint.

    With modules.json the folder has sentence-transformers layout: a Transformer and a
    Pooling (mean, cls or max), or a StaticEmbedding; then perhaps a Dense with a linear
    or tanh activation and a Normalize. Without it the folder is a plain transformer,
    pooled by the mean and not normalised, and a log line says so; or a static model of
    model2vec.

    Args:
        folder: The checkpoint's folder.
        pooling: "mean", "cls" or "max", whatever the folder asks for.
        prefix: Text that `encode` puts before every sentence; by default the folder's
            default prompt.

    Raises:
        InputError: A module, pooling, activation or model family is not supported, or a
            file is missing or damaged.
    """
    folder = existing_folder(folder, "checkpoint folder")
    modules = _modules_of(folder, pooling)
    if modules.static:
        fields, arrays, tokenizer = read_static(modules.first)
    else:
        fields, arrays, tokenizer = _read_transformer(modules.first, modules.strips)
    if modules.dense is not None:
        more_fields, more_arrays = read_dense(modules.dense, fields["hidden_dim"])
        fields, arrays = fields | more_fields, arrays | more_arrays
    fields |= {
        "pooling": modules.pooling,
        "normalize": modules.normalize,
        "prefix": _default_prompt(folder) if prefix is None else prefix,
    }
    encoder = Encoder.from_config(tokenizer, fields, origin=str(folder))
    encoder.set_weights(arrays, origin=f"`{folder}`")
    return encoder


def _modules_of(folder: Path, pooling: str | None) -> Modules:
    if (folder / MODULES).is_file():
        return read_modules(folder, pooling)
    if is_model2vec(folder):
        normalize = read_table(folder / "config.json").get("normalize", False)
        return Modules(folder, static=True, normalize=bool(normalize))
    logger.warning(
        "%s has no modules.json: taken as a plain transformer, pooled by %s and not "
        "normalised.",
        folder,
        f'"{pooling}"' if pooling else "the mean of its tokens",
    )
    return Modules(folder, pooling=pooling or "mean")


def _read_transformer(
    body: Path, strips: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray], Tokenizer]:
    """Return fields, weights and tokenizer of a transformer's folder."""
    fields, arrays = read_checkpoint(body)
    tokenizer = read_checkpoint_tokenizer(body, strips)
    if tokenizer.vocabulary_size > fields["vocabulary_size"]:
        raise InputError(
            f"The word table in `{body}` must have a row for every token of its "
            f"tokenizer, {tokenizer.vocabulary_size}. Received: "
            f"{fields['vocabulary_size']} rows. {WHOLE}"
        )
    positions = fields["max_length"]
    fields |= {
        "pad_id": tokenizer.pad_id,
        "max_positions": positions,
        "max_length": _longest_sentence(body, positions),
    }
    _check_run(body, tokenizer)
    return fields, arrays, tokenizer


def _settings(path: Path) -> dict[str, Any]:
    values = read_json(path) if path.is_file() else {}
    return values if isinstance(values, dict) else {}


def _longest_sentence(body: Path, positions: int) -> int:
    for name, key in LIMITS.items():
        limit = _settings(body / name).get(key)
        if isinstance(limit, (int, float)) and limit >= 2:
            return int(min(limit, positions))
    return positions


def _check_run(body: Path, tokenizer: Tokenizer) -> None:
    ignores_case = len({*map(tuple, tokenizer.encode_plain(["ABC", "abc"]))}) == 1
    for name in LIMITS.keys() - {CONFIG}:
        settings = _settings(body / name)
        said = {key: value for key, value in settings.items() if value != {}}
        check_settings(said, RUN, body / name, REPAIR)
        if settings.get("do_lower_case") and not ignores_case:
            raise InputError(
                f"`do_lower_case` in `{body / name}` must be false unless the "
                "tokenizer itself lower-cases. Received: true. Lower-case the texts, "
                "and set it to false."
            )


def _default_prompt(folder: Path) -> str:
    """Return the text that sentence-transformers puts before every text."""
    path = folder / SETTINGS
    settings = _settings(path)
    name, prompts = settings.get("default_prompt_name"), settings.get("prompts")
    known = prompts if isinstance(prompts, dict) else {}
    prompt = known.get(str(name)) if name else ""
    if not isinstance(prompt, str):
        raise InputError(
            f"`default_prompt_name` in `{path}` must name one of its `prompts`. "
            f"Received: {name!r:.80}. {WHOLE}"
        )
    return prompt
