"""Encoders from folders in sentence-transformers or plain transformers layout."""

from pathlib import Path
from typing import Any

from keras_msd import checks
from keras_msd.checkpoints.sentence_modules import read_dense, read_modules
from keras_msd.checkpoints.weights import read_checkpoint, read_settings
from keras_msd.checks import InputError
from keras_msd.files import read_json
from keras_msd.models.config import EncoderConfig
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import build_model
from keras_msd.tokenizers.base import Tokenizer, read_checkpoint_tokenizer

# Where a folder states its longest sentence: the first that has a number counts.
LIMITS = (
    ("sentence_bert_config.json", "max_seq_length"),
    ("sentence_roberta_config.json", "max_seq_length"),
    ("sentence_distilbert_config.json", "max_seq_length"),
    ("sentence_xlm-roberta_config.json", "max_seq_length"),
    ("tokenizer_config.json", "model_max_length"),
)


def load_checkpoint(folder: str | Path) -> Encoder:
    """Load an encoder from a published checkpoint.

    With modules.json the folder has sentence-transformers layout: a Transformer, a
    Pooling (mean, cls or max), perhaps a Dense, perhaps a Normalize. Without it the
    folder is a plain transformer, pooled by the mean and not normalised, and a log line
    says so.

    Args:
        folder: The checkpoint's folder.

    Raises:
        InputError: A module, pooling, activation or model family is not supported, or a
            file is missing or damaged.
    """
    folder = checks.existing_folder(folder, "checkpoint folder")
    modules = read_modules(folder)
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
    config = EncoderConfig.from_dict(fields, origin=str(folder))
    encoder = Encoder(build_model(config), tokenizer, config)
    encoder.set_weights(arrays, origin=f"`{folder}`")
    return encoder


def _settings(path: Path) -> dict[str, Any]:
    values = read_json(path) if path.is_file() else {}
    return values if isinstance(values, dict) else {}


def _longest_sentence(body: Path, positions: int) -> int:
    for name, key in LIMITS:
        limit = _settings(body / name).get(key)
        if isinstance(limit, (int, float)) and limit >= 2:
            return int(min(limit, positions))
    return positions


def _refuse_text_changes(folder: Path, body: Path, tokenizer: Tokenizer) -> None:
    """Raise `InputError` if the folder asks for texts other than those it is given."""
    for name, _ in LIMITS[:-1]:
        lower = _settings(body / name).get("do_lower_case")
        if lower and not _ignores_case(tokenizer):
            raise InputError(
                f"`do_lower_case` in `{body / name}` must be false unless the "
                "tokenizer itself lower-cases. Received: true. Lower-case the texts, "
                "and set it to false."
            )
    path = folder / "config_sentence_transformers.json"
    settings = _settings(path)
    default = settings.get("default_prompt_name")
    prompts = settings.get("prompts")
    if default and isinstance(prompts, dict) and prompts.get(default):
        raise InputError(
            f"`default_prompt_name` in `{path}` must be null, as no words are put "
            f"before a text. Received: {default!r}. Give a callable teacher that adds "
            "the prompt."
        )


def _ignores_case(tokenizer: Tokenizer) -> bool:
    return tokenizer.encode_plain(["ABC"]) == tokenizer.encode_plain(["abc"])
