"""Floating-point operations of a training step, and the most that a device makes."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

TRAINING = 3  # a step's operations, in those of its forward pass


def step_operations(config: Any, lengths: np.ndarray, whole: bool = True) -> float:
    """Return the operations of a step: three times those of the forward pass.

    Products of matrices alone are counted, those of padding are not.

    Args:
        config: An `EncoderConfig`.
        lengths: Tokens of each sentence of the batch, `(n,)`.
        whole: Whether the network is run, or its embedding block alone.
    """
    lengths = np.asarray(lengths, float)
    tokens, width, narrow = lengths.sum(), config.hidden_dim, config.bottleneck_dim
    count = 2 * narrow * width * tokens if narrow else 0.0
    if whole:
        layer = 2 * (4 * width**2 + 2 * width * config.intermediate_dim) * tokens
        scores = 4 * width * (lengths**2).sum()  # of a token with all others, and back
        count += config.depth * (layer + scores)
        heads = [width] if config.projection_dim else []
        heads += [narrow] if config.word_branch else []
        count += 2 * sum(heads) * config.dim * len(lengths)
    return TRAINING * count


def best(product: Callable[[], Any], side: int, rounds: int) -> float:
    """Return the largest GFLOP/s of a product of two matrices of that side."""
    product()
    least = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        product()
        least = min(least, time.perf_counter() - began)
    return 2 * side**3 / least / 1e9
