"""A student's embedding block from the assistant's, by SVD."""

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.starts.grow import join_tables, word_rows
from keras_msd.starts.svd import bottleneck


def start_student(
    student: Encoder,
    assistant: Encoder,
    frequencies: np.ndarray,
    branch_scale: float = 1.0,
) -> None:
    """Set the student's embedding block, in place, to the nearest of its width.

    Word rows come from the factorised table of the assistant; positions, the first
    token type and the normalisation are copied. Does nothing to the unit.

    Args:
        student: Made by `build_student` with a bottleneck.
        assistant: The one it was made from.
        frequencies: `(vocabulary_size,)`, how often each piece occurs.
        branch_scale: Of `join_tables`, where there is a word branch.

    Raises:
        InputError: The student has no bottleneck.

    Source: ours; the paper starts the block at random.
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
    if student.config.word_branch:
        branch = given["embedding/word"] @ given["word_branch/projection"]
        values |= join_tables(table, branch, width, frequencies, branch_scale)
    else:
        word, projection = bottleneck(table, width, frequencies)
        values |= {"embedding/word": word, "embedding/projection": projection}
    student.set_weights(values, origin="the SVD start")
