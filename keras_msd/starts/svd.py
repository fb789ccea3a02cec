"""Factorise an embedding table, and start a student's embedding block with it."""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder


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
