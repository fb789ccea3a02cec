"""A linear map after an encoder becomes part of the encoder."""

from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import build_model


def merge_projection(encoder: Encoder, matrix: np.ndarray) -> Encoder:
    """Return an encoder whose projection also does what `matrix` does after it.

    `(h P + b) M = h (P M) + b M`. Where the encoder scales its vectors to length one,
    the new one does so after the matrix, and no longer before it: the directions are
    the same.

    Args:
        encoder: Has a linear `projection` and no word branch; it is not changed.
        matrix: `(encoder.dim, d)`.

    Raises:
        InputError: The encoder or the matrix does not fit.
    """
    check_mergeable(encoder, len(matrix))
    values = encoder.weights()
    for path in ("projection/kernel", "projection/bias"):
        if path in values:
            values[path] = values[path] @ matrix
    config = type(encoder.config).from_dict(
        encoder.config.model_dump() | {"projection_dim": matrix.shape[1]}
    )
    made = Encoder(build_model(config), encoder.tokenizer, config)
    made.set_weights(values)
    return made


def check_mergeable(encoder: Any, width: int) -> None:
    """Raise `InputError` unless a matrix of `width` rows can be merged into `encoder`.

    Raises:
        InputError: It is no encoder, or its projection is missing, not linear, of
            another width or beside a word branch.
    """
    config = getattr(encoder, "config", None)
    fields = {
        "projection_dim": width,
        "projection_activation": "linear",
        "word_branch": False,
    }
    given = {name: getattr(config, name, None) for name in fields}
    if given != fields:
        raise InputError(
            "A dense layer can only be merged into an encoder with "
            f"{_listed(fields)}. Received: {_listed(given)}. Make the encoder with "
            "these fields."
        )


def _listed(fields: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in fields.items())
