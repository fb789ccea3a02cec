"""An assistant grown from the teacher's body, with a table for another vocabulary."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import build_model
from keras_msd.starts.svd import bottleneck
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
    """Give the teacher's body a word table for the assistant's vocabulary.

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
    own = config.model_dump() | {
        "vocabulary_size": tokenizer.vocabulary_size,
        "pad_id": tokenizer.pad_id,
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
        own |= {"bottleneck_dim": bottleneck_dim, "word_branch": True}
    grown = type(config).from_dict(own | fields, origin="grow_assistant")
    assistant = Encoder(build_model(grown), tokenizer, grown)
    keep = grown.max_length + grown.position_offset
    given["embedding/position"] = given["embedding/position"][:keep]
    given.pop("embedding/projection", None)
    start = assistant.weights()
    start |= {path: given[path] for path in start.keys() & given.keys()} | values
    assistant.set_weights(start, origin="the grown assistant")
    return assistant


def join_tables(
    table: np.ndarray,
    branch_table: np.ndarray,
    bottleneck_dim: int,
    frequencies: np.ndarray,
    branch_scale: float = 1.0,
) -> dict[str, np.ndarray]:
    """Factorise two tables of one vocabulary into one table and two projections.

    The branch's rows are scaled to `branch_scale` times the size of the body's: at 1
    neither side of the factorisation starves the other; the narrower the table, the
    more the branch deserves, since a body learns from what it is given.

    Returns:
        Weights by path: the word table, the embedding's and the branch's projection.
    """
    energies = [float(np.linalg.norm(one)) for one in (table, branch_table)]
    scale = branch_scale * energies[0] / max(energies[1], 1e-12)
    joined = np.concatenate([table, scale * branch_table], axis=1)
    word, projection = bottleneck(joined, bottleneck_dim, frequencies)
    width = table.shape[1]
    return {
        "embedding/word": word,
        "embedding/projection": np.ascontiguousarray(projection[:, :width]),
        "word_branch/projection": np.ascontiguousarray(projection[:, width:]) / scale,
    }


def word_rows(weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return an encoder's word rows at full width, `(vocabulary_size, hidden_dim)`."""
    rows = weights["embedding/word"]
    if "embedding/projection" in weights:
        rows = rows @ weights["embedding/projection"]
    return rows
