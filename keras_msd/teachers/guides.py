"""Guides made of an encoder's embedding block, or of several teachers."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import keras
import numpy as np

from keras_msd.arrays import unit_rows
from keras_msd.checks import InputError, above, sentences
from keras_msd.io.files import digest
from keras_msd.layers.pooling import Pooling
from keras_msd.models.network import forward_pass, use_xla


class EmbeddingGuide:
    """The embedding block of an encoder, without a transformer layer.

    `encode` returns the masked mean of the token vectors, `(n, hidden_dim)`, as in the
    authors' code. With `per_token`, it returns the token vectors joined in a row and
    padded with zeros, `(n, max_length * hidden_dim)`.

    Args:
        encoder: The assistant.
        per_token: Whether to return every token vector instead of their mean.

    Source: Ding et al. 2022, eq. 3.

    Example:
        >>> guide = msd.testing.tiny_encoder().embedding_guide()
        >>> guide.encode(["The cat sleeps."]).shape
        (1, 16)
    """

    def __init__(self, encoder: Any, per_token: bool = False) -> None:
        config = encoder.config
        self.encoder, self.per_token = encoder, per_token
        self.dim = config.hidden_dim * (config.max_length if per_token else 1)
        block = encoder.model.get_layer("embedding")
        inputs = encoder.model.input
        hidden = block(inputs["token_ids"])
        mask = inputs["padding_mask"]
        if per_token:
            hidden = hidden * keras.ops.cast(mask, hidden.dtype)[..., None]
        else:
            hidden = Pooling("mean", name="mean")(hidden, mask)
        self.model = keras.Model(inputs, hidden)
        self.model.jit_compile = use_xla()
        self._forward = forward_pass(self.model)

    @property
    def fingerprint(self) -> str:
        """Hash of the encoder and of the way it is pooled."""
        kind = "per token" if self.per_token else "pooled"
        return digest("embedding guide", kind, self.encoder.fingerprint)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return one row per sentence, float32 `(n, dim)`.

        Raises:
            InputError: `texts` is a single string or holds something else.
        """
        texts = [self.encoder.default_prompt + text for text in sentences(texts)]
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for rows, batch in self.encoder._batches(texts, 256):
            block = self._forward(batch).reshape(len(rows), -1)
            vectors[rows, : block.shape[1]] = block
        return vectors


class JointTeacher:
    """Several teachers as one.

    The cosine of two of its vectors is the weighted mean of the teachers' own cosines,
    because each part has a length of its own that depends on its weight alone.

    Teachers spread their cosines differently: those of multilingual-e5-small lie
    between 0.7 and 1, so that it counts for little beside another. With `center` each
    teacher's cosines are standardised: the mean of its vectors of these texts is
    subtracted, and the length of its part is such that the cosines of any two of the
    texts spread as much as another teacher's.

    Args:
        guides: Two or more objects with `encode(texts)`, `dim` and `fingerprint`, such
            as `load_teacher` gives.
        weights: How much each counts; by default the same.
        center: Texts, two or more and better thousands, of the kind that will be
            encoded. None: cosines are added as they are.

    Raises:
        InputError: There are fewer than two guides or texts, another number of weights,
            a weight that is not above 0, or no language that all guides read.

    Source: ours.

    Example:
        >>> narrow = msd.load_teacher("hashed-words", dim=8)
        >>> wide = msd.load_teacher("hashed-words", dim=64)
        >>> both = msd.teachers.JointTeacher([narrow, wide], weights=[1, 3])
        >>> texts = ["The cat.", "The dog."]
        >>> vectors = both.encode(texts)
        >>> ours = float(vectors[0] @ vectors[1])
        >>> a, b = (guide.encode(texts) for guide in (narrow, wide))
        >>> bool(abs(ours - (a[0] @ a[1] + 3 * b[0] @ b[1]) / 4) < 1e-6), both.dim
        (True, 72)
    """

    normalized = True

    def __init__(
        self,
        guides: Sequence[Any],
        weights: Sequence[float] | None = None,
        center: Iterable[str] | None = None,
    ) -> None:
        self.guides = list(guides)
        weights = [1.0] * len(self.guides) if weights is None else list(weights)
        if len(self.guides) < 2 or len(weights) != len(self.guides):
            raise InputError(
                "A joint teacher needs two teachers or more, and a weight for each if "
                f"any. Received: {len(self.guides)} teachers, {len(weights)} weights."
            )
        above(0, **{f"weights[{i}]": weight for i, weight in enumerate(weights)})
        self.languages = _common_languages(self.guides)
        texts = None if center is None else sentences(center, "center")
        if texts is not None and len(set(texts)) < 2:
            raise InputError(
                "`center` must hold two different texts or more. Received: "
                f"{len(set(texts))}. Give some thousand."
            )
        parts = [guide.fingerprint for guide in self.guides]
        # Not the means: their last digits depend on the machine.
        parts += [repr([float(weight) for weight in weights]), *(texts or ())]
        self.fingerprint = digest("joint", *parts)
        self._texts, self._weights = texts, np.array(weights)

    @cached_property
    def _means_and_lengths(self) -> list[tuple[Any, float]]:
        """What is subtracted from each guide's vectors, and the length of its part."""
        fitted: list[tuple[Any, float]] = [(0.0, 1.0)] * len(self.guides)
        if self._texts is not None:
            fitted = [_fit(guide.encode(self._texts)) for guide in self.guides]
        shares = self._weights / [spread for _, spread in fitted]
        lengths = np.sqrt(shares / shares.sum())
        means = (mean for mean, _ in fitted)
        return list(zip(means, lengths, strict=True))

    @property
    def dim(self) -> int:
        """Width of a vector: that of all teachers together."""
        return sum(guide.dim for guide in self.guides)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return one vector of length one per sentence, float32 `(n, dim)`.

        Raises:
            InputError: `texts` is a single string or holds something else.
        """
        texts = sentences(texts)
        parts = [
            unit_rows(guide.encode(texts) - mean) * length
            for guide, (mean, length) in zip(
                self.guides, self._means_and_lengths, strict=True
            )
        ]
        return np.concatenate(parts, axis=1).astype(np.float32)


def _common_languages(guides: list[Any]) -> tuple[str, ...] | None:
    """Return the languages that all guides read; None for any."""
    known: list[tuple[str, ...]] = [
        guide.languages for guide in guides if getattr(guide, "languages", None)
    ]
    if not known:
        return None
    common = tuple(c for c in known[0] if all(c in codes for codes in known))
    if not common:
        raise InputError(
            "The teachers of a joint teacher must have a language in common. Received: "
            f"{' and '.join(', '.join(codes) for codes in known)}."
        )
    return common


def _fit(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the mean of vectors, and how far cosines spread once it is subtracted.

    The spread is the standard deviation of the cosines of all pairs of texts, a text
    with itself included. It comes from the second moment of the vectors, whose squared
    norm is the mean of all squared cosines.
    """
    mean = vectors.mean(axis=0)
    unit = unit_rows(vectors - mean)
    moment = unit.T @ unit / len(unit)
    average = unit.mean(axis=0)
    variance = float((moment * moment).sum() - (average @ average) ** 2)
    return mean, float(np.sqrt(variance))
