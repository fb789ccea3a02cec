"""The word branch of an encoder, taken out, tuned alone and put back."""

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.starts.closed_form import closed_form_encoder
from keras_msd.starts.svd import bottleneck

ROW_NORM = 0.7  # a closed form's: a learning rate then means the same for all branches
PENALTY = 1e-9  # share of the largest entry: a table of lower rank has a solution


def branch_encoder(encoder: Encoder, frequencies: np.ndarray) -> Encoder:
    """Return the word branch alone, as an encoder without a body.

    A step of it costs a hundredth of the whole encoder's, so that batches can be large
    and many. Its table is the branch's own: as wide as the encoder's, but without the
    directions that only the body reads, which would take part of every step.

    Args:
        encoder: Has a word branch; it is not changed.
        frequencies: `(vocabulary_size,)`, how often each piece occurs.

    Raises:
        InputError: It has none.
    """
    weights = _checked(encoder).weights()
    word = weights["embedding/word"]
    rows = word @ weights["word_branch/projection"]
    word, projection = bottleneck(rows, word.shape[1], frequencies)
    word *= ROW_NORM / np.sqrt(np.square(word).sum(axis=1).mean())
    return closed_form_encoder(
        encoder.tokenizer,
        word,
        projection,
        max_length=encoder.max_length,
        dropout=encoder.config.dropout,
    )


def set_branch(encoder: Encoder, branch: Encoder, frequencies: np.ndarray) -> None:
    """Give an encoder, in place, the word table and projection of a tuned branch.

    The body shares the table. Its projection is fitted anew by least squares, rows
    weighted as in `bottleneck`, so that the body's input changes as little as it can.

    Args:
        encoder: Has a word branch.
        branch: What `branch_encoder` made from it, after training.
        frequencies: `(vocabulary_size,)`, how often each piece occurs.

    Raises:
        InputError: The encoder has no branch, or the tables differ in shape.
    """
    values, tuned = _checked(encoder).weights(), branch.weights()
    word, old = tuned["embedding/word"], values["embedding/word"]
    if word.shape != old.shape:
        raise InputError(
            "The branch must be the encoder's own. Received: word tables of "
            f"{old.shape} and {word.shape}. Make it with `branch_encoder(encoder)`."
        )
    wanted = old @ values["embedding/projection"]
    weights = np.sqrt(frequencies.astype(np.float64) + 1.0)[:, None]
    gram = word.T.astype(np.float64) @ (word * weights)
    gram[np.diag_indices_from(gram)] += PENALTY * gram.max()
    projection = np.linalg.solve(gram, word.T.astype(np.float64) @ (wanted * weights))
    values["embedding/word"] = word
    values["embedding/projection"] = projection.astype(np.float32)
    values["word_branch/projection"] = tuned["embedding/projection"]
    encoder.set_weights(values, origin="the tuned branch")


def _checked(encoder: Encoder) -> Encoder:
    if not encoder.config.word_branch:
        raise InputError(
            "The encoder must have a word branch. Received: word_branch=False. Make it "
            "with `word_branch=True` and a `bottleneck_dim`."
        )
    return encoder
