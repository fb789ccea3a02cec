"""Vectors of length one, rows of token ids as one batch, and any items in chunks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items, the last one shorter, so that any number fits."""
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Scale the rows of `(n, dim)` to length one; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)


def padded_length(longest: int, limit: int | None = None, multiple: int = 8) -> int:
    """Round a length up to a multiple, at most `limit`, so that few shapes occur."""
    length = max(1, -(-longest // multiple)) * multiple
    return length if limit is None else min(length, max(limit, 1))


def pad_batch(
    ids: Sequence[Sequence[int]],
    pad_id: int,
    longest: int | None = None,
    multiple: int = 8,
) -> dict[str, np.ndarray]:
    """Pad rows of ids at the right.

    Args:
        ids: One sequence of token ids per sentence, none longer than `longest`.
        pad_id: Id that fills a row.
        longest: Largest length that a batch may have.
        multiple: The length is rounded up to a multiple of this.

    Returns:
        `token_ids` and `padding_mask` (1 on real tokens), int32 `(n, length)`.
    """
    lengths = np.fromiter((len(row) for row in ids), np.int64, len(ids))
    length = padded_length(int(lengths.max(initial=0)), longest, multiple)
    mask = np.arange(length) < lengths[:, None]
    token_ids = np.full(mask.shape, pad_id, np.int32)
    if len(ids):
        token_ids[mask] = np.concatenate([np.asarray(row, np.int32) for row in ids])
    return {"token_ids": token_ids, "padding_mask": mask.astype(np.int32)}
