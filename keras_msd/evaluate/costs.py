"""Cost of an encoder: parameters, bytes of weights, sentences per second."""

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.evaluate.vectors import SentenceEncoder

TABLE = ("embedding/word", "embedding/projection")


def cost(encoder: Any) -> dict[str, int]:
    """Count parameters and bytes; a shared weight counts once.

    Args:
        encoder: An encoder, or anything else with a Keras model as `model`.

    Returns:
        `{"parameters", "bytes", "table_bytes"}`: `bytes` is the size of the weights in
        memory, `table_bytes` that of the embedding table and its projection.

    Example:
        >>> msd.evaluate.cost(msd.testing.tiny_encoder())
        {'parameters': 6448, 'bytes': 25792, 'table_bytes': 5760}
    """
    counts = {"parameters": 0, "bytes": 0, "table_bytes": 0}
    for weight, size in _weights(encoder):
        # NumPy has no bfloat16.
        dtype = "float16" if weight.dtype == "bfloat16" else weight.dtype
        stored = size * np.dtype(dtype).itemsize
        counts["parameters"] += size
        counts["bytes"] += stored
        counts["table_bytes"] += stored if weight.path.endswith(TABLE) else 0
    return counts


def parameters_by_layer(encoder: Any) -> dict[str, int]:
    """Count the parameters of each layer; a shared weight counts once.

    Args:
        encoder: As for `cost`.

    Returns:
        Counts by the name of the layer. `embedding` includes positions, token types and
        normalisation; `body` contains the transformer layers.

    Example:
        >>> from keras_msd.evaluate.costs import parameters_by_layer
        >>> list(parameters_by_layer(msd.testing.tiny_encoder()))
        ['embedding', 'body']
    """
    counts: Counter[str] = Counter()
    for weight, size in _weights(encoder):
        counts[weight.path.partition("/")[0]] += size
    return dict(counts)


def _weights(encoder: Any) -> Iterator[tuple[Any, int]]:
    """Yield each weight once, with the number of its parameters."""
    for weight in {id(weight): weight for weight in encoder.model.weights}.values():
        yield weight, int(np.prod(weight.shape, dtype=np.int64))


def speed(
    encoder: SentenceEncoder, sentences: Sequence[str], repeats: int = 3
) -> dict[str, Any]:
    """Time `encode`: the median of several passes after one warm-up pass.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        sentences: One or more sentences, which each pass encodes.
        repeats: Number of timed passes, at least 1.

    Returns:
        `{"sentences_per_second", "sentences", "seconds"}`; `seconds` is the time of one
        pass.

    Raises:
        InputError: `sentences` is empty or `repeats` below 1.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> sorted(msd.evaluate.speed(encoder, ["A cat.", "It rains."], repeats=1))
        ['seconds', 'sentences', 'sentences_per_second']
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
