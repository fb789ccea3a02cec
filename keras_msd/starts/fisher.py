"""How much an encoder's vectors depend on each direction of its token embeddings."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_msd.models.encoder import Encoder
from keras_msd.progress import track
from keras_msd.starts.width import some_texts, token_sums


def fisher_information(
    encoder: Encoder, texts: Iterable[str], seed: int = 0
) -> np.ndarray:
    """Return the mean Fisher information of a token's embedding, `(dim, dim)`.

    With the Jacobian J of a sentence's vector by the embedding of one of its tokens,
    which is the sum of word, position and type before the LayerNorm, it is the mean of
    `J' J` over all tokens. So `e G e'` estimates the squared error of the vector if
    each token's embedding is wrong by `e`, errors of different tokens being
    independent. Each J is multiplied by one random vector: its product with itself has
    the same mean.

    Args:
        encoder: Any encoder whose table has `hidden_dim` columns or a bottleneck.
        texts: Some thousand sentences like those that will be encoded, with the prompt
            if there is one.
        seed: Of the random vectors.

    Returns:
        G, float64 `(hidden_dim, hidden_dim)`, symmetric.

    Raises:
        InputError: There are no texts, or the encoder is an artefact.

    Source: Hsu et al. 2022 (Fisher-weighted SVD), who take the diagonal for the loss of
        a task; here it is the whole matrix, for a squared error of the vectors.

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> texts = ["The cat sleeps.", "Die Katze schläft."]
        >>> msd.starts.fisher_information(encoder, texts).shape
        (16, 16)
    """
    encoder = getattr(encoder, "keras_encoder", encoder)
    model, draw = encoder.model, np.random.default_rng(seed)
    block = model.get_layer("embedding")
    rest = keras.Model([block.output, model.inputs[0]], model.output)

    def weighted(tokens: Any, mask: Any, weights: Any) -> Any:
        """Return the sum of all vectors' products with random ones."""
        hidden = block.normalization(tokens) if block.normalization else tokens
        return ops.sum(rest([hidden, mask], training=False) * weights)

    gradient = _gradient(weighted)
    width = encoder.config.hidden_dim
    total, count = np.zeros((width, width)), 0
    sums = [*token_sums(encoder, encoder.weights(), some_texts(texts))]
    for tokens in track(sums, total=len(sums), what="Fisher information"):
        mask = np.ones(tokens.shape[:2], np.int32)
        weights = draw.standard_normal((len(tokens), encoder.dim), np.float32)
        slopes = gradient(*map(ops.convert_to_tensor, (tokens, mask, weights)))
        slopes = ops.convert_to_numpy(slopes).reshape(-1, width).astype(np.float64)
        total += slopes.T @ slopes
        count += len(slopes)
    return total / count


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradient of a scalar function by its first argument."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(function)
    import tensorflow as tf

    def gradient(of: Any, *others: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(of)
            value = function(of, *others)
        return tape.gradient(value, of)

    return gradient
