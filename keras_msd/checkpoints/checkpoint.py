"""Encoders from the folders of published checkpoints."""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checkpoints.modules import (
    MODULES,
    REPAIR,
    Modules,
    is_model2vec,
    read_dense,
    read_modules,
    read_static,
    read_usage,
)
from keras_msd.checkpoints.weights import check_settings, read_checkpoint
from keras_msd.checks import InputError, existing_folder, log_unused
from keras_msd.io.files import read_json, read_table
from keras_msd.io.tensors import WHOLE
from keras_msd.models.encoder import Encoder
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

logger = logging.getLogger(__name__)

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
    "tokenizer_name_or_path": None,
}
ARGUMENTS = [
    f"{of}_{what}"
    for of in ("model", "tokenizer", "processor", "config")
    for what in ("args", "kwargs")
]
RUN |= dict.fromkeys(ARGUMENTS)
CASED = 1000  # words that tell whether a tokenizer lower-cases
KNOWN = {*RUN, "max_seq_length", "do_lower_case", "unpad_inputs"}


def load_checkpoint(
    folder: str | Path, pooling: str | None = None, **usage: Any
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
        **usage: Fields of `Usage` in place of what the folder says.

    Raises:
        InputError: A module, pooling, activation, similarity function or model family
            is not supported, or a file is missing or damaged.
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
    fields |= {"pooling": modules.pooling, "normalize": modules.normalize}
    fields |= read_usage(folder).model_dump() | usage
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


def _ignores_case(tokenizer: Tokenizer) -> bool:
    words = (piece.lstrip("▁Ġ#") for piece in tokenizer.pieces())
    small = [word for word in words if word.isalpha() and word.upper().lower() == word]
    small = [word for word in small if word != word.upper()][:CASED]
    capitals = tokenizer.encode_plain([word.upper() for word in small])
    return capitals == tokenizer.encode_plain(small)


def _check_run(body: Path, tokenizer: Tokenizer) -> None:
    for name in LIMITS.keys() - {CONFIG}:
        settings = _settings(body / name)
        said = {key: value for key, value in settings.items() if value != {}}
        check_settings(said, RUN, body / name, REPAIR)
        log_unused(said, KNOWN, body / name)
        if settings.get("do_lower_case") and not _ignores_case(tokenizer):
            raise InputError(
                f"`do_lower_case` in `{body / name}` must be false unless the "
                "tokenizer itself lower-cases. Received: true. Lower-case the texts, "
                "and set it to false."
            )
