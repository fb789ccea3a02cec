"""Initialize assistants from teachers, and students from assistants."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.starts.tables import bottleneck, join_tables, word_rows
from keras_msd.tokenizers.base import Tokenizer

CHUNK = 8_192


def input_sums(teacher: Encoder, sentences: Sequence[str]) -> np.ndarray:
    """Return the sum of the teacher's token embeddings of each sentence, scaled.

    Each sum is divided by the square root of the number of tokens. `fit_ridge` divides
    its own sums in the same way, so these are its target vectors.

    Args:
        teacher: An `Encoder` with the teacher's weights.
        sentences: English sentences.

    Returns:
        float32 `(n, hidden_dim)`; zeros for a sentence without tokens.

    Example:
        >>> teacher = msd.testing.tiny_encoder()
        >>> msd.starts.input_sums(teacher, ["Good morning.", ""]).shape
        (2, 16)
    """
    rows = word_rows(teacher.weights())
    sums = np.zeros((len(sentences), rows.shape[1]), np.float32)
    for start in range(0, len(sentences), CHUNK):
        lists = teacher.tokenizer.encode_plain(sentences[start : start + CHUNK])
        for offset, ids in enumerate(lists):
            if ids:
                sums[start + offset] = rows[ids].sum(axis=0) / np.sqrt(len(ids))
    return sums


def grow_assistant(
    teacher: Encoder,
    tokenizer: Tokenizer,
    table: np.ndarray,
    max_length: int,
    branch_table: np.ndarray | None = None,
    bottleneck_dim: int | None = None,
    frequencies: Any = None,
    body_weight: float = 0.5,
    **fields: Any,
) -> Encoder:
    """Make an assistant from the teacher's layers and a new embedding table.

    Positions, types, normalisation and all layers are copied from the teacher, and so
    are the rows of the start and end tokens. Only the other rows of the embedding table
    are new. So the assistant combines tokens as the teacher does before any training.

    Args:
        teacher: An `Encoder` with the teacher's weights.
        tokenizer: The assistant's tokenizer.
        table: Token embeddings in the teacher's input space, `(vocabulary_size,
            hidden_dim)`, for example from `fit_ridge` and `input_sums`.
        max_length: Maximum number of tokens that the assistant reads.
        branch_table: Token embeddings in the space of the teacher's vectors,
            `(vocabulary_size, dim)`. If given, the assistant gets a bag-of-words
            branch.
        bottleneck_dim: Dimension of the embedding table that the branch and the
            transformer layers share; only with `branch_table`.
        frequencies: Count of each token, `(vocabulary_size,)`, for the factorisation of
            the shared table; only with `branch_table`.
        body_weight: Initial weight of the transformer layers' output, relative to the
            branch's.
        **fields: Fields of `EncoderConfig` to change, such as `dropout`.

    Raises:
        InputError: `max_length` is larger than the teacher's, or only one of
            `branch_table` and `bottleneck_dim` is given.

    Source: ours, after the vocabulary transfer of Tran 2020 and Minixhofer et al. 2022.

    Example:
        >>> teacher = msd.testing.tiny_encoder(bottleneck_dim=None)
        >>> table = teacher.weights()["embedding/word"]
        >>> assistant = msd.starts.grow_assistant(teacher, teacher.tokenizer, table, 16)
        >>> assistant.max_length, np.allclose(
        ...     assistant.encode(["Hello."]), teacher.encode(["Hello."]), atol=1e-5
        ... )
        (16, True)
    """
    config = teacher.config
    if max_length > config.max_length:
        raise InputError(
            "`max_length` must be at most the teacher's, whose positions are copied. "
            f"Received: {max_length}, teacher {config.max_length}."
        )
    table = table.copy()
    given = teacher.weights()
    rows = word_rows(given)
    table[tokenizer.start_id] = rows[teacher.tokenizer.start_id]
    table[tokenizer.end_id] = rows[teacher.tokenizer.end_id]
    values: dict[str, np.ndarray] = {"embedding/word": table}
    changes: dict[str, Any] = {
        "max_length": max_length,
        "max_positions": None,
        "bottleneck_dim": None,
    }
    if (branch_table is None) != (bottleneck_dim is None):
        raise InputError(
            "`branch_table` and `bottleneck_dim` belong together. Received: "
            f"{bottleneck_dim=} {'with' if branch_table is not None else 'without'} a "
            "table. Give both, or neither."
        )
    if branch_table is not None and bottleneck_dim is not None:
        values = join_tables(table, branch_table, bottleneck_dim, frequencies)
        values["word_branch/body_weight"] = np.array([body_weight], np.float32)
        changes |= {"bottleneck_dim": bottleneck_dim, "word_branch": True}
    assistant = teacher.with_config(
        tokenizer, origin="grow_assistant", **changes | fields
    )
    keep = assistant.max_length + assistant.config.position_offset
    given["embedding/position"] = given["embedding/position"][:keep]
    given.pop("embedding/projection", None)
    start = assistant.weights()
    start |= {path: given[path] for path in start.keys() & given.keys()} | values
    assistant.set_weights(start, origin="the grown assistant")
    return assistant


def start_student(
    student: Encoder,
    assistant: Encoder,
    frequencies: np.ndarray,
    branch_scale: float = 1.0,
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
        branch_scale: See `join_tables`; used only with a bag-of-words branch.
        directions: Directions of the assistant's table to keep, `(hidden_dim,
            bottleneck_dim)` with orthonormal columns, such as the first columns of
            `order_dimensions`. None keeps the directions in which frequent tokens lose
            least (SVD).

    Raises:
        InputError: The student has no bottleneck, or `directions` has the wrong shape
            or is given for a student with a bag-of-words branch.

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
    if directions is not None:
        wanted = table.shape[1], width
        if student.config.word_branch or np.shape(directions) != wanted:
            raise InputError(
                f"`directions` must have the shape {wanted}, and the student no "
                f"bag-of-words branch. Received: {np.shape(directions)}, word_branch="
                f"{student.config.word_branch}. Leave `directions` out to use the SVD."
            )
        word, projection = table @ directions, np.ascontiguousarray(directions.T)
        values |= {"embedding/word": word, "embedding/projection": projection}
    elif student.config.word_branch:
        branch = given["embedding/word"] @ given["word_branch/projection"]
        values |= join_tables(table, branch, width, frequencies, branch_scale)
    else:
        word, projection = bottleneck(table, width, frequencies)
        values |= {"embedding/word": word, "embedding/projection": projection}
    student.set_weights(values, origin="the start")
