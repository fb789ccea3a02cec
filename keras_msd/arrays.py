"""The base class of everything that embeds text, and functions on its arrays."""

import abc
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from keras_msd.checks import (
    InputError,
    at_least,
    explain_arguments,
    explained,
    one_of,
    sentences,
    whole,
)
from keras_msd.progress import track
from keras_msd.quantize import PRECISIONS, quantize_embeddings

Item = TypeVar("Item")
SIDES = ("query", "document")  # prompts that every model has, empty unless given
ORDERS = {"euclidean": 2, "manhattan": 1}  # of the norm of a difference
PART = 16  # batches that a process encodes in one task
# Arguments of sentence-transformers, model2vec and FlagEmbedding, and what to write.
HABITS = {
    "sentences": "Give them first, or as `texts`.",
    "normalize_embeddings": "Write `normalize=True`.",
    "show_progress_bar": "Write `progress=False` or `progress=True`.",
    "convert_to_numpy": "The result is always a NumPy array: leave it out.",
    "convert_to_tensor": (
        "The result is a NumPy array: convert it, as with `torch.from_numpy(vectors)` "
        "or `keras.ops.convert_to_tensor(vectors)`."
    ),
    "output_value": "The result is always one vector per sentence: leave it out.",
    "device": (
        "Keras chooses the device. To keep it from a GPU, set CUDA_VISIBLE_DEVICES "
        "before Python starts."
    ),
    "max_length": "Texts are cut at the encoder's own `max_length`: leave it out.",
    **dict.fromkeys(
        ("num_proc", "num_workers", "pool", "use_multiprocessing", "chunk_size"),
        "Write `processes=4` to share the work.",
    ),
}
# Attributes of sentence-transformers and Keras, and what does the same here.
OURS = {
    "get_sentence_embedding_dimension": "`dim`",
    "get_embedding_dimension": "`dim`",
    "max_seq_length": "`max_length`",
    "tokenize": "`tokenizer.encode`",
    "predict": "`encode`",
    "encode_multi_process": "`encode(texts, processes=4)`",
    "start_multi_process_pool": "`encode(texts, processes=4)`",
    "to": "CUDA_VISIBLE_DEVICES before Python starts: Keras chooses the device",
}


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items; the last one may be shorter."""
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk


def by_length(texts: Sequence[str], size: int) -> Iterator[list[int]]:
    """Yield the positions of `size` texts of similar length, for little padding."""
    yield from in_chunks(
        sorted(range(len(texts)), key=lambda row: len(texts[row].encode())), size
    )


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Scale the rows of `(n, dim)` to length one; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)


def similarity_matrix(name: str, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compare every row of `(n, dim)` with every row of `(m, dim)`.

    Args:
        name: "cosine"; "dot", the dot product; "euclidean" or "manhattan", the negative
            distance.
        rows: Vectors.
        columns: Vectors of the same width.

    Returns:
        `(n, m)`; a cosine with a zero vector is 0.

    Source: `SimilarityFunction` of sentence-transformers 6.2.
    """
    if name == "cosine":
        rows, columns = unit_rows(rows), unit_rows(columns)
    if name not in ORDERS:
        return rows @ columns.T
    found = np.empty((len(rows), len(columns)), rows.dtype)
    for row, vector in enumerate(rows):
        found[row] = -np.linalg.norm(columns - vector, ORDERS[name], axis=1)
    return found


def similarity_pairs(name: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Compare row i of `(n, dim)` with row i of another: `(n,)`.

    Args:
        name: As for `similarity_matrix`.
        left: Vectors.
        right: As many, of the same width.
    """
    if name == "cosine":
        left, right = unit_rows(left), unit_rows(right)
    if name not in ORDERS:
        return np.einsum("nd,nd->n", left, right)
    return -np.linalg.norm(left - right, ORDERS[name], axis=1)


def check_truncation(truncate_dim: int | None, dim: int) -> None:
    """Raise `InputError` unless `truncate_dim` is possible for vectors of `dim`."""
    at_least(1, truncate_dim=truncate_dim)
    if truncate_dim is not None and truncate_dim > dim:
        raise InputError(
            f"`truncate_dim` must be at most {dim}, the width of a vector. Received: "
            f"{truncate_dim}."
        )


def padded_length(longest: int, limit: int | None = None, multiple: int = 8) -> int:
    """Round a length up to a multiple, but at most `limit`, for fewer shapes."""
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
        pad_id: Id of the padding.
        longest: Maximum length of a batch.
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
    """Base class of everything that embeds text."""

    if not TYPE_CHECKING:  # type checkers know that nothing else is there

        def __getattr__(self, name: str) -> Any:
            """Raise an `AttributeError` that names what other libraries call `name`."""
            ours = f" Use {OURS[name]}." if name in OURS else ""
            kind = type(self).__name__
            raise AttributeError(f"`{kind}` has no attribute `{name}`.{ours}")

    _usage: Any = None  # has the fields of `keras_msd.usage.Usage`

    @property
    def prompts(self) -> dict[str, str]:
        """Texts that can stand before a sentence, by name; "query" and "document" too.

        They are empty unless the model says something else.
        """
        return dict.fromkeys(SIDES, "") | (self._usage.prompts if self._usage else {})

    @property
    def default_prompt_name(self) -> str | None:
        """Name of the prompt that `encode` uses by itself; None for no prompt."""
        return self._usage and self._usage.default_prompt_name

    @property
    def default_prompt(self) -> str:
        """Text that `encode` puts before every sentence by itself."""
        name = self.default_prompt_name
        return "" if name is None else self.prompts[name]

    @property
    def similarity_fn_name(self) -> str:
        """How `similarity` compares vectors: see `similarity_matrix`."""
        return self._usage.similarity_fn_name if self._usage else "cosine"

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Dimension of an embedding."""

    @property
    @abc.abstractmethod
    def max_length(self) -> int:
        """Maximum number of tokens, with start and end; longer sentences are cut."""

    @abc.abstractmethod
    def count_tokens(self, texts: list[str]) -> list[int] | None:
        """Return the number of tokens that the model reads of each text, if known."""

    @abc.abstractmethod
    def _vectors(self, texts: list[str], batch_size: int, progress: bool) -> np.ndarray:
        """Return the vectors of checked sentences, float32 `(n, dim)`."""

    @explain_arguments(**HABITS)
    def encode(
        self,
        texts: str | Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
        progress: bool = True,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        precision: str = "float32",
        truncate_dim: int | None = None,
        processes: int = 1,
    ) -> np.ndarray:
        """Turn sentences into vectors.

        Args:
            texts: Sentences, which may be empty: a list, a column of a data frame, a
                one-dimensional array, a generator or another iterable with an order.
                Or a single sentence: a string or an array without dimensions.
            batch_size: Sentences in a forward pass, or in one call of the runtime.
            normalize: Whether to scale vectors to length one, if the model does not.
            progress: Whether to show a progress bar if it takes longer than a second.
            prompt_name: A key of `prompts`, whose text stands before every sentence;
                by default `default_prompt_name`.
            prompt: The text itself, such as "query: "; "" for none.
            precision: "float32", or a precision of `quantize_embeddings`.
            truncate_dim: Return only so many first numbers of each vector, as they are;
                with `normalize`, scaled to length one. `losses.Matryoshka` trains them.
            processes: Number of processes that share the work; each loads the model. A
                script must then run its work under `if __name__ == "__main__":`.

        Returns:
            float32 `(n, dim)`, or `(n, truncate_dim)`, in the order of `texts`; without
            n for a single sentence. With `precision`, see `quantize_embeddings`.

        Raises:
            InputError: `texts` contains something else than valid Unicode (bytes, None,
                NaN), or is a mapping, a data frame or a set; `prompt_name` is unknown,
                or `prompt` is given too; `batch_size` or `processes` is below 1,
                `truncate_dim` is below 1 or above `dim`, or `precision` is unknown. For
                an encoder: JAX is training the network. For an artefact: its vectors
                have another shape than its card says.
        """
        whole(batch_size=batch_size, processes=processes, truncate_dim=truncate_dim)
        at_least(1, batch_size=batch_size, processes=processes)
        one_of(PRECISIONS, precision=precision)
        check_truncation(truncate_dim, self.dim)
        if getattr(texts, "shape", None) == ():
            texts = np.asarray(texts).item()
        one = isinstance(texts, str)
        listed = sentences([texts] if isinstance(texts, str) else texts)
        if before := self._prompt(prompt_name, prompt):
            listed = [before + text for text in listed]
        if processes > 1:
            vectors = self._in_processes(listed, batch_size, progress, processes)
        else:
            vectors = self._vectors(listed, batch_size, progress)
        vectors = vectors[:, :truncate_dim]
        if normalize:
            vectors = unit_rows(vectors)
        vectors = quantize_embeddings(vectors, precision)
        return vectors[0] if one else vectors

    def encode_query(self, texts: str | Iterable[str], **options: Any) -> np.ndarray:
        """Turn queries into vectors: with the prompt "query" unless one is given.

        Args:
            texts: As for `encode`.
            **options: Those of `encode`.
        """
        return self._encode_side("query", texts, options)

    def encode_document(self, texts: str | Iterable[str], **options: Any) -> np.ndarray:
        """Turn what is searched into vectors: with the prompt "document".

        Args:
            texts: As for `encode`.
            **options: Those of `encode`.
        """
        return self._encode_side("document", texts, options)

    def _encode_side(
        self, side: str, texts: str | Iterable[str], options: dict[str, Any]
    ) -> np.ndarray:
        given = (options.get("prompt_name"), options.get("prompt"))
        named = {"prompt_name": side} if given == (None, None) else {}
        return self.encode(texts, **options | named)

    def _prompt(self, name: str | None, text: str | None) -> str:
        if name is None:
            return self.default_prompt if text is None else text
        if text is not None:
            raise InputError(
                "`encode` takes `prompt_name` or `prompt`. Received: "
                f"prompt_name={name!r:.60}, prompt={text!r:.60}. Leave one of them out."
            )
        one_of(self.prompts, prompt_name=name)
        return self.prompts[name]

    def _in_processes(
        self, texts: list[str], batch_size: int, progress: bool, processes: int
    ) -> np.ndarray:
        parts = list(in_chunks(texts, PART * batch_size))
        tasks = [(part, batch_size) for part in parts]
        # A forked process would inherit locks that TensorFlow's threads hold.
        context = multiprocessing.get_context("spawn")
        vectors = [np.zeros((0, self.dim), np.float32)]
        try:
            with ProcessPoolExecutor(processes, context, _take, (self,)) as pool:
                done: Iterable[np.ndarray] = pool.map(_vectors_of, tasks)
                if progress:
                    done = track(done, total=len(tasks), what="Encoding")
                vectors += done
        except BrokenProcessPool as error:
            raise InputError(
                "A process that encodes ended early. Call `encode(processes=...)` "
                'under `if __name__ == "__main__":`, and look at the memory: each '
                "process loads the model."
            ) from error
        return np.concatenate(vectors)

    @explain_arguments(
        embeddings1="Give it first, or as `first`.",
        embeddings2="Give it second, or as `second`.",
    )
    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """Compare every vector of one set with every vector of another.

        By cosine, or by `similarity_fn_name`.

        Args:
            first: Vectors `(n, dim)` or a single one, `(dim,)`, also truncated ones; or
                n texts or a single text, as for `encode`.
            second: The same; m vectors of the same dimension.

        Returns:
            float32 `(n, m)`: a larger number is nearer. A distance is negative.

        Raises:
            InputError: An argument is something else, or their dimensions differ.
        """
        rows, columns = self._rows(first), self._rows(second)
        if rows.shape[1] != columns.shape[1]:
            raise InputError(
                "`similarity` takes vectors of one width. Received: "
                f"{rows.shape[1]} and {columns.shape[1]} numbers. Give `encode` the "
                "same `truncate_dim`."
            )
        return similarity_matrix(self.similarity_fn_name, rows, columns)

    def _rows(self, given: Any) -> np.ndarray:
        if isinstance(given, Iterator):
            given = list(given)
        if _is_text(given):
            given = self.encode(given, progress=False)
        rule = (
            f"`similarity` takes texts, or vectors of {self.dim} numbers or their "
            "first ones."
        )
        with explained(f"{rule} Received: {given!r:.60}.", ValueError, TypeError):
            rows = np.asarray(given, np.float32)
        rows = np.atleast_2d(rows) if rows.ndim else rows
        if rows.ndim != 2 or not 0 < rows.shape[1] <= self.dim:
            raise InputError(f"{rule} Received: shape {np.shape(given)}.")
        return rows


def _is_text(given: Any) -> bool:
    """Tell whether a text, or the first of several items, is a text."""
    if getattr(given, "shape", None) == ():
        given = np.asarray(given).item()
    if isinstance(given, str):
        return True
    with suppress(TypeError):  # no iterable
        return isinstance(next(iter(given), None), str)
    return False


_taken: TextEncoder  # in a process of `encode(processes=...)`: what it encodes with


def _take(encoder: TextEncoder) -> None:
    global _taken
    _taken = encoder


def _vectors_of(task: tuple[list[str], int]) -> np.ndarray:
    return _taken._vectors(*task, progress=False)
