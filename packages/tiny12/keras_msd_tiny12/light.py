"""Sentence vectors with NumPy and SentencePiece, without Keras and TensorFlow.

keras-msd and the packages of its encoders share this file: tools/package_encoder.py
copies it into each package, so it imports nothing of keras-msd.

    encoder = LightEncoder("encoder")
    vectors = encoder.encode(["Where is the cat?", "Wo ist die Katze?"])
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 4096  # sentences whose means are multiplied by the matrix at a time
BLOCK = 4096  # tokens whose rows are added up at a time; they stay in the cache
SMALLEST_SQUARE = 1e-24  # a norm of 1e-12; shorter vectors count as zero
WORD = "embedding/word"  # the table
MATRICES = ("embedding/projection", "projection/kernel")  # in the order of use
USAGE = {"prompts", "default_prompt_name", "similarity_fn_name"}  # not read here
DTYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8}


def mean_rows(
    rows: Callable[[np.ndarray], np.ndarray], ids: Sequence[Sequence[int]], width: int
) -> np.ndarray:
    """Return the mean row of each sentence, float32 `(n, width)`.

    Sentences of one length are added up together, token by token, so that the others
    beside it change no digit of a mean.

    Args:
        rows: From ids `(n, length)` to rows of the table, `(n, length, width)`.
        ids: Of each sentence; one without ids gives zeros.
        width: Of a row.
    """
    means = np.zeros((len(ids), width), np.float32)
    places: dict[int, list[int]] = {}
    for place, row in enumerate(ids):
        places.setdefault(len(row), []).append(place)
    for length, found in places.items():
        size = max(1, BLOCK // max(1, length))
        for start in range(0, len(found) if length else 0, size):
            part = found[start : start + size]
            total = rows(np.array([ids[place] for place in part])).sum(axis=1)
            means[part] = total / np.float32(length)
    return means


def sentence_vectors(
    rows: Callable[[np.ndarray], np.ndarray],
    ids: Sequence[Sequence[int]],
    width: int,
    matrices: Sequence[np.ndarray],
    bias: np.ndarray | None,
    normalize: bool,
) -> np.ndarray:
    """Return the vectors of a bag of words: a mean of rows, matrices, length one.

    Args:
        rows: As for `mean_rows`.
        ids: Of each sentence.
        width: Of a row.
        matrices: float32, multiplied one after the other.
        bias: Added after them, or None.
        normalize: Scale the vectors to length one; a zero vector stays zero.
    """
    vectors = mean_rows(rows, ids, width)
    for matrix in matrices:
        vectors = vectors @ matrix
    if bias is not None:
        vectors = vectors + bias
    if normalize:
        square = np.einsum("nd,nd->n", vectors, vectors)[:, np.newaxis]
        inverse = 1 / np.sqrt(np.maximum(square, np.float32(SMALLEST_SQUARE)))
        vectors = vectors * np.where(square > SMALLEST_SQUARE, inverse, np.float32(0))
    return vectors


class LightEncoder:
    """The folder of a bag of words, read without Keras.

    Args:
        folder: What `Encoder.save` wrote.

    Attributes:
        dim: Width of a vector.
        max_length: Longest sentence in tokens; longer ones are cut.

    Raises:
        ValueError: The folder is no such encoder.
    """

    def __init__(self, folder: str | Path) -> None:
        from sentencepiece import SentencePieceProcessor

        folder = Path(folder)
        record = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
        config = record["config"]
        if record.get("quantize") not in (None, "int8"):
            raise ValueError(f"`{folder}` has a table in 4 bits: it needs keras-msd.")
        if config.keys() & USAGE:
            raise ValueError(f"`{folder}` has prompts of its own: it needs keras-msd.")
        self.max_length: int = config["max_length"]
        self.normalized: bool = config["normalize"]
        self.dim: int = config["projection_dim"] or config["hidden_dim"]
        # As bytes: on Windows SentencePiece opens paths in ASCII alone.
        model = (folder / "tokenizer" / "sentencepiece.model").read_bytes()
        self._pieces = SentencePieceProcessor(model_proto=model)
        self._vectors = _bag_of_words(folder / "weights.safetensors", config)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, start and end included."""
        room = self.max_length - 2
        # `<pad>` has the id 1 here and none in the model; unknown is 0 there, 3 here.
        return [
            [0, *[number + 1 if number else 3 for number in row[:room]], 2]
            for row in self._pieces.encode(list(texts))
        ]

    def encode(
        self,
        texts: str | Iterable[str],
        normalize: bool = False,
        truncate_dim: int | None = None,
    ) -> np.ndarray:
        """Turn sentences into vectors.

        Args:
            texts: Sentences, or a single one.
            normalize: Scale the vectors to length one, also shortened ones.
            truncate_dim: Keep the first so many numbers of each vector.

        Returns:
            float32 `(n, dim)`; `(dim,)` for a single sentence.

        Raises:
            ValueError: `texts` holds something else than text, or `truncate_dim` is
                not from 1 to `dim`.
        """
        one = isinstance(texts, str)
        listed = [texts] if isinstance(texts, str) else list(texts)
        if wrong := [text for text in listed if not isinstance(text, str)]:
            raise ValueError(f"`texts` must hold strings. Received: {wrong[0]!r:.60}.")
        if truncate_dim is not None and not 1 <= truncate_dim <= self.dim:
            raise ValueError(
                f"`truncate_dim` must be from 1 to {self.dim}. Received: "
                f"{truncate_dim}."
            )
        vectors: np.ndarray = np.empty((len(listed), self.dim), np.float32)
        for start in range(0, len(listed), CHUNK):
            ids = self.ids(listed[start : start + CHUNK])
            vectors[start : start + CHUNK] = self._vectors(ids)
        vectors = vectors[:, :truncate_dim]
        if normalize:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.where(norms > 0, norms, np.float32(1))
        return vectors[0] if one else vectors


def linear_parts(
    config: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> tuple[list[np.ndarray], np.ndarray | None] | None:
    """Return what a bag of words does to the mean of its rows: matrices and a bias.

    Args:
        config: Of the encoder.
        weights: All that it has but the word table, float32, by their paths.

    Returns:
        None if the encoder is more than a bag of words.
    """
    known = {"embedding/position", "embedding/type", *MATRICES, "projection/bias"}
    plain = config["pooling"] == "mean" and config["projection_activation"] == "linear"
    # Without a body, positions and types add the same to every sentence: nothing here.
    added = weights["embedding/position"].any() or weights["embedding/type"].any()
    if added or not plain or weights.keys() - known:
        return None
    matrices = [weights[name] for name in MATRICES if name in weights]
    return matrices, weights.get("projection/bias")


def _bag_of_words(path: Path, config: dict[str, Any]) -> Callable[..., np.ndarray]:
    weights = _weights(path)
    table, scales = weights.pop(WORD), weights.pop(f"{WORD}/scales", None)
    for name in weights.keys() & MATRICES:
        scale = weights.pop(f"{name}/scales", np.float32(1))
        weights[name] = weights[name] * scale
    parts = linear_parts(config, weights)
    if parts is None:
        raise ValueError(f"`{path}` is more than a bag of words: it needs keras-msd.")

    def rows(ids: np.ndarray) -> np.ndarray:
        found = table[ids]
        return found if scales is None else found * scales[ids][..., np.newaxis]

    def vectors(ids: list[list[int]]) -> np.ndarray:
        return sentence_vectors(rows, ids, table.shape[1], *parts, config["normalize"])

    return vectors


def _weights(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a .safetensors file: a length, a header, their bytes."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(
            content,
            DTYPES[part["dtype"]],
            math.prod(part["shape"]),
            begin + part["data_offsets"][0],
        ).reshape(part["shape"])
        for name, part in header.items()
    }
