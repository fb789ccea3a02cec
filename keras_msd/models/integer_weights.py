"""Integer weights of a saved encoder, with float32 scales."""

from collections.abc import Mapping

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.network import KERNELS, WORD, matrix, outputs
from keras_msd.quantization import BITS, StoredTable, quantize_table, to_integers

SCALES = "/scales"  # follows the path of the weight
TABLE_BITS = {"int8": 8, "int4_table": 4}  # of the word table; kernels have 8


def stored_shapes(
    shapes: Mapping[str, tuple[int, ...]], quantize: str
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an encoder's weights and scales as they are stored.

    The word table has one scale for each row with 8 bits, and one for each group of
    columns with 4, see `quantize_table`. A kernel has one for each output. Biases,
    norms, positions and types have none and stay float32.

    Args:
        shapes: Of an encoder's weights, by their paths.
        quantize: A key of `TABLE_BITS`.
    """
    stored = dict(shapes)
    for path, shape in shapes.items():
        if path == WORD and TABLE_BITS[quantize] == 4:
            example = quantize_table(np.zeros((1, shape[1]), np.float32), 4)
            for name, of in ((path, example.values), (path + SCALES, example.scales)):
                stored[name] = (shape[0], of.shape[1])
        elif path == WORD:
            stored[path + SCALES] = (shape[0],)
        elif path.endswith(KERNELS):
            stored[path + SCALES] = (outputs(path, shape),)
    return stored


def to_stored(
    weights: Mapping[str, np.ndarray], quantize: str
) -> dict[str, np.ndarray]:
    """Return an encoder's weights as they are stored.

    Args:
        weights: float32, finite, by their paths.
        quantize: A key of `TABLE_BITS`.

    Returns:
        Contiguous arrays by the names of `stored_shapes`: integers and their scales,
        and the other weights as they are.
    """
    stored = dict(weights)
    for path, weight in weights.items():
        if path == WORD:
            table = quantize_table(weight, TABLE_BITS[quantize])
            by_row = table.bits == 8
            stored[path] = np.ascontiguousarray(table.values)
            scales = table.scales[:, 0] if by_row else table.scales
            stored[path + SCALES] = np.ascontiguousarray(scales)
        elif path.endswith(KERNELS):
            rows = matrix(path, weight).T
            numbers, scales = to_integers(rows, BITS["int8"], group=rows.shape[1])
            stored[path] = np.ascontiguousarray(numbers.T).reshape(weight.shape)
            stored[path + SCALES] = np.ascontiguousarray(scales[:, 0])
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
        if path != WORD:
            weight = matrix(path, numbers) * scales
        else:
            bits = 8 if scales.ndim == 1 else 4
            by_group = scales.reshape(len(scales), -1)
            weight = StoredTable(numbers, by_group, shape[1], bits).dequantize()
    if not np.isfinite(weight).all():
        raise InputError(
            f"`{path}` in {origin} must be finite. Received: scales of up to "
            f"{scales.max():g}. Copy the file anew, or save the encoder anew."
        )
    return weight.reshape(shape)
