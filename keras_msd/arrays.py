"""What gives vectors of text; vectors of length one; token ids as one batch; chunks."""

import abc
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from keras_msd.checks import InputError, at_least, explained, sentences

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


def check_prefix(truncate_dim: int | None, dim: int) -> None:
    """Raise `InputError` unless vectors of `dim` numbers have so many first ones."""
    at_least(1, truncate_dim=truncate_dim)
    if truncate_dim is not None and truncate_dim > dim:
        raise InputError(
            f"`truncate_dim` must be at most {dim}, the width of a vector. Received: "
            f"{truncate_dim}."
        )


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


class TextEncoder(abc.ABC):
    """What encoders and artefacts share: text in, vectors out.

    Arguments are also known by the names that they have in sentence-transformers.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Width of a sentence vector."""

    @abc.abstractmethod
    def _vectors(self, texts: list[str], batch_size: int, progress: bool) -> np.ndarray:
        """Return the vectors of checked sentences, float32 `(n, dim)`."""

    def encode(
        self,
        texts: str | Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
        progress: bool = True,
        *,
        truncate_dim: int | None = None,
        normalize_embeddings: bool = False,
        show_progress_bar: bool | None = True,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
    ) -> np.ndarray:
        """Turn sentences into vectors.

        Args:
            texts: Sentences; any iterable of any length, empty strings included. Or a
                single sentence.
            batch_size: Sentences in a forward pass, or in one call of the runtime.
            normalize: Scale the vectors to length one, if the model does not.
            progress: Show a bar when it takes longer than a second.
            truncate_dim: Keep the first so many numbers of each vector, scaled to
                length one. `losses.Matryoshka` trains them.
            normalize_embeddings: Another name of `normalize`.
            show_progress_bar: Another name of `progress`; either hides the bar.
            convert_to_numpy: Must be True.
            convert_to_tensor: Must be False.

        Returns:
            float32 `(n, dim)`, or `(n, truncate_dim)`, in the order of `texts`; without
            n for a single sentence.

        Raises:
            InputError: `texts` holds something else than valid Unicode, `batch_size` is
                below 1, `truncate_dim` is below 1 or above `dim`, or a tensor is asked
                for. Of an encoder: JAX trains the network at this moment. Of an
                artefact: it gives vectors of another shape than its card says.
        """
        if convert_to_tensor or not convert_to_numpy:
            raise InputError(
                "`encode` returns a NumPy array. Received: "
                f"{convert_to_numpy=}, {convert_to_tensor=}. Leave both out, and give "
                "the array to `keras.ops.convert_to_tensor` or `torch.from_numpy`."
            )
        at_least(1, batch_size=batch_size)
        check_prefix(truncate_dim, self.dim)
        one = isinstance(texts, str)
        listed = sentences([texts] if isinstance(texts, str) else texts)
        shown = progress and bool(show_progress_bar)
        vectors = self._vectors(listed, batch_size, shown)
        if normalize or normalize_embeddings or truncate_dim:
            vectors = unit_rows(vectors[:, :truncate_dim])
        return vectors[0] if one else vectors

    def __call__(self, texts: str | Iterable[str], **options: Any) -> np.ndarray:
        """Turn sentences into vectors; arguments as for `encode`."""
        return self.encode(texts, **options)

    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """Return the cosine of every vector of one set with every one of another.

        Args:
            first: Vectors `(n, dim)`, or a single one, `(dim,)`; or with the first
                numbers alone, as `truncate_dim` gives them.
            second: Vectors `(m, dim)`, or a single one, of the same width.

        Returns:
            float32 `(n, m)`; 0 where a vector is zero.

        Raises:
            InputError: One of both is something else, such as text, or their widths
                differ.
        """
        rows, columns = self._unit(first), self._unit(second)
        if rows.shape[1] != columns.shape[1]:
            raise InputError(
                "`similarity` takes vectors of one width. Received: "
                f"{rows.shape[1]} and {columns.shape[1]} numbers. Give `encode` the "
                "same `truncate_dim`."
            )
        return rows @ columns.T

    def _unit(self, vectors: Any) -> np.ndarray:
        rule = f"`similarity` takes vectors of {self.dim} numbers, or their first ones."
        with explained(f"{rule} Received: {vectors!r:.60}.", ValueError, TypeError):
            rows = np.atleast_2d(np.asarray(vectors, np.float32))
        if rows.ndim != 2 or not 0 < rows.shape[1] <= self.dim:
            raise InputError(f"{rule} Received: shape {np.shape(vectors)}.")
        return unit_rows(rows)
