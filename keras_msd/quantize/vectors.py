"""Embeddings in fewer bytes."""

import numpy as np

from keras_msd.checks import InputError, one_of

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
LEVELS = 255  # steps of an 8-bit integer
MIDDLE = 128  # subtracted so that codes fit into int8


def quantize_embeddings(
    embeddings: np.ndarray,
    precision: str,
    ranges: np.ndarray | None = None,
    calibration_embeddings: np.ndarray | None = None,
) -> np.ndarray:
    """Store embeddings in fewer bytes, with the numbers of sentence-transformers.

    Args:
        embeddings: Real numbers `(n, dim)`.
        precision: "int8" or "uint8": 255 equal steps between the lowest and the highest
            value of each dimension. "binary" or "ubinary": one bit per dimension, 1 if
            it is above 0, eight bits in a byte. "float32": unchanged.
        ranges: For integers, the lowest and the highest value of each dimension, `(2,
            dim)`. Values outside become the nearest step.
        calibration_embeddings: `(m, dim)`, from which `ranges` are computed. Without
            both, they are computed from `embeddings`; then only vectors of the same
            call are comparable.

    Returns:
        int8 or uint8 `(n, dim)`, for bits `(n, ceil(dim / 8))`; or float32.

    Raises:
        InputError: `precision` is unknown, `ranges` has another shape, or ranges would
            have to be computed from a single embedding.

    Source: `quantize_embeddings` of sentence-transformers 6.2.

    Example:
        >>> vectors = np.array([[-1.0, 0.5], [1.0, -0.5], [0.0, 0.5]])
        >>> msd.quantize_embeddings(vectors, "int8").tolist()
        [[-128, 126], [126, -128], [-1, 126]]
        >>> msd.quantize_embeddings(vectors, "ubinary").tolist()
        [[64], [128], [64]]
    """
    one_of(PRECISIONS, precision=precision)
    vectors = np.asarray(embeddings, np.float32)
    if precision == "float32":
        return vectors
    if precision.endswith("binary"):
        bits = np.packbits(vectors > 0, axis=-1)
        return bits if precision == "ubinary" else (bits - MIDDLE).astype(np.int8)
    if ranges is None and len(vectors):
        sample = vectors if calibration_embeddings is None else calibration_embeddings
        if len(sample) < 2:
            raise InputError(
                "The range of each dimension needs two embeddings or more. Received: "
                f"{len(sample)}. Give `quantize_embeddings` the argument "
                "`calibration_embeddings`, or use precision='binary'."
            )
        ranges = np.stack([np.min(sample, axis=0), np.max(sample, axis=0)])
    if ranges is None:
        ranges = np.zeros((2, vectors.shape[1]))
    if np.shape(ranges) != (2, vectors.shape[1]):
        raise InputError(
            f"`ranges` must have the shape (2, {vectors.shape[1]}). Received: "
            f"{np.shape(ranges)}."
        )
    low, high = np.asarray(ranges, np.float32)
    steps = (high - low) / LEVELS
    steps = np.where(steps == 0, 1, steps).astype(np.float32)
    codes = np.clip(np.floor((vectors - low) / steps), 0, LEVELS)
    if precision == "uint8":
        return codes.astype(np.uint8)
    return (codes - MIDDLE).astype(np.int8)
