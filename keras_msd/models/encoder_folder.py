"""The folder of an encoder: `encoder.json`, `weights.safetensors` and `tokenizer/`."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from keras_msd.checks import InputError, existing_file, existing_folder, one_of
from keras_msd.io.files import (
    add_seal,
    atomic_path,
    changed_files,
    checked_content,
    checksums,
    read_json,
    write_json,
)
from keras_msd.io.tensors import FLOATS, INT8, UINT8, TensorFile
from keras_msd.models.network import (
    KERNELS,
    WORD,
    EncoderConfig,
    matrix,
    outputs,
    weight_shapes,
)
from keras_msd.quantize import (
    BITS,
    SCHEMES,
    StoredTable,
    int4_shapes,
    kernel_bits,
    quantize_table,
)
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.loading import load_tokenizer

SCALES = "/scales"  # follows the path of the weight
# By what `quantize` is. A library that does not know a number refuses it.
FORMAT_NUMBERS = {None: 1, "int8": 2, "int4_table": 3, "int4": 3}
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
        InputError: `folder` is something else than an encoder's or an empty one, a
            weight is not finite, or `quantize` is something else.
    """
    check_new_or_encoder(folder)
    one_of(FORMAT_NUMBERS, quantize=quantize)
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
        about = {"format": FORMAT_NUMBERS[quantize], "config": config.model_dump()}
        about |= {"quantize": quantize} if quantize else {}
        about["files"] = checksums(temporary)
        write_json(temporary / CONFIG, add_seal(about, CONFIG))


def check_new_or_encoder(path: str | Path) -> None:
    """Raise `InputError` where an encoder would replace files that are not its own."""
    folder = Path(path)
    empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not empty and not is_saved_encoder(folder):
        raise InputError(f"`{folder}` exists and is not an encoder. Give a new path.")


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
    known = [*FORMAT_NUMBERS.items()]  # a list: `quantize` may be unhashable
    if (quantize, number) not in known or not isinstance(fields, dict):
        raise InputError(
            f"`{origin}` must have a `config` and one of the formats {FORMAT_NUMBERS}. "
            f"Received: format {number!r:.20}, quantize {quantize!r:.20}, config "
            f"{fields!r:.20}. Save the encoder again, or install the library that "
            "wrote it."
        )
    if unknown := sorted(record.keys() - KEYS):
        raise InputError(
            f"`{origin}` must have the keys {', '.join(sorted(KEYS))} alone. Received: "
            f"{unknown[0]!r:.60}. Remove it, or save the encoder anew."
        )
    fields = dict(fields)
    if fields.pop("word_branch", False):  # a field that older encoders have
        raise InputError(
            f"`{origin}` must describe an encoder without a bag-of-words branch, which "
            "this library no longer has. Received: word_branch=true. Use the library "
            "that wrote it, or train another encoder."
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
    # By the axes of a weight's scales: 4 bits have one for each group of columns.
    dtypes = {0: FLOATS, 1: INT8, 2: UINT8}
    for name, shape in stored.items():
        files.check(name, shape, dtypes[len(stored.get(name + SCALES, ()))])
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
    lost = [CONFIG]
    if checked_content(record, CONFIG) is not None and isinstance(files, dict):
        # Names come from the file: they are found here, never looked up elsewhere.
        here = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        lost = sorted(files.keys() - here) or changed_files(folder, files)
    if lost:
        raise InputError(
            f"`{folder / lost[0]!s:.200}` must be as it was written. Received: a file "
            "that is gone or changed. Copy the folder anew; or, if you changed it "
            f"yourself, take `seal` and `files` out of {CONFIG}."
        )


def bits_of(path: str, shape: tuple[int, ...], quantize: str) -> int | None:
    """Return the bits of a weight's numbers, None for one that stays as it is.

    A kernel whose inputs are no multiple of 32 has 8 bits, as in LiteRT files.

    Args:
        path: Of the weight.
        shape: Its shape.
        quantize: "int8", "int4_table" or "int4".
    """
    scheme = SCHEMES[quantize]
    if path == WORD:
        return BITS[scheme.table]
    if not path.endswith(KERNELS):
        return None
    return kernel_bits(scheme.blocks, math.prod(shape) // outputs(path, shape))


def stored_shapes(
    shapes: Mapping[str, tuple[int, ...]], quantize: str
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an encoder's weights and scales as they are stored.

    With 8 bits the word table has a scale for each row and a kernel one for each
    output. With 4 bits both have one for each group of columns of a row, see
    `quantize_table`; a row of a kernel belongs to an output. Biases, norms, positions
    and types have none and stay float32.

    Args:
        shapes: Of an encoder's weights, by their paths.
        quantize: "int8", "int4_table" or "int4".
    """
    stored = dict(shapes)
    for path, shape in shapes.items():
        bits = bits_of(path, shape, quantize)
        rows = shape[0] if path == WORD else outputs(path, shape)
        if bits == 4:
            width = math.prod(shape) // rows
            stored[path], stored[path + SCALES] = int4_shapes(rows, width)
        elif bits == 8:
            stored[path + SCALES] = (rows,)
    return stored


def to_stored(
    weights: Mapping[str, np.ndarray], quantize: str
) -> dict[str, np.ndarray]:
    """Return an encoder's weights as they are stored.

    Args:
        weights: float32, finite, by their paths.
        quantize: "int8", "int4_table" or "int4".

    Returns:
        Contiguous arrays by the names of `stored_shapes`: integers and their scales,
        and the other weights as they are.
    """
    stored = dict(weights)
    for path, weight in weights.items():
        bits = bits_of(path, weight.shape, quantize)
        if bits is None:
            continue
        rows = weight if path == WORD else matrix(path, weight).T
        table = quantize_table(rows, bits)
        numbers, scales = table.values, table.scales
        if bits == 8:
            scales = scales[:, 0]
            if path != WORD:
                numbers = numbers.T.reshape(weight.shape)
        stored[path] = np.ascontiguousarray(numbers)
        stored[path + SCALES] = np.ascontiguousarray(scales)
    return stored


def from_stored(
    path: str,
    numbers: np.ndarray,
    scales: np.ndarray,
    shape: tuple[int, ...],
    origin: str,
) -> np.ndarray:
    """Return the float32 weight that `to_stored` stored.

    Args:
        path: Of the weight.
        numbers: The stored integers.
        scales: Their scales.
        shape: The weight's.
        origin: The file, named in errors.

    Raises:
        InputError: A scale is not above zero, or so large that a weight is infinite.
    """
    with np.errstate(over="ignore"):
        if scales.ndim == 1:
            by_weight = scales[:, np.newaxis] if path == WORD else scales
            weight = matrix(path, numbers) * by_weight
        else:
            width = math.prod(shape) // len(scales)
            values = numbers.astype(np.uint8)  # read as float32
            rows = StoredTable(values, scales, width, bits=4).dequantize()
            weight = rows if path == WORD else rows.T
    if not (scales > 0).all() or not np.isfinite(weight).all():
        raise InputError(
            f"`{path}{SCALES}` in {origin} must be above 0 and give finite weights. "
            f"Received: {scales.min():g} to {scales.max():g}. Copy the file anew, or "
            "save the encoder anew."
        )
    return weight.reshape(shape)
