"""Linear bag-of-words encoders, fitted without gradient steps."""

from typing import Any

import numpy as np

from keras_msd.checks import InputError, at_least
from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.starts.tables import bottleneck, row_weights, word_rows
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

# Row norm of a ridge baseline. With it, one learning rate suits all branches.
ROW_NORM = 0.7
PENALTY = 1e-9  # share of the largest entry; needed for tables of lower rank
# Transformer layers that start as the identity and keep the norms of the embedding
# rows. An embedding LayerNorm would make these norms equal.
IDENTITY: dict[str, Any] = {
    "embedding_layer_norm": False,
    "normalize_first": True,
    "zero_residuals": True,
}
# Fields of an encoder that is an embedding table without layers.
LINEAR: dict[str, Any] = {
    "num_layers": 0,
    "embedding_layer_norm": False,
    "pooling": "mean",
    "projection_activation": "linear",
    "word_branch": False,
}


def closed_form_encoder(
    tokenizer: Tokenizer,
    word: np.ndarray,
    projection: np.ndarray | None = None,
    **fields: Any,
) -> Encoder:
    """Make a linear encoder: the normalised mean of a sentence's token embeddings.

    If `num_layers` is above 0, the transformer layers start as the identity (pre-norm
    with zeroed residuals). So training starts from the vectors of the linear encoder.

    Args:
        tokenizer: The tokenizer that the table was fitted with.
        word: Embedding table `(vocabulary_size, dim)`; with `projection`,
            `(vocabulary_size, bottleneck_dim)`.
        projection: `(bottleneck_dim, dim)`, or None.
        **fields: More fields of `EncoderConfig`, such as `num_layers`.

    Source: Zhang et al. 2019 (Fixup) for zeroed residuals; their use here is ours.

    Example:
        >>> tokenizer = msd.testing.tiny_tokenizer()
        >>> word = np.eye(tokenizer.vocabulary_size, 8, dtype="float32")
        >>> encoder = msd.starts.closed_form_encoder(tokenizer, word, max_length=32)
        >>> encoder.encode(["Good morning."]).shape, encoder.config.depth
        ((1, 8), 0)
    """
    hidden_dim = word.shape[1] if projection is None else projection.shape[1]
    defaults: dict[str, Any] = {
        "num_layers": 0,
        "num_heads": 1,
        "intermediate_dim": 1,
        "hidden_dim": hidden_dim,
        "bottleneck_dim": None if projection is None else word.shape[1],
        "pooling": "mean",
        "normalize": True,
    }
    encoder = new_encoder(tokenizer, **defaults | IDENTITY | fields)
    given = {"embedding/word": word, "embedding/projection": projection}
    values = {path: value for path, value in given.items() if value is not None}
    set_closed_form(encoder, values)
    return encoder


def set_closed_form(encoder: Encoder, given: dict[str, np.ndarray]) -> None:
    """Set the embedding table and other weights; positions and types become zero.

    Args:
        encoder: Encoder without transformer layers, or with the fields of `IDENTITY`.
        given: Values by the paths of the weights, as in `Encoder.weights`.
    """
    values = encoder.weights() | given
    for name in ("embedding/position", "embedding/type"):
        values[name] = np.zeros_like(values[name])
    encoder.set_weights(values, origin="the closed form")


def table_of(encoder: Encoder) -> np.ndarray:
    """Return the embedding table of a linear encoder, `(rows, dim)`.

    The encoder's vector of a sentence is the direction of the mean of its rows.

    Raises:
        InputError: The encoder is not linear.

    Example:
        >>> tokenizer = msd.testing.tiny_tokenizer()
        >>> word = np.eye(tokenizer.vocabulary_size, 8, dtype="float32")
        >>> encoder = msd.starts.closed_form_encoder(tokenizer, word, max_length=32)
        >>> np.array_equal(msd.starts.table_of(encoder), word)
        True
    """
    _check_fields(encoder, "be an embedding table without layers", **LINEAR)
    weights = encoder.weights()
    for name in ("embedding/position", "embedding/type", "projection/bias"):
        if np.any(weights.get(name, 0)):
            raise InputError(
                f"The encoder must be linear. Received: `{name}` is not zero. Use "
                '"tiny12" or a ridge baseline.'
            )
    rows = word_rows(weights)
    kernel = weights.get("projection/kernel")
    return rows if kernel is None else rows @ kernel


def weigh_rows(encoder: Encoder, frequencies: np.ndarray, smoothing: float) -> None:
    """Scale down the embeddings of frequent tokens, in place.

    Each row is multiplied by `a / (a + p)`, the smooth inverse frequency (SIF), where p
    is the token's share of all tokens. Rare tokens then count more in a sentence's
    mean.

    Args:
        encoder: A linear encoder, as for `table_of`.
        frequencies: Count of each token, `(vocabulary_size,)`.
        smoothing: The weight's `a`; the row of a token with p = a is halved.

    Raises:
        InputError: The encoder is not linear, `smoothing` is not positive, or no token
            was counted.

    Source: Arora, Liang & Ma 2017, section 3.

    Example:
        >>> tokenizer = msd.testing.tiny_tokenizer()
        >>> word = np.ones((tokenizer.vocabulary_size, 8), dtype="float32")
        >>> encoder = msd.starts.closed_form_encoder(tokenizer, word, max_length=32)
        >>> counts = np.zeros(len(word))
        >>> counts[:2] = 9, 1
        >>> msd.starts.weigh_rows(encoder, counts, smoothing=0.1)
        >>> msd.starts.table_of(encoder)[:3, 0].round(2)
        array([0.1, 0.5, 1. ], dtype=float32)
    """
    total = frequencies.sum()
    at_least(1e-9, smoothing=smoothing, frequencies=float(total))
    table_of(encoder)  # refuses an encoder that is not linear
    share = frequencies / total
    values = encoder.weights()
    weights = smoothing / (smoothing + share)
    values["embedding/word"] *= weights[:, None].astype(np.float32)
    encoder.set_weights(values, origin="the weights by frequency")


def branch_encoder(encoder: Encoder, frequencies: np.ndarray) -> Encoder:
    """Return the bag-of-words branch as an encoder without transformer layers.

    A training step of the branch costs a hundredth of a step of the whole encoder, so
    you can train it on many large batches. The branch gets its own embedding table. It
    has the encoder's `bottleneck_dim`, but without the directions that only the
    transformer layers read.

    Args:
        encoder: An encoder with a bag-of-words branch; it is not changed.
        frequencies: Count of each token, `(vocabulary_size,)`.

    Raises:
        InputError: The encoder has no bag-of-words branch.

    Example:
        >>> encoder = msd.testing.tiny_encoder(bottleneck_dim=4, word_branch=True)
        >>> counts = np.ones(encoder.config.vocabulary_size)
        >>> branch = msd.starts.branch_encoder(encoder, counts)
        >>> branch.config.depth, branch.dim == encoder.dim
        (0, True)
    """
    _check_fields(encoder, "have a bag-of-words branch", word_branch=True)
    weights = encoder.weights()
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
    """Copy the embedding table and projection of a trained branch into an encoder.

    The encoder is changed in place. The transformer layers share the table, so their
    projection is fitted again by least squares, with rows weighted as in `bottleneck`.
    This keeps their input as close as possible to what it was.

    Args:
        encoder: An encoder with a bag-of-words branch.
        branch: The encoder that `branch_encoder` made from it, after training.
        frequencies: Count of each token, `(vocabulary_size,)`.

    Raises:
        InputError: The encoder has no branch, or the tables differ in shape.

    Example:
        >>> encoder = msd.testing.tiny_encoder(bottleneck_dim=4, word_branch=True)
        >>> counts = np.ones(encoder.config.vocabulary_size)
        >>> branch = msd.starts.branch_encoder(encoder, counts)
        >>> msd.starts.set_branch(encoder, branch, counts)  # after training `branch`
        >>> tables = [e.weights()["embedding/word"] for e in (encoder, branch)]
        >>> np.array_equal(*tables)
        True
    """
    _check_fields(encoder, "have a bag-of-words branch", word_branch=True)
    values, tuned = encoder.weights(), branch.weights()
    word, old = tuned["embedding/word"], values["embedding/word"]
    if word.shape != old.shape:
        raise InputError(
            "The branch must be made from this encoder. Received: embedding tables of "
            f"{old.shape} and {word.shape}. Make it with `branch_encoder(encoder)`."
        )
    weights = row_weights(frequencies)[:, None]
    columns = word.T.astype(np.float64)
    goals = old @ values["embedding/projection"]
    gram = columns @ (word * weights)
    gram[np.diag_indices_from(gram)] += PENALTY * gram.max()
    projection = np.linalg.solve(gram, columns @ (goals * weights))
    values["embedding/word"] = word
    values["embedding/projection"] = projection.astype(np.float32)
    values["word_branch/projection"] = tuned["embedding/projection"]
    encoder.set_weights(values, origin="the tuned branch")


def extend_vocabulary(encoder: Encoder, tokenizer: Tokenizer) -> Encoder:
    """Extend the vocabulary of an encoder without transformer layers.

    The embedding of a new token is the sum of the embeddings of the tokens that it
    replaces. A sentence's vector is the direction of a sum of embeddings, so it does
    not change. There are two exceptions: encoders with position embeddings, and texts
    in which a new token overlaps two old ones in part.

    Args:
        encoder: An embedding table with mean pooling, such as a ridge baseline or
            tiny12; it is not changed.
        tokenizer: Tokenizer whose first tokens are the encoder's, from
            `extend_unigram`.

    Raises:
        InputError: The encoder has transformer layers or does not average its rows, or
            the tokenizer has other tokens at the encoder's ids.

    Source: ours.

    Example:
        >>> table = np.eye(90, 8, dtype="float32")
        >>> known = msd.testing.tiny_tokenizer()
        >>> encoder = msd.starts.closed_form_encoder(known, table, max_length=32)
        >>> texts = ["Der Nebel ist dicht.", "Der Nebel kommt."]
        >>> own = msd.tokenizers.train_unigram(texts, 40, at_most=True)
        >>> more = msd.tokenizers.extend_unigram(known, own)
        >>> extended = msd.starts.extend_vocabulary(encoder, more)
        >>> extended.config.vocabulary_size == more.vocabulary_size
        True
    """
    known = encoder.tokenizer
    _check_fields(encoder, "be an embedding table without layers", **LINEAR)
    pieces, size = tokenizer.pieces(), known.vocabulary_size
    if not isinstance(known, SentencePieceTokenizer) or pieces[:size] != known.pieces():
        raise InputError(
            "The new vocabulary must begin with the encoder's. Received: other tokens. "
            "Make it with `extend_unigram(encoder.tokenizer, other)`."
        )
    extended = encoder.with_config(tokenizer, origin="extend_vocabulary")
    weights = encoder.weights()
    table = weights["embedding/word"][:size]
    sums = [table[ids].sum(axis=0) for ids in known.split_pieces(pieces[size:])]
    rows = np.reshape(sums, (-1, table.shape[1])).astype(np.float32)
    weights["embedding/word"] = np.concatenate([table, rows])
    extended.set_weights(weights, origin="the encoder")
    return extended


def _check_fields(encoder: Encoder, rule: str, **wanted: Any) -> None:
    config = encoder.config
    wrong = {k: getattr(config, k) for k in wanted if getattr(config, k) != wanted[k]}
    if wrong:
        raise InputError(f"The encoder must {rule}: {wanted}. Received: {wrong}.")
