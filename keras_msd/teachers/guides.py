"""An encoder's embedding block as a guide."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_msd.checks import sentences
from keras_msd.files import digest
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
        texts = [self.encoder.prefix + text for text in sentences(texts)]
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for rows, batch in self.encoder._batches(texts, 256):
            block = self._forward(batch).reshape(len(rows), -1)
            vectors[rows, : block.shape[1]] = block
        return vectors
