"""Mean over the real tokens of a sentence."""

from typing import Any

from keras import ops


def masked_mean(hidden: Any, mask: Any) -> Any:
    """Average `hidden` over the tokens that `mask` keeps, in float32.

    Shapes: `hidden` `(batch, length, dim)`; `mask` `(batch, length)`, non-zero on real
    tokens; returns `(batch, dim)` float32. A sentence without a token gives zeros.

    Source: Reimers & Gurevych 2019, mean pooling.
    """
    weights = ops.cast(mask, "float32")
    total = ops.einsum("bld,bl->bd", ops.cast(hidden, "float32"), weights)
    count = ops.sum(weights, axis=1, keepdims=True)
    return total / ops.maximum(count, 1e-9)
