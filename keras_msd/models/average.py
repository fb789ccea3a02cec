"""Average the weights of an encoder with those of another that it was trained from."""

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import WORD


def average_weights(encoder: Encoder, other: Encoder, share: float) -> Encoder:
    """Return an encoder each of whose weights is a mean of two encoders' weights.

    If one was trained from the other, or both from one, a mean is often as good as the
    better of both at what either does well: so it gives back to a fine-tuned encoder
    what its backbone did better. Means of encoders without common weights are useless.

    The result has the tokens and settings of `encoder`. A token's embedding is averaged
    with that of the same token, whatever row that has in `other`.

    Args:
        encoder: An encoder; it is not changed.
        other: An encoder of the same shape with all tokens of `encoder`, or more.
        share: Of `other`, from 0 to 1.

    Raises:
        InputError: Shapes differ, `other` lacks tokens, or the share is not in [0, 1].

    Source: Wortsman et al. 2022, Robust fine-tuning of zero-shot models, equation 1
    (arXiv:2109.01903).

    Example:
        >>> first, last = msd.testing.tiny_encoder(), msd.testing.tiny_encoder()
        >>> mean = msd.models.average_weights(first, last, share=0.25)
        >>> path = "embedding/position"
        >>> made, a, b = (it.weights()[path] for it in (mean, first, last))
        >>> bool(np.allclose(made, 0.75 * a + 0.25 * b, atol=1e-6))
        True
    """
    encoder, other = (getattr(it, "keras_encoder", it) for it in (encoder, other))
    for it in (encoder, other):
        if not isinstance(it, Encoder):
            raise InputError(
                "Only encoders' weights can be averaged. Received: "
                f"{type(it).__name__}. Average the encoders, then export."
            )
    if not 0 <= share <= 1:
        raise InputError(f"`share` must be from 0 to 1. Received: share={share}.")
    weights, others = encoder.weights(), other.weights()
    known = {token: row for row, token in enumerate(other.tokenizer.pieces())}
    tokens = encoder.tokenizer.pieces()
    foreign = sum(token not in known for token in tokens)
    shapes, given = (  # a table may have any number of rows
        {(path, value.shape[path == WORD :]) for path, value in it.items()}
        for it in (weights, others)
    )
    if foreign or shapes != given:
        differ = {path for path, _ in shapes ^ given}
        raise InputError(
            "Weights are averaged with those of an encoder of the same shape that has "
            f"all tokens. Received: {foreign} tokens that it lacks; other shapes of "
            f"{', '.join(sorted(differ)[:3]) or 'no weights'}. Give the encoder "
            "that the first was trained from."
        )
    table = weights[WORD].copy()
    table[: len(tokens)] = others[WORD][[known[token] for token in tokens]]
    others[WORD] = table
    averaged = encoder.with_config(origin="average_weights")
    averaged.set_weights(
        {
            path: ((1 - share) * value + share * others[path]).astype(np.float32)
            for path, value in weights.items()
        },
        origin="the mean",
    )
    return averaged
