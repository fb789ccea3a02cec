"""Thin, deep students: BERT encoders with many narrow layers, as in LEALLA."""

from typing import Any, NamedTuple

from keras_msd import checks
from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.tokenizers.base import Tokenizer


class Row(NamedTuple):
    """Shape of one encoder in the paper's table 7."""

    num_layers: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int


# Rows 10 to 12 have feed-forward layers no wider than the rest, as in MobileBERT.
ROWS: dict[int | str, Row] = {
    0: Row(12, 768, 3072, 12),
    1: Row(6, 768, 3072, 12),
    2: Row(3, 768, 3072, 12),
    3: Row(12, 384, 1536, 12),
    4: Row(12, 192, 768, 12),
    5: Row(24, 384, 1536, 12),
    6: Row(24, 256, 1024, 8),
    7: Row(24, 192, 768, 12),
    8: Row(24, 128, 512, 8),
    9: Row(24, 64, 256, 8),
    10: Row(24, 256, 256, 4),
    11: Row(24, 192, 192, 4),
    12: Row(24, 128, 128, 4),
}
ROWS |= {
    "LaBSE": ROWS[0],
    "LEALLA-large": ROWS[6],
    "LEALLA-base": ROWS[7],
    "LEALLA-small": ROWS[8],
}


def thin_deep(
    tokenizer: Tokenizer, row: int | str | None = "LEALLA-small", **fields: Any
) -> Encoder:
    """Make an encoder of LEALLA's kind with random weights.

    A BERT body; its pooler, a dense layer with tanh on the start token, gives the
    sentence vector, which is scaled to length one. 512 positions, two token types.

    Args:
        tokenizer: Gives the vocabulary size and the pad id; in the paper it is LaBSE's
            cased WordPiece tokenizer of 501,153 pieces.
        row: Key of `ROWS`: a row of the paper's table 7 by its number, or "LaBSE",
            "LEALLA-small", "LEALLA-base", "LEALLA-large". With None the shape comes
            from `fields` alone: `hidden_dim` is needed, and by the paper's rule there
            are 24 layers, feed-forward layers 4 x `hidden_dim` wide, and 12 heads if
            they divide `hidden_dim`, else 8.
        **fields: Fields of `EncoderConfig` in place of those of the row. The pooler is
            as wide as `hidden_dim` unless `projection_dim` says otherwise.

    Raises:
        InputError: `row` is unknown, or a field is unknown, missing or does not fit.

    Source: Mao and Nakagawa, EACL 2023 (arXiv:2302.08387), table 7.
    """
    if row is None:
        shape = _by_rule(fields.get("hidden_dim"))
    else:
        checks.one_of(ROWS, row=row)
        shape = ROWS[row]._asdict()
    made = shape | {"max_positions": 512, "num_types": 2, "pooling": "cls"} | fields
    if "hidden_dim" in made:
        made.setdefault("projection_dim", made["hidden_dim"])
    made.setdefault("projection_activation", "tanh")
    return new_encoder(tokenizer, **made)


def _by_rule(hidden_dim: Any) -> dict[str, int]:
    if not isinstance(hidden_dim, int):
        return {}  # The config says what is wrong with it.
    return Row(24, hidden_dim, 4 * hidden_dim, 8 if hidden_dim % 12 else 12)._asdict()
