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
    """Return the sum of the teacher's word rows over each sentence, over root length.

    Divided by the root of the number of tokens, so that `fit_ridge`, which divides its
    own side in the same way, fits sums to sums.

    Args:
        teacher: An encoder of ours that holds the teacher's weights.
        sentences: English sentences.

    Returns:
        float32 `(n, hidden_dim)`.

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
    frequencies: np.ndarray | None = None,
    body_weight: float = 0.5,
    **fields: Any,
) -> Encoder:
    """Fit a word table for the assistant's vocabulary under the teacher's layers.

    Positions, types, normalisation and all layers are the teacher's; start and end
    tokens take the rows of the teacher's own. It composes words as the teacher does
    before any training.

    Args:
        teacher: An encoder of ours that holds the teacher's weights.
        tokenizer: The assistant's.
        table: `(vocabulary_size, hidden_dim)`, pieces in the teacher's input space.
        max_length: Longest sentence of the assistant, in tokens.
        branch_table: `(vocabulary_size, dim)`, pieces in the space of the teacher's
            vectors; makes a word branch beside the body.
        bottleneck_dim: Width of the shared table when there is a branch.
        frequencies: How often each piece occurs, for that factorisation.
        body_weight: Weight of the body's direction beside the branch's, at the start.
        **fields: Fields of `EncoderConfig` that shall differ, such as `dropout`.

    Raises:
        InputError: `max_length` is beyond the teacher's positions, or a branch comes
            without its width and frequencies, or a width without a branch.

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
            "`max_length` must be at most the teacher's, whose positions are taken "
            f"over. Received: {max_length}, teacher {config.max_length}."
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
    if branch_table is None and bottleneck_dim is not None:
        raise InputError(
            "Only a table that is shared with a word branch has a `bottleneck_dim`. "
            f"Received: {bottleneck_dim=}, branch_table=None. Give `branch_table`, or "
            "leave the width out and make a student of it with `build_student`."
        )
    if branch_table is not None:
        if bottleneck_dim is None or frequencies is None:
            raise InputError(
                "A word branch shares one table with the body. Received: "
                f"{bottleneck_dim=}, {frequencies is None=}. Give both."
            )
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
    """Set the student's embedding block, in place, to the nearest of its width.

    Word rows come from the factorised table of the assistant; positions, the first
    token type and the normalisation are copied. Does nothing to the unit.

    Args:
        student: Made by `build_student` with a bottleneck.
        assistant: The one it was made from.
        frequencies: `(vocabulary_size,)`, how often each piece occurs.
        branch_scale: Of `join_tables`, where there is a word branch.
        directions: `(hidden_dim, bottleneck_dim)`, orthonormal columns, such as the
            first of `order_dimensions`: what the table keeps of the assistant's; None
            keeps those in which frequent rows lose least (SVD).

    Raises:
        InputError: The student has no bottleneck, or `directions` have another shape
            or come with a word branch.

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
        raise InputError("The student's table is the assistant's: nothing to start.")
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
                f"`directions` must be {wanted}, for a student without a word branch. "
                f"Received: {np.shape(directions)}, word_branch="
                f"{student.config.word_branch}. Start such a student from the SVD."
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
