"""int8 weights of a saved encoder, with float32 scales."""

from collections.abc import Mapping

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.network import KERNELS, WORD, matrix, outputs
from keras_msd.quantization import BITS, to_integers

SCALES = "/scales"  # follows the path of the weight


def scale_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int]]:
    """Return the shapes of the scales, by their names.

    The word table has one for each row, a kernel one for each output. Biases, norms,
    positions and types have none and stay float32.

    Args:
        shapes: Of an encoder's weights, by their paths.
    """
    return {
        path + SCALES: (shape[0] if path == WORD else outputs(path, shape),)
        for path, shape in shapes.items()
        if path == WORD or path.endswith(KERNELS)
    }


def to_int8(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return an encoder's weights as they are stored in eight bits.

    Args:
        weights: float32, finite, by their paths.

    Returns:
        Contiguous arrays: under its path, a weight that has scales as int8 of the same
        shape and any other as it is; under the name of its scales, those.
    """
    stored = dict(weights)
    for name in scale_shapes({path: weights[path].shape for path in weights}):
        path = name.removesuffix(SCALES)
        rows = weights[path] if path == WORD else matrix(path, weights[path]).T
        numbers, scales = to_integers(rows, BITS["int8"], group=rows.shape[1])
        numbers = numbers if path == WORD else numbers.T
        stored[path] = np.ascontiguousarray(numbers).reshape(weights[path].shape)
        stored[name] = np.ascontiguousarray(scales[:, 0])
    return stored


def from_int8(
    path: str, numbers: np.ndarray, scales: np.ndarray, origin: str
) -> np.ndarray:
    """Return the float32 weight that `to_int8` stored.

    Args:
        path: Of the weight.
        numbers: Of the weight's shape.
        scales: As `scale_shapes` says.
        origin: The file, named in errors.

    Raises:
        InputError: A scale is not above zero, or so large that a weight is infinite.
    """
    if not (scales > 0).all():
        row = int(np.argmin(scales > 0))
        raise InputError(
            f"`{path}{SCALES}` in {origin} must be above 0. Received: {scales[row]:g} "
            f"at position {row}. Copy the file anew, or save the encoder anew."
        )
    by_row = scales[:, np.newaxis] if path == WORD else scales
    with np.errstate(over="ignore"):
        weight = matrix(path, numbers) * by_row
    if not np.isfinite(weight).all():
        raise InputError(
            f"`{path}` in {origin} must be finite. Received: scales of up to "
            f"{scales.max():g}. Copy the file anew, or save the encoder anew."
        )
    return weight.reshape(numbers.shape)
