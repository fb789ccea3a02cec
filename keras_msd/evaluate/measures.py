"""Vectors of sentences, and what is measured of them and of an encoder."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from keras_msd import checks
from keras_msd.arrays import similarity_pairs
from keras_msd.checks import InputError

DECIMALS = 10  # cosines are rounded, so that those that differ in the last bits tie
TABLE = ("embedding/word", "embedding/projection")  # ends of its weights' paths


class SentenceEncoder(Protocol):
    """Anything that turns sentences into vectors."""

    def encode(self, texts: list[str], /) -> np.ndarray:
        """Return one vector per sentence: `(n, dim)`."""
        ...


def side_of(encoder: SentenceEncoder, side: str) -> Callable[..., np.ndarray]:
    """Return what encodes the "query" or the "document" side of a search.

    With the side's prompt, if the encoder has prompts; `encode`, if it has none.
    """
    method: Callable[..., np.ndarray] = getattr(
        encoder, f"encode_{side}", encoder.encode
    )
    return method


def encoded(encode: Callable[[list[str]], np.ndarray], texts: list[str]) -> np.ndarray:
    """Return the checked vectors of `texts`, `(n, dim)`.

    Args:
        encode: From texts to one vector for each; `encode` of an encoder as a rule.
        texts: The texts.

    Raises:
        InputError: The vectors have the wrong shape, or contain NaN or infinity.
    """
    vectors = np.asarray(encode(texts))
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            "`encode` must return one vector per sentence. Received: shape "
            f"{vectors.shape} for {len(texts)} sentences."
        )
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if broken.size:
        raise InputError(
            "Vectors must be finite. Received: NaN or infinity for "
            f"{broken.size} of {len(texts)} sentences, the first "
            f"{texts[broken[0]]!r:.60}. Train with a lower learning rate, or "
            "use the weights of an earlier stage."
        )
    return vectors


class SentenceVectors:
    """Vectors for a set of sentences.

    Args:
        encode: From texts to one vector for each.
        sentences: The sentences; each distinct one is encoded once.

    Raises:
        InputError: The vectors have the wrong shape, or contain NaN or infinity.
    """

    def __init__(
        self, encode: Callable[[list[str]], np.ndarray], sentences: Iterable[str]
    ) -> None:
        distinct = list(dict.fromkeys(sentences))
        self._rows = {sentence: row for row, sentence in enumerate(distinct)}
        self._vectors = encoded(encode, distinct).astype(np.float64)

    def __call__(self, sentences: Iterable[str]) -> np.ndarray:
        """Return float64 `(n, dim)`."""
        return self._vectors[[self._rows[sentence] for sentence in sentences]]


def similarities(
    left: np.ndarray, right: np.ndarray, name: str = "cosine"
) -> np.ndarray:
    """Return the similarity between rows i of two arrays, `(n,)`, rounded."""
    return np.round(similarity_pairs(name, left, right), DECIMALS)


def by_cosine(encoder: SentenceEncoder, what: str) -> None:
    """Raise `InputError` if an encoder's vectors are not compared by cosine.

    The dot product of vectors of length one is their cosine.

    Args:
        encoder: Has a `similarity_fn_name`, or none.
        what: Subject of the rule.
    """
    name = getattr(encoder, "similarity_fn_name", "cosine")
    units = bool(getattr(encoder, "normalized", False))
    if name == "cosine" or (name == "dot" and units):
        return
    raise InputError(
        f"{what} compares vectors by cosine. Received: an encoder with "
        f"similarity_fn_name={name!r}. Compare with `encoder.similarity`; or, if you "
        'want cosines, load it with `load_encoder(..., similarity_fn_name="cosine")` '
        "(and save it, for the command line)."
    )


def percent(share: float) -> float:
    """Return `share` x100, to four decimals."""
    return round(100 * float(share), 4)


def mean_score(scores: Iterable[float]) -> float:
    """Return the unweighted mean of some scores, to four decimals."""
    return round(float(np.mean(list(scores))), 4)


def over_tracks(
    scores: Mapping[str, Mapping[str, Any]], means: Iterable[str], sums: Iterable[str]
) -> dict[str, Any]:
    """Combine the scores of several languages.

    Args:
        scores: The scores of each language, by the name of its track.
        means: Keys to average; the first one is the primary score.
        sums: Keys to add up.
    """
    primary, *_ = means = list(means)
    single = list(scores.values())
    return {
        **{key: mean_score(score[key] for score in single) for key in means},
        **{key: sum(score[key] for score in single) for key in sums},
        "tracks": {name: score[primary] for name, score in scores.items()},
        "primary": primary,
    }


def mse(
    encoder: SentenceEncoder, teacher_vectors: np.ndarray, texts: Iterable[str]
) -> dict[str, Any]:
    """Return the mean squared error between an encoder's vectors and its teacher's.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        teacher_vectors: The teacher's vectors of the source sentences, `(n, dim)`.
        texts: Texts for the encoder, one per vector: the translations, or the source
            sentences themselves.

    Returns:
        `{"mse": x100, "negative_mse": -mse, "sentences": n, "primary":
        "negative_mse"}`. The mean is over all n x dim squared differences, not rounded.

    Raises:
        InputError: There is no text, the shapes do not match, or a vector is not
            finite.

    Source: Reimers and Gurevych 2020; `MSEEvaluator` of sentence-transformers.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> vectors = encoder.encode(["A cat."])
        >>> scores = msd.evaluate.mse(encoder, vectors + 0.5, ["A cat."])
        >>> round(scores["mse"], 3), scores["primary"]
        (25.0, 'negative_mse')
    """
    texts = checks.sentences(texts)
    guides = np.asarray(teacher_vectors, np.float64)
    vectors = encoded(encoder.encode, texts).astype(np.float64)
    if not texts or guides.shape != vectors.shape:
        raise InputError(
            "`teacher_vectors` must have one vector per text, with the encoder's "
            f"dimension. Received: teacher {guides.shape}, encoder {vectors.shape}."
        )
    if not np.isfinite(guides).all():
        raise InputError("`teacher_vectors` must be finite. Received: NaN or infinity.")
    score = 100 * float(np.square(vectors - guides).mean())
    return {
        "mse": score,
        "negative_mse": -score,
        "sentences": len(texts),
        "primary": "negative_mse",
    }


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
        >>> from keras_msd.evaluate.measures import parameters_by_layer
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
