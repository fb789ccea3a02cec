"""Means of two encoders' weights."""

import numpy as np
import pytest
from random_encoder import random_encoder

from keras_msd.checks import InputError
from keras_msd.models.average import average_weights
from keras_msd.models.trim import keep_tokens, trim_vocabulary
from keras_msd.testing import tiny_encoder, tiny_tokenizer

WORD = "embedding/word"
TEXTS = ["The cat sleeps.", "A dog runs."]


@pytest.fixture(scope="module")
def pair():
    tokenizer = tiny_tokenizer()
    rows = tokenizer.vocabulary_size + 3  # spare rows, which no token has
    encoder, other = (random_encoder(tokenizer, vocabulary_size=rows) for _ in "ab")
    random = np.random.default_rng(1)
    other.set_weights(
        {path: random.permuted(value) for path, value in other.weights().items()}
    )
    return encoder, other


def test_every_weight_is_the_mean(pair):
    encoder, other = pair
    made = average_weights(encoder, other, 0.3).weights()
    others = other.weights()
    for path, value in encoder.weights().items():
        size = encoder.tokenizer.vocabulary_size if path == WORD else None
        expected = 0.7 * value[:size] + 0.3 * others[path][:size]
        np.testing.assert_allclose(made[path][:size], expected, rtol=1e-5, atol=1e-7)
        assert not np.array_equal(value, others[path])


@pytest.mark.parametrize(("share", "same"), [(0, 0), (1, 1)])
def test_all_of_one_is_that_one(pair, share, same):
    made = average_weights(*pair, share)
    np.testing.assert_allclose(
        made.encode(TEXTS), pair[same].encode(TEXTS), rtol=1e-5, atol=1e-6
    )


def test_rows_are_matched_by_token(pair):
    encoder, other = pair
    trimmed = trim_vocabulary(encoder, TEXTS)
    tokens = trimmed.tokenizer.pieces()
    rows = [other.tokenizer.pieces().index(token) for token in tokens]
    assert rows != list(range(len(rows)))
    made = average_weights(trimmed, other, 0.5)
    same = average_weights(trimmed, keep_tokens(other, rows), 0.5)
    np.testing.assert_array_equal(made.weights()[WORD], same.weights()[WORD])
    assert made.tokenizer.fingerprint == trimmed.tokenizer.fingerprint


def test_what_cannot_be_averaged_is_refused(pair):
    encoder, other = pair
    with pytest.raises(InputError, match=r"from 0 to 1\. Received: share=1\.5"):
        average_weights(encoder, other, 1.5)
    with pytest.raises(InputError, match="share=nan"):
        average_weights(encoder, other, float("nan"))
    with pytest.raises(InputError, match="tokens that it lacks"):
        average_weights(encoder, trim_vocabulary(other, TEXTS), 0.5)
    with pytest.raises(InputError, match="other shapes of body/"):
        average_weights(tiny_encoder(), tiny_encoder(num_heads=1, num_layers=1), 0.5)
    with pytest.raises(InputError, match=r"averaged\. Received: str"):
        average_weights(encoder, "e5-small", 0.5)
