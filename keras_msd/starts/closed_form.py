"""Encoders that need no gradient step: a word table and nothing that bends it."""

from typing import Any

import numpy as np

from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.tokenizers.base import Tokenizer

# A body that begins as the identity, and keeps the norms of the rows below it, which an
# embedding LayerNorm would flatten.
IDENTITY: dict[str, Any] = {
    "embedding_layer_norm": False,
    "normalize_first": True,
    "zero_residuals": True,
}


def closed_form_encoder(
    tokenizer: Tokenizer,
    word: np.ndarray,
    projection: np.ndarray | None = None,
    **fields: Any,
) -> Encoder:
    """Make the encoder whose vector is the direction of a sentence's mean word row.

    With `num_layers` above zero the body is pre-norm with zeroed residuals, hence the
    identity: training starts from the closed form.

    Args:
        tokenizer: The one that the table was fitted with.
        word: `(vocabulary_size, dim)`, or `(vocabulary_size, B)` with `projection`.
        projection: `(B, dim)`, or None.
        **fields: More fields of `EncoderConfig`, such as `num_layers`.

    Source: Zhang et al. 2019 (Fixup) for zeroed residuals; the use is ours.
    """
    hidden_dim = word.shape[1] if projection is None else projection.shape[1]
    own: dict[str, Any] = {
        "num_layers": 0,
        "num_heads": 1,
        "intermediate_dim": 1,
        "hidden_dim": hidden_dim,
        "bottleneck_dim": None if projection is None else word.shape[1],
        "pooling": "mean",
        "normalize": True,
    }
    encoder = new_encoder(tokenizer, **own | IDENTITY | fields)
    given = {"embedding/word": word}
    if projection is not None:
        given["embedding/projection"] = projection
    set_closed_form(encoder, given)
    return encoder


def set_closed_form(encoder: Encoder, given: dict[str, np.ndarray]) -> None:
    """Set the word table and other weights; positions and types become zero.

    Args:
        encoder: Its body is the `IDENTITY`, or it has none.
        given: Values by the names of weights, as `Encoder.weights` has them.
    """
    values = encoder.weights() | given
    for name in ("embedding/position", "embedding/type"):
        values[name] = np.zeros_like(values[name])
    encoder.set_weights(values, origin="the closed form")
