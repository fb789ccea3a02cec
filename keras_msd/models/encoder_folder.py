"""The folder of an encoder: `encoder.json`, `weights.safetensors` and `tokenizer/`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from keras_msd.checks import InputError, existing_file, existing_folder, one_of
from keras_msd.checksums import checksums, damaged, sealed, unsealed
from keras_msd.files import atomic_path, read_json, write_json
from keras_msd.models.config import EncoderConfig
from keras_msd.models.integer_weights import (
    SCALES,
    from_stored,
    stored_shapes,
    to_stored,
)
from keras_msd.models.network import weight_shapes
from keras_msd.tensors import FLOATS, INT8, UINT8, TensorFile
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.loading import load_tokenizer

# By what `quantize` is. A library that does not know a format refuses it.
FORMATS = {None: 1, "int8": 2, "int4_table": 3, "int4": 3}
KEYS = {"config", "files", "format", "quantize", "seal"}
CONFIG, WEIGHTS, TOKENIZER = "encoder.json", "weights.safetensors", "tokenizer"
OTHER = "Take weights and settings from the same encoder."


def write_folder(
    folder: str | Path,
    config: EncoderConfig,
    weights: dict[str, np.ndarray],
    tokenizer: Tokenizer,
    quantize: str | None = None,
) -> None:
    """Write an encoder's folder, complete or not at all, with checksums.

    Args:
        folder: Where it goes.
        config: What the network is built from.
        weights: Contiguous arrays by their paths.
        tokenizer: The encoder's.
        quantize: None for float32, or "int8", "int4_table" or "int4", as `to_stored`
            stores them.

    Raises:
        InputError: A weight is not finite, or `quantize` is something else.
    """
    one_of(FORMATS, quantize=quantize)
    for path, value in weights.items():
        if not np.isfinite(value).all():
            raise InputError(
                f"The weights of an encoder must be finite. Received: `{path}` "
                "with NaN or infinity. Training diverged: load an earlier checkpoint."
            )
    with atomic_path(folder) as temporary:
        temporary.mkdir()
        stored = to_stored(weights, quantize) if quantize else weights
        save_file(stored, temporary / WEIGHTS)
        tokenizer.save(temporary / TOKENIZER)
        about = {"format": FORMATS[quantize], "config": config.model_dump()}
        about |= {"quantize": quantize} if quantize else {}
        about["files"] = checksums(temporary)
        write_json(temporary / CONFIG, sealed(about, CONFIG))


def is_saved_encoder(folder: str | Path) -> bool:
    """Tell whether a folder holds an encoder that `save` wrote."""
    return (Path(folder) / CONFIG).is_file()


def read_folder(
    folder: str | Path, changes: dict[str, Any] | None = None
) -> tuple[EncoderConfig, dict[str, np.ndarray], Tokenizer]:
    """Read an encoder's folder.

    Only known fields are read and no class or path in the files is followed. Shapes are
    compared by the header of the weights before any is read, files with their
    checksums where they have some.

    Args:
        folder: Where `write_folder` wrote it.
        changes: Fields of `EncoderConfig` in place of the encoder's own.

    Returns:
        Settings, float32 weights by their paths, tokenizer.

    Raises:
        InputError: A file is missing, damaged or does not fit the others.
    """
    folder = existing_folder(folder, "encoder folder")
    origin = str(folder / CONFIG)
    record = read_json(folder / CONFIG)
    record = record if isinstance(record, dict) else {}
    quantize, number = record.get("quantize"), record.get("format")
    fields = record.get("config")
    if (quantize, number) not in [*FORMATS.items()] or not isinstance(fields, dict):
        raise InputError(
            f"`{origin}` must be an encoder of format 1, 2 with quantize 'int8' or 3 "
            "with quantize 'int4_table' or 'int4', with a `config`. Received: format "
            f"{number!r:.20}, quantize {quantize!r:.20}, config "
            f"{fields!r:.20}. Save the encoder again, or install the library that "
            "wrote it."
        )
    if unknown := sorted(record.keys() - KEYS):
        raise InputError(
            f"`{origin}` must have the keys {', '.join(sorted(KEYS))} alone. Received: "
            f"{unknown[0]!r:.60}. Remove it, or save the encoder anew."
        )
    config = EncoderConfig.from_dict(fields | (changes or {}), origin)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    weights = _read_weights(folder, weight_shapes(config), quantize)
    _check_seal(folder, record)
    return config, weights, tokenizer


def _read_weights(
    folder: Path, shapes: dict[str, tuple[int, ...]], quantize: str | None
) -> dict[str, np.ndarray]:
    origin = f"`{existing_file(folder / WEIGHTS, 'weights file')}`"
    files = TensorFile(folder / WEIGHTS, CONFIG)
    stored = stored_shapes(shapes, quantize) if quantize else shapes
    check_paths(stored, files.shapes, origin)
    for name, shape in stored.items():
        packed = len(stored.get(name + SCALES, ())) == 2
        integers = UINT8 if packed else INT8
        files.check(name, shape, integers if name + SCALES in stored else FLOATS)
    weights = {name: files.read(name) for name in shapes}
    for path, shape in shapes.items():
        if path + SCALES in stored:
            scales = files.read(path + SCALES)
            weights[path] = from_stored(path, weights[path], scales, shape, origin)
    return weights


def check_paths(wanted: Iterable[str], given: Iterable[str], origin: str) -> None:
    """Raise `InputError` unless both have the same weight names."""
    wanted, given = set(wanted), set(given)
    if missing := sorted(wanted - given):
        raise InputError(f"{origin} lacks the weight `{missing[0]}`. {OTHER}".strip())
    if unknown := sorted(given - wanted):
        where = f"{origin} has an unknown weight `{unknown[0]}`."
        raise InputError(f"{where} {OTHER}".strip())


def _check_seal(folder: Path, record: dict[str, Any]) -> None:
    """Raise `InputError` if a file changed since it was saved, whatever it says now."""
    if "seal" not in record:  # older encoders have none
        return
    files = record.get("files")
    if unsealed(record, CONFIG) is None or not isinstance(files, dict):
        raise InputError(
            f"`{folder / CONFIG}` must be as it was written. Received: a changed file. "
            "Copy it anew; or, if you changed it yourself, take `seal` and `files` out."
        )
    # Names come from the file: they are found here, never looked up elsewhere.
    here = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    if lost := sorted(files.keys() - here) or damaged(folder, files):
        raise InputError(
            f"`{lost[0]:.200}` in `{folder}` must be as it was written. Received: a "
            "file that is gone or changed. Copy the folder anew, or save it anew."
        )
