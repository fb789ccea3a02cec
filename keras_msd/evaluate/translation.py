"""How well a student does what it is taught: its teacher's vectors, translations."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError, sentences
from keras_msd.evaluate.retrieval import retrieval
from keras_msd.evaluate.vectors import SentenceEncoder, encoded


def mse(
    encoder: SentenceEncoder, teacher_vectors: np.ndarray, texts: Iterable[str]
) -> dict[str, Any]:
    """Score how far an encoder's vectors are from those of its teacher.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        teacher_vectors: What the teacher gives for the source sentences, `(n, dim)`.
        texts: What the encoder is given, one a vector: the translations, or the source
            sentences themselves.

    Returns:
        `{"mse": x100, "negative_mse": the same below zero, "sentences": n, "primary":
        "negative_mse"}`: the mean over all n x dim squared differences, not rounded.

    Raises:
        InputError: There is no text, or the shapes or numbers do not fit.

    Source: Reimers and Gurevych 2020; `MSEEvaluator` of sentence-transformers.
    """
    texts = sentences(texts)
    wanted = np.asarray(teacher_vectors, np.float64)
    vectors = encoded(encoder, texts).astype(np.float64)
    if not texts or wanted.shape != vectors.shape:
        raise InputError(
            "`teacher_vectors` must have one vector a text, as wide as the encoder's. "
            f"Received: teacher {wanted.shape}, encoder {vectors.shape}."
        )
    if not np.isfinite(wanted).all():
        raise InputError("`teacher_vectors` must be finite. Received: NaN or infinity.")
    score = 100 * float(np.square(vectors - wanted).mean())
    return {
        "mse": score,
        "negative_mse": -score,
        "sentences": len(texts),
        "primary": "negative_mse",
    }


def translation_accuracy(
    encoder: SentenceEncoder, pairs: Iterable[Sequence[str]]
) -> dict[str, Any]:
    """Score how often the nearest of all translations is a sentence's own.

    This is `retrieval` under the name it has as a development score.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        pairs: `(source, target)`, or `Pair`.

    Returns:
        `{"accuracy": x100, "source_to_target":, "target_to_source":, "pairs": n,
        "primary": "accuracy"}`; `accuracy` is the mean of both ways.

    Raises:
        InputError: As `retrieval`.

    Source: `TranslationEvaluator` of sentence-transformers.
    """
    found = retrieval(encoder, pairs)
    accuracy = found.pop("precision")
    return found | {"accuracy": accuracy, "primary": "accuracy"}
