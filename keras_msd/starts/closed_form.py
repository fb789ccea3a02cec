"""Embedding tables in closed form, without gradient steps: ridge regression and SVD.

A linear encoder is made of such a table, or a student's embedding block starts with it.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, at_least
from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

BLOCK = 8_192  # sentences in a block of the Gram matrix
TILE = 16_384  # rows that LAPACK factorises at once; it crashes above 32,768
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
}


class BothSides:
    """Target vectors for `fit_ridge`: of all sources, then of all translations.

    Both sentences of a pair have the source's vector as target, so every vector occurs
    twice. Vectors are read when they are needed.

    Args:
        rows: Function of `start` and `stop` that returns the vectors of these source
            sentences, float32 `(stop - start, dim)`.
        count: Number of pairs.
        dim: Dimension of a vector.
    """

    def __init__(self, rows: Any, count: int, dim: int) -> None:
        self._rows, self._count = rows, count
        self.shape = (2 * count, dim)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(len(self))
        middle = self._count
        spans = (start, min(stop, middle)), (max(start - middle, 0), stop - middle)
        return np.concatenate([self._rows(a, b) for a, b in spans if a < b])


def fit_ridge(
    token_lists: Iterable[Sequence[int]],
    vectors: Any,
    vocabulary_size: int,
    ridge: float = 0.3,
) -> np.ndarray:
    """Fit token embeddings whose sums approximate the sentences' target vectors.

    Minimises `sum_i || (1 / sqrt(n_i)) sum_{k in tokens_i} W_k - v_i ||^2 + ridge
    ||W||^2` with the normal equations and a Cholesky factorisation. A token that never
    occurs gets a row of zeros.

    Args:
        token_lists: Token ids of each sentence, without special tokens.
        vectors: One target vector per sentence, float32 `(n, dim)`: an array, a memory
            map or a store, read in slices.
        vocabulary_size: Number of rows of the table.
        ridge: Weight of the penalty.

    Returns:
        The embedding table W, float32 `(vocabulary_size, dim)`.

    Raises:
        InputError: `ridge` is not positive, or too small for texts that repeat the same
            words many times; or the numbers of sentences and vectors differ.

    Source: Hoerl & Kennard 1970, with the loss of Reimers & Gurevych 2020, eq. 1.

    Example:
        >>> vectors = np.float32([[1, 0], [0, 1], [1, 1]])
        >>> table = msd.starts.fit_ridge([[0], [1], [0, 1]], vectors, 3, ridge=1e-3)
        >>> table.round(1)
        array([[1.1, 0.1],
               [0.1, 1.1],
               [0. , 0. ]], dtype=float32)
    """
    at_least(1e-9, ridge=ridge)
    gram = np.zeros((vocabulary_size, vocabulary_size), np.float32)
    right = np.zeros((vocabulary_size, vectors.shape[1]), np.float32)
    seen = 0
    for block in in_chunks(token_lists, BLOCK):
        goals = np.asarray(vectors[seen : seen + len(block)], np.float32)
        if len(goals) < len(block):
            raise _unequal(f"{len(vectors)} vectors and more token lists")
        counts = _counts(block, vocabulary_size)
        product = (counts.T @ counts).tocsr()  # no dense copy of the Gram matrix
        rows = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
        gram[rows, product.indices] += product.data
        right += counts.T @ goals
        seen += len(block)
    if seen != len(vectors):
        raise _unequal(f"{seen} token lists, {len(vectors)} vectors")
    gram[np.diag_indices_from(gram)] += ridge
    try:
        _solve(gram, right)
    except np.linalg.LinAlgError as error:
        raise InputError(
            "`ridge` is too small for these texts in float32, as where they repeat the "
            f"same words many times. Received: ridge={ridge}. Drop such texts, or give "
            "a larger `ridge`."
        ) from error
    return right


def _unequal(lengths: str) -> InputError:
    return InputError(
        f"`token_lists` and `vectors` must have the same length. Received: {lengths}."
    )


def _counts(block: list[Sequence[int]], vocabulary_size: int) -> Any:
    """Return a sparse matrix: token counts divided by the square root of the length."""
    from scipy import sparse

    lengths = np.array([len(tokens) for tokens in block])
    columns = np.concatenate([np.asarray(tokens, np.int64) for tokens in block])
    values = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix(
        (values.astype(np.float32), columns, bounds), (len(block), vocabulary_size)
    )


def _solve(gram: np.ndarray, right: np.ndarray) -> None:
    """Solve `gram @ x = right` in place by tiles of a Cholesky factorisation.

    Args:
        gram: `(n, n)`, positive definite; its lower half is overwritten by the factor.
        right: `(n, dim)`; is overwritten by `x`.
    """
    from scipy import linalg

    triangular = partial(linalg.solve_triangular, lower=True, check_finite=False)
    tiles = [slice(start, start + TILE) for start in range(0, len(gram), TILE)]
    for index, tile in enumerate(tiles):
        factor = linalg.cholesky(gram[tile, tile], lower=True, check_finite=False)
        gram[tile, tile] = factor
        right[tile] = triangular(factor, right[tile])
        for later in tiles[index + 1 :]:
            gram[later, tile] = triangular(factor, gram[later, tile].T).T
            right[later] -= gram[later, tile] @ right[tile]
            for other in tiles[index + 1 :]:
                if other.start <= later.start:
                    gram[later, other] -= gram[later, tile] @ gram[other, tile].T
    for index, tile in reversed([*enumerate(tiles)]):
        for later in tiles[index + 1 :]:
            right[tile] -= gram[later, tile].T @ right[later]
        right[tile] = triangular(gram[tile, tile], right[tile], trans=1)


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
    _check_linear(encoder)
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
    _check_linear(encoder)
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


def _check_linear(encoder: Encoder) -> None:
    config = encoder.config
    wrong = {k: getattr(config, k) for k in LINEAR if getattr(config, k) != LINEAR[k]}
    if wrong:
        raise InputError(
            "The encoder must be an embedding table without layers: "
            f"{LINEAR}. Received: {wrong}."
        )


def bottleneck(
    table: np.ndarray, bottleneck_dim: int, frequencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Factorise `table` into smaller token embeddings and a projection.

    The factors minimise `sum_k f_k ||table_k - word_k projection||^2`, where `f` is the
    square root of the frequencies plus one. So frequent tokens lose least, and rare
    tokens still count.

    Args:
        table: `(rows, dim)`.
        bottleneck_dim: Dimension B of the smaller embeddings, at most `dim`.
        frequencies: Count of each token, `(rows,)`.

    Returns:
        `word` float32 `(rows, B)`, and `projection` float32 `(B, dim)` with orthonormal
        rows.

    Source: Eckart & Young 1936, with weighted rows.

    Example:
        >>> table = np.float32([[1, 1, 0], [2, 2, 0], [0, 0, 3]])
        >>> word, projection = msd.starts.bottleneck(table, 2, np.array([5, 1, 2]))
        >>> word.shape, np.allclose(word @ projection, table, atol=1e-5)
        ((3, 2), True)
    """
    covariance = (table.T * row_weights(frequencies)) @ table.astype(np.float64)
    _, vectors = np.linalg.eigh(covariance)
    projection = vectors[:, ::-1][:, :bottleneck_dim].T.astype(np.float32)
    return (table @ projection.T).astype(np.float32), np.ascontiguousarray(projection)


def start_student(
    student: Encoder,
    assistant: Encoder,
    frequencies: np.ndarray,
    directions: np.ndarray | None = None,
) -> None:
    """Initialize the student's embedding block from the assistant's, in place.

    The student's token embeddings and projection are a factorisation of the assistant's
    table. Positions, the first token type and the normalisation are copied. The
    transformer layers do not change.

    Args:
        student: Student from `build_student`, with a bottleneck.
        assistant: The assistant that the student was made from.
        frequencies: Count of each token, `(vocabulary_size,)`.
        directions: Directions of the assistant's table to keep, `(hidden_dim,
            bottleneck_dim)` with orthonormal columns, such as the first columns of
            `order_dimensions`. None keeps the directions in which frequent tokens lose
            least (SVD).

    Raises:
        InputError: The student has no bottleneck, or `directions` has the wrong shape.

    Source: ours; the paper starts the block at random.

    Example:
        >>> assistant = msd.testing.tiny_encoder(bottleneck_dim=None)
        >>> student = msd.testing.tiny_encoder(bottleneck_dim=16)
        >>> msd.starts.start_student(student, assistant, np.ones(90))
        >>> weights = student.weights()
        >>> word = weights["embedding/word"] @ weights["embedding/projection"]
        >>> np.allclose(word, assistant.weights()["embedding/word"], atol=1e-5)
        True
    """
    width = student.config.bottleneck_dim
    if width is None:
        raise InputError(
            "`student` must have a bottleneck. Received: bottleneck_dim=None. Its "
            "embedding table is already the assistant's."
        )
    given, values = assistant.weights(), student.weights()
    for path in ("embedding/position", "embedding/type"):
        values[path] = given[path][: len(values[path])]
    for path in values.keys() & given.keys():
        if path.startswith("embedding/layer_norm"):
            values[path] = given[path]
    table = word_rows(given)
    if directions is None:
        word, projection = bottleneck(table, width, frequencies)
    elif np.shape(directions) == (table.shape[1], width):
        word, projection = table @ directions, np.ascontiguousarray(directions.T)
    else:
        raise InputError(
            f"`directions` must have the shape {(table.shape[1], width)}. Received: "
            f"{np.shape(directions)}. Leave `directions` out to use the SVD."
        )
    values |= {"embedding/word": word, "embedding/projection": projection}
    student.set_weights(values, origin="the start")


def word_rows(weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return projected token embeddings, `(vocabulary_size, hidden_dim)`."""
    rows = weights["embedding/word"]
    if "embedding/projection" in weights:
        rows = rows @ weights["embedding/projection"]
    return rows


def mean_rows(table: np.ndarray, token_lists: Iterable[Sequence[int]]) -> np.ndarray:
    """Return the mean of each sentence's token embeddings, `(n, dim)`."""
    return np.stack([table[np.asarray(ids)].mean(axis=0) for ids in token_lists])


def row_weights(frequencies: np.ndarray) -> np.ndarray:
    """Return a positive weight per row that grows with its frequency."""
    return np.sqrt(frequencies.astype(np.float64) + 1.0)


def token_frequencies(
    token_lists: Iterable[Sequence[int]], vocabulary_size: int
) -> np.ndarray:
    """Count the occurrences of each token id: int64 `(vocabulary_size,)`.

    Example:
        >>> msd.starts.token_frequencies([[0, 2, 2], [2]], vocabulary_size=4)
        array([1, 0, 3, 0])
    """
    counts = np.zeros(vocabulary_size, np.int64)
    for tokens in token_lists:
        np.add.at(counts, np.asarray(tokens, np.int64), 1)
    return counts
