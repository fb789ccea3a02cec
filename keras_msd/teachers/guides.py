"""Guides made from others: an encoder's embedding block, and narrower vectors."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_msd.arrays import unit_rows
from keras_msd.checks import InputError, sentences
from keras_msd.files import digest
from keras_msd.layers.pooling import Pooling
from keras_msd.models.network import forward_pass, use_xla


class ReducedGuide:
    """A teacher with fewer numbers per vector: scored and imitated like any other.

    Args:
        guide: Has `encode(texts)`, `dim` and `fingerprint`.
        matrix: `(guide.dim, dim)`, as `starts.reduce_dimensions` returns it.

    Raises:
        InputError: The matrix does not fit the guide.

    Example:
        >>> teacher = msd.load_teacher("hashed-words", dim=8)
        >>> narrow = msd.teachers.ReducedGuide(teacher, np.eye(8, 4))
        >>> narrow.dim, narrow.encode(["A cat."]).shape
        (4, (1, 4))
    """

    def __init__(self, guide: Any, matrix: np.ndarray) -> None:
        self.guide, self.matrix = guide, np.asarray(matrix, np.float32)
        self.languages = getattr(guide, "languages", None)
        if self.matrix.ndim != 2 or len(self.matrix) != guide.dim:
            raise InputError(
                "`matrix` must be (guide.dim, dim). Received: shape "
                f"{self.matrix.shape}, guide.dim={guide.dim}."
            )

    @property
    def dim(self) -> int:
        """Width of a sentence vector."""
        return self.matrix.shape[1]

    @property
    def fingerprint(self) -> str:
        """Hash of the guide and the matrix."""
        return digest(self.guide.fingerprint, self.matrix.tobytes())

    def encode(self, texts: Iterable[str], **options: Any) -> np.ndarray:
        """Return float32 `(n, dim)`, of length one; a zero vector stays zero.

        Args:
            texts: Sentences.
            **options: As the guide's `encode` takes them.

        Raises:
            InputError: `texts` is a single string or holds something else.
        """
        return unit_rows(self.guide.encode(sentences(texts), **options) @ self.matrix)


class EmbeddingGuide:
    """The embedding block of an encoder, without a transformer layer.

    Pooled, `encode` gives the masked mean, `(n, hidden_dim)`, as the authors' code
    does. Per token it gives `(n, max_length * hidden_dim)`: the token vectors in a row,
    zeros after the last one.

    Args:
        encoder: The assistant.
        per_token: Whether token vectors are kept apart.

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
        texts = [self.encoder.prefix + text for text in sentences(texts)]
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for rows, batch in self.encoder._batches(texts, 256):
            block = self._forward(batch).reshape(len(rows), -1)
            vectors[rows, : block.shape[1]] = block
        return vectors
