"""Integer weights of a saved encoder, with their scales."""

import math
from collections.abc import Mapping

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.network import KERNELS, WORD, matrix, outputs
from keras_msd.quantization import INT4_GROUP, StoredTable, quantize_table, to_integers

SCALES = "/scales"  # follows the path of the weight
# Bits of kernels and of the word table.
SCHEMES = {"int8": (8, 8), "int4_table": (8, 4), "int4": (4, 4)}


def bits_of(path: str, shape: tuple[int, ...], quantize: str) -> int | None:
    """Return the bits of a weight's numbers, None for one that stays as it is.

    A kernel whose inputs are no multiple of 32 has 8 bits, as in LiteRT files.

    Args:
        path: Of the weight.
        shape: Its shape.
        quantize: A key of `SCHEMES`.
    """
    kernels, table = SCHEMES[quantize]
    if path == WORD:
        return table
    if not path.endswith(KERNELS):
        return None
    inputs = math.prod(shape) // outputs(path, shape)
    return 8 if inputs % INT4_GROUP else kernels


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
        quantize: A key of `SCHEMES`.
    """
    stored = dict(shapes)
    for path, shape in shapes.items():
        bits = bits_of(path, shape, quantize)
        rows = shape[0] if path == WORD else outputs(path, shape)
        if bits == 4:
            zeros = np.zeros((1, math.prod(shape) // rows), np.float32)
            example = quantize_table(zeros, 4)
            for name, of in ((path, example.values), (path + SCALES, example.scales)):
                stored[name] = (rows, of.shape[1])
        elif bits == 8:
            stored[path + SCALES] = (rows,)
    return stored


def to_stored(
    weights: Mapping[str, np.ndarray], quantize: str
) -> dict[str, np.ndarray]:
    """Return an encoder's weights as they are stored.

    Args:
        weights: float32, finite, by their paths.
        quantize: A key of `SCHEMES`.

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
        if bits == 4:
            table = quantize_table(rows, 4)
            numbers, scales = table.values, table.scales
        else:
            numbers, by_group = to_integers(rows, 8, group=rows.shape[1])
            scales = by_group[:, 0]
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
    if not (scales > 0).all():
        place = np.unravel_index(int(np.argmin(scales > 0)), scales.shape)
        raise InputError(
            f"`{path}{SCALES}` in {origin} must be above 0. Received: "
            f"{scales[place]:g} at position {', '.join(map(str, place))}. Copy the "
            "file anew, or save the encoder anew."
        )
    with np.errstate(over="ignore"):
        if scales.ndim == 1:
            by_weight = scales[:, np.newaxis] if path == WORD else scales
            weight = matrix(path, numbers) * by_weight
        else:
            width = math.prod(shape) // len(scales)
            rows = StoredTable(numbers, scales, width, bits=4).dequantize()
            weight = rows if path == WORD else rows.T
    if not np.isfinite(weight).all():
        raise InputError(
            f"`{path}` in {origin} must be finite. Received: scales of up to "
            f"{scales.max():g}. Copy the file anew, or save the encoder anew."
        )
    return weight.reshape(shape)
