"""Two kinds of students.

Some of an assistant's layers, run repeatedly (Ding et al. 2022), and deep, narrow
encoders (LEALLA, Mao and Nakagawa 2023).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import keras
import numpy as np

from keras_msd.checks import InputError, at_least, divides, one_of
from keras_msd.choices import TableStart, UnitFrom
from keras_msd.io.files import read_toml
from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.tokenizers.base import Tokenizer


class Shape(NamedTuple):
    """Shape of one encoder in table 7 of Mao and Nakagawa 2023."""

    num_layers: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int


_TABLES = read_toml(Path(__file__).with_name("rows.toml"))
ROWS: dict[int | str, Shape] = {
    int(row): Shape(*sizes) for row, sizes in _TABLES["rows"].items()
}
ROWS |= {name: ROWS[row] for name, row in _TABLES["names"].items()}


def build_student(
    assistant: Encoder,
    unit_layers: int = 3,
    bottleneck_dim: int | None = 128,
    repeats: int | None = None,
    tables: str = "random",
    unit_from: str | Sequence[int] = "first",
    max_length: int | None = None,
) -> Encoder:
    """Make a student from an assistant.

    The student's unit is a copy of `unit_layers` of the assistant's layers. With
    `bottleneck_dim`, the student gets a new, random embedding block; without, a copy of
    the assistant's. The assistant itself is not changed.

    Args:
        assistant: An encoder with `repeats=1`.
        unit_layers: Layers that own weights (M).
        bottleneck_dim: Width of the word table (B), or None for the assistant's table.
        repeats: Passes over the unit (R). Default: the assistant's layers divided by
            `unit_layers`, so that both are equally deep.
        tables: How a new embedding block begins: "random", truncated normal of standard
            deviation 0.02; "standard_normal", as in the authors' code, with a
            projection uniform within `1 / sqrt(bottleneck_dim)` of zero and a padding
            row of zeros.
        unit_from: Which layers are copied: the "first", as in the paper, the "last",
            "spread": layers 0, 4 and 8 of 12 for a unit of three; or their numbers,
            such as those of `starts.choose_layers`.
        max_length: Longest sentence in tokens, at most the assistant's. The student
            keeps the embeddings of as many positions. Default: the assistant's.

    Raises:
        InputError: The depth is not divisible by `unit_layers`, the assistant has fewer
            layers, `tables` or `unit_from` is something else, `unit_from` does not
            name `unit_layers` different layers, or `max_length` is above the
            assistant's.

    Source: Ding et al. 2022, stages 2 and 3; bottleneck and parameter recurrence.

    Example:
        >>> assistant = msd.testing.tiny_encoder(num_layers=4)
        >>> student = msd.build_student(assistant, unit_layers=2, bottleneck_dim=8)
        >>> student.config.repeats, student.num_parameters < assistant.num_parameters
        (2, True)
    """
    one_of(get_args(TableStart), tables=tables)
    if isinstance(unit_from, str):
        one_of(get_args(UnitFrom), unit_from=unit_from)
    config = assistant.config
    repeats = unit_repeats(unit_layers, repeats, config.num_layers, config.repeats)
    lengths: dict[str, Any] = {}
    if max_length is not None:
        lengths = {"max_length": max_length, "max_positions": max_length}
        if max_length > config.max_length:
            raise InputError(
                "`max_length` must be at most the assistant's. Received: max_length="
                f"{max_length}, assistant max_length={config.max_length}."
            )
    same_table = bottleneck_dim is None
    if same_table:
        bottleneck_dim = config.bottleneck_dim
    student = assistant.with_config(
        origin="build_student",
        num_layers=unit_layers,
        repeats=repeats,
        bottleneck_dim=bottleneck_dim,
        num_types=config.num_types if same_table else 1,
        prompts={},
        default_prompt_name=None,
        similarity_fn_name="cosine",
        **lengths,
    )
    given = assistant.weights()
    values = student.weights()
    copied = _copied(unit_from, unit_layers, config.num_layers)

    def in_assistant(path: str) -> str:
        place = r"^body/block_(\d+)/"
        return re.sub(place, lambda it: f"body/block_{copied[int(it[1])]}/", path)

    for path in values:
        if same_table or not path.startswith("embedding/"):
            values[path] = given[in_assistant(path)][: len(values[path])]
        elif tables == "standard_normal":
            values[path] = _redrawn(path, values[path], config.pad_id)
    student.set_weights(values, origin="the assistant")
    return student


def _copied(unit_from: str | Sequence[int], count: int, depth: int) -> Sequence[int]:
    """Return the numbers of the layers that a unit copies."""
    if isinstance(unit_from, str):
        return {
            "first": range(count),
            "last": range(depth - count, depth),
            "spread": [place * depth // count for place in range(count)],
        }[unit_from]
    numbers = {int(number) for number in unit_from}
    if (
        len(numbers) != count
        or len(unit_from) != count
        or not numbers <= {*range(depth)}
    ):
        raise InputError(
            f"`unit_from` must name {count} different layers, from 0 to {depth - 1}. "
            f"Received: {[*unit_from]}."
        )
    return unit_from


def unit_repeats(
    unit_layers: int, repeats: int | None, depth: int, assistant_repeats: int = 1
) -> int:
    """Return how often a student runs its unit: `repeats`, or as the depth asks.

    Args:
        unit_layers: Layers of the unit.
        repeats: As for `build_student`.
        depth: Layers of the assistant that own weights.
        assistant_repeats: How often the assistant runs them.

    Raises:
        InputError: The assistant has fewer layers, or layers that are repeated, or the
            depth is not divisible by `unit_layers`.
    """
    if unit_layers > depth or assistant_repeats != 1:
        raise InputError(
            "`unit_layers` must be at most the assistant's layers, each with weights "
            f"of its own. Received: unit_layers={unit_layers}, assistant layers="
            f"{depth}, assistant repeats={assistant_repeats}. Take fewer, or another "
            "assistant."
        )
    if repeats is None:
        divides({"unit_layers": unit_layers}, {"depth": depth})
        repeats = depth // unit_layers
    at_least(1, unit_layers=unit_layers, repeats=repeats)
    return repeats


def _redrawn(path: str, values: np.ndarray, pad_id: int | None) -> np.ndarray:
    """Return a weight of the embedding block, initialised as in the authors' code."""
    if "layer_norm" in path:
        return values
    draw: Any = keras.initializers.RandomNormal(stddev=1.0)
    if path.endswith("projection"):
        draw = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
    drawn = np.array(draw(values.shape))
    if path == "embedding/word" and pad_id is not None:
        drawn[pad_id] = 0
    return drawn


def thin_deep(
    tokenizer: Tokenizer, row: int | str | None = "LEALLA-small", **fields: Any
) -> Encoder:
    """Make an untrained encoder with the architecture of LEALLA.

    It has BERT's layers, 512 positions and two token types. A dense layer with tanh
    maps the start token to the sentence vector, which is scaled to length one.

    Args:
        tokenizer: Gives the vocabulary size and the pad id; in the paper it is LaBSE's
            cased WordPiece tokenizer of 501,153 pieces.
        row: Key of `ROWS`: a row of the paper's table 7 by its number, or "LaBSE",
            "LEALLA-small", "LEALLA-base", "LEALLA-large". With None, give `hidden_dim`
            in `fields`. The rest then follows the paper: 24 layers, feed-forward layers
            4 x `hidden_dim` wide, and 12 heads if they divide `hidden_dim`, else 8.
        **fields: Fields of `EncoderConfig` in place of those of the row. The pooler is
            as wide as `hidden_dim` unless `projection_dim` says otherwise.

    Raises:
        InputError: `row` is unknown, or a field is unknown, missing or does not fit.

    Source: Mao and Nakagawa, EACL 2023 (arXiv:2302.08387), table 7.

    Example:
        >>> encoder = msd.thin_deep(msd.testing.tiny_tokenizer(), num_layers=2)
        >>> encoder.dim, encoder.config.intermediate_dim
        (128, 512)
    """
    if row is None:
        shape = _by_rule(fields.get("hidden_dim"))
    else:
        one_of(ROWS, row=row)
        shape = ROWS[row]._asdict()
    settings = shape | {"max_positions": 512, "num_types": 2, "pooling": "cls"} | fields
    if "hidden_dim" in settings:
        settings.setdefault("projection_dim", settings["hidden_dim"])
    settings.setdefault("projection_activation", "tanh")
    return new_encoder(tokenizer, **settings)


def _by_rule(hidden_dim: Any) -> dict[str, int]:
    if not isinstance(hidden_dim, int):
        return {}  # The config says what is wrong with it.
    return Shape(24, hidden_dim, 4 * hidden_dim, 8 if hidden_dim % 12 else 12)._asdict()


def merge_projection(encoder: Encoder, matrix: np.ndarray) -> Encoder:
    """Return an encoder with `matrix` multiplied into its projection.

    `(h P + b) M = h (P M) + b M`. An encoder without a projection gets one, without a
    bias. If the encoder scales its vectors to length one, the new encoder applies the
    matrix first and scales afterwards. Its vectors have the direction of
    `encoder.encode(texts) @ matrix`.

    Args:
        encoder: Its `projection`, if any, is linear; it is not changed.
        matrix: `(encoder.dim, d)`.

    Raises:
        InputError: The encoder or the matrix does not fit.

    Example:
        >>> encoder = msd.testing.tiny_encoder(projection_dim=6)
        >>> matrix = np.eye(6, 2, dtype="float32")
        >>> msd.models.merge_projection(encoder, matrix).encode(["A cat."]).shape
        (1, 2)
    """
    config: Any = getattr(encoder, "config", None)
    fields: dict[str, Any] = {}
    if config and config.projection_dim is None and len(matrix) == encoder.dim:
        values = encoder.weights()
        values["projection/kernel"] = np.asarray(matrix, np.float32)
        fields = {"projection_bias": False, "projection_activation": "linear"}
    else:
        check_mergeable(encoder, len(matrix))
        values = encoder.weights()
        for path in {"projection/kernel", "projection/bias"} & values.keys():
            values[path] = values[path] @ matrix
    merged = encoder.with_config(projection_dim=matrix.shape[1], **fields)
    merged.set_weights(values)
    return merged


def check_mergeable(encoder: Any, width: int) -> None:
    """Raise `InputError` unless a matrix of `width` rows can be merged into `encoder`.

    Raises:
        InputError: It is not an encoder, or its projection is missing, not linear or of
            another dimension.
    """
    fields = {"projection_dim": width, "projection_activation": "linear"}
    config = getattr(encoder, "config", None)
    given = {name: getattr(config, name, None) for name in fields}
    if given != fields:
        raise InputError(
            "A dense layer can only be merged into an encoder with the fields "
            f"{fields}. Received: {given}."
        )
