"""What the losses over both sides of a batch share."""

from typing import Any

from keras import ops

from keras_msd.checks import InputError

EXCLUDED = -1e9  # as a logit: no share of a softmax in float32


def pair_of(value: Any, name: str, parts: str) -> tuple[Any, Any]:
    """Return the two parts of a loss's argument.

    Args:
        value: What was given.
        name: The argument.
        parts: What its two parts are, in words.

    Raises:
        InputError: `value` is not a pair.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(
            f"`{name}` must be a pair: {parts}. Received: {type(value).__name__}."
        )
    return value[0], value[1]


def same_line(rows: Any, group: Any = None) -> Any:
    """Return where two rows of a batch have the same English line, bool `(n, n)`.

    Args:
        rows: Anything with n rows.
        group: `(n,)`, equal numbers where the line is the same; None where every row
            has a line of its own.
    """
    if group is None:
        group = ops.arange(ops.shape(rows)[0])
    return ops.equal(ops.expand_dims(group, 1), ops.expand_dims(group, 0))


def without_duplicates(logits: Any, group: Any = None) -> Any:
    """Return logits of which rows of one English line have no share of each other's.

    Shapes: `logits` `(n, n)` in and out; `group` as for `same_line`.
    """
    if group is None:
        return logits
    others = ops.logical_and(same_line(group, group), ops.logical_not(same_line(group)))
    return ops.where(others, EXCLUDED, logits)
