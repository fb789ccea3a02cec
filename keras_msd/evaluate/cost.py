"""What an encoder costs: parameters, bytes of its weights, sentences a second."""

import statistics
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from keras_msd import checks
from keras_msd.evaluate.vectors import SentenceEncoder

TABLE = ("embedding/word", "embedding/projection")


class HasModel(Protocol):
    """Anything with a Keras model as `model`."""

    model: Any


def cost(encoder: HasModel) -> dict[str, int]:
    """Count parameters and bytes; a shared weight counts once.

    Args:
        encoder: An encoder, or anything else with a Keras model as `model`.

    Returns:
        `{"parameters", "bytes", "table_bytes"}`: bytes of the weights as they stand in
        memory; `table_bytes` is the part of the word table and its projection.
    """
    weights = {id(weight): weight for weight in encoder.model.weights}.values()
    sizes = [int(np.prod(weight.shape, dtype=np.int64)) for weight in weights]
    each = [
        size * np.dtype(_stored(weight.dtype)).itemsize
        for size, weight in zip(sizes, weights, strict=True)
    ]
    table = [
        size
        for size, weight in zip(each, weights, strict=True)
        if weight.path.endswith(TABLE)
    ]
    return {"parameters": sum(sizes), "bytes": sum(each), "table_bytes": sum(table)}


def speed(
    encoder: SentenceEncoder, sentences: Sequence[str], repeats: int = 3
) -> dict[str, Any]:
    """Time `encode`: the median of some passes after one that is not timed.

    The result depends on the machine and its load, so it belongs to `timings.json`.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        sentences: What is encoded in each pass, one or more.
        repeats: Timed passes, at least 1.

    Returns:
        `{"sentences_per_second", "sentences", "seconds"}`, seconds of one pass.

    Raises:
        InputError: `sentences` is empty or `repeats` below 1.
    """
    checks.at_least(1, repeats=repeats, sentences=len(sentences))
    sentences = list(sentences)
    encoder.encode(sentences)
    passes = []
    for _ in range(repeats):
        began = time.perf_counter()
        encoder.encode(sentences)
        passes.append(time.perf_counter() - began)
    seconds = statistics.median(passes)
    return {
        "sentences_per_second": round(len(sentences) / seconds, 1),
        "sentences": len(sentences),
        "seconds": round(seconds, 4),
    }


def _stored(dtype: str) -> str:
    """Return a NumPy dtype as wide as `dtype`; NumPy itself has no bfloat16."""
    return "float16" if dtype == "bfloat16" else dtype
