"""An encoder's folder: `encoder.json`, `weights.safetensors`, `tokenizer/`."""

from pathlib import Path

import numpy as np

from keras_msd.checks import InputError, existing_file, existing_folder
from keras_msd.files import atomic_path, read_json, write_json
from keras_msd.models.config import EncoderConfig
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import build_model
from keras_msd.tokenizers.base import load_tokenizer

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER = "encoder.json", "weights.safetensors", "tokenizer"


def save_encoder(encoder: Encoder, folder: str | Path) -> None:
    """Write an encoder's folder; it appears complete or not at all."""
    from safetensors.numpy import save_file

    with atomic_path(folder) as temporary:
        temporary.mkdir()
        config = encoder.config.model_dump()
        write_json(temporary / CONFIG, {"format": FORMAT, "config": config})
        weights = {
            path: np.ascontiguousarray(value)
            for path, value in sorted(encoder.weights().items())
        }
        save_file(weights, temporary / WEIGHTS)
        encoder.tokenizer.save(temporary / TOKENIZER)


def is_saved_encoder(folder: str | Path) -> bool:
    """Tell whether a folder holds an encoder of ours."""
    return (Path(folder) / CONFIG).is_file()


def load_saved(folder: str | Path) -> Encoder:
    """Read an encoder's folder.

    Only known fields are read and no class or path in the files is followed.

    Raises:
        InputError: A file is missing, truncated or does not fit the others.
    """
    folder = existing_folder(folder, "encoder folder")
    origin = str(folder / CONFIG)
    record = read_json(folder / CONFIG)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(
            f"`{origin}` is not an encoder of format {FORMAT}. Save the encoder anew."
        )
    config = EncoderConfig.from_dict(record.get("config", {}), origin=origin)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    weights = read_weights(existing_file(folder / WEIGHTS, "weights file"))
    encoder = Encoder(build_model(config), tokenizer, config)
    encoder.set_weights(weights, origin=f"`{folder / WEIGHTS}`")
    return encoder


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Read a safetensors file into arrays."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(
            f"`{path}` is not a whole safetensors file ({error}). Copy it anew."
        ) from error
