"""How often each token is expected in more texts of the same languages."""

import numpy as np

from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import parse

ROUNDS = 8  # of Newton's method
PENALTY = 1.0
EXAMPLES = 20_000  # tokens that do not occur


def expected_counts(
    tokenizer: Tokenizer, rows: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Return how often each token would occur in twice as much text.

    A few thousand sentences lack most words of their languages. The vocabulary of a
    unigram tokenizer has the probability of each token over all languages, and tokens
    of one language have embeddings of one kind. So logistic regression on the rows of
    the embedding table learns which tokens are like those that occur: positive are
    tokens that occur, negative are others, weighted by how often they would occur if
    the texts were of all languages. The expected count of a token is its own count plus
    the count that its probability gives, times the probability that it is like yours.

    Args:
        tokenizer: Tokenizer of the table. Other kinds than unigram give `counts`.
        rows: The embedding table, `(vocabulary_size, dim)`.
        counts: How often each token occurs, int `(vocabulary_size,)`.

    Returns:
        float64 `(vocabulary_size,)`.

    Source: ours.
    """
    if tokenizer.kind != "unigram":
        return counts.astype(np.float64)
    scores = np.full(len(counts), -np.inf)
    pieces = parse(tokenizer.definition).pieces
    for number, piece in enumerate(pieces, 1):  # ours are one more
        if piece.type == piece.NORMAL and number < len(scores):
            scores[number] = piece.score
    usual = np.exp(scores)
    usual *= counts.sum() / usual.sum()
    seen = counts > 0
    weights = np.where(seen, 1.0, np.minimum(usual, 1.0))
    return counts + usual * _probabilities(rows, seen, weights)


def _probabilities(
    rows: np.ndarray, seen: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Fit weighted logistic regression and return its probabilities, `(n,)`.

    `EXAMPLES` negatives, drawn by their weights, stand for all.
    """
    inputs = rows.astype(np.float32)
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std()
    inputs = np.c_[inputs, np.ones(len(inputs), np.float32)]
    others = np.where(seen, 0.0, weights)
    total = others.sum()
    drawn = np.random.default_rng(0).choice(len(others), EXAMPLES, p=others / total)
    some = np.concatenate([np.flatnonzero(seen), drawn])
    known, goal = inputs[some].astype(np.float64), seen[some]
    weight = np.where(goal, 1.0, total / EXAMPLES)
    penalty = np.full(inputs.shape[1], PENALTY)
    penalty[-1] = 1e-9  # the bias
    solution = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        found = _sigmoid(known @ solution)
        gradient = known.T @ (weight * (found - goal)) + penalty * solution
        slope = weight * found * (1 - found)
        curvature = (known * slope[:, None]).T @ known
        solution -= np.linalg.solve(curvature + np.diag(penalty), gradient)
    return _sigmoid(inputs @ solution)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    return result
