"""Sentence vectors without Keras and TensorFlow.

NumPy and SentencePiece run a bag of words. onnxruntime runs an encoder with layers: the
graph is a file of its own without weights, which come from the encoder's folder.

keras-msd and the packages of its encoders share this file: tools/package_encoder.py
copies it into each package, so it imports nothing of keras-msd.

    encoder = LightEncoder("encoder")
    vectors = encoder.encode(["Where is the cat?", "Wo ist die Katze?"])
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 4096  # sentences whose means are multiplied by the matrix at a time
BLOCK = 4096  # tokens whose rows are added up at a time; they stay in the cache
BATCH = 4096  # tokens, with padding, that pass through the layers at a time
SMALLEST_SQUARE = 1e-24  # a norm of 1e-12; shorter vectors count as zero
WORD = "embedding/word"  # the table
MATRICES = ("embedding/projection", "projection/kernel")  # in the order of use
KERNELS = ("/kernel", "/projection")  # ends of the paths of matrices
SCALES = "/scales"  # follows the path of a weight in 8 or 4 bits
NETWORK = "network.onnx"  # beside the encoder's folder
USAGE = {"prompts", "default_prompt_name", "similarity_fn_name"}  # not read here
DTYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8, "U8": np.uint8}


def usable_processors() -> int:
    """Return how many processors this process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return (len(usable(0)) if usable else os.cpu_count()) or 1


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
    """An encoder's folder, read without Keras.

    Args:
        folder: What `Encoder.save` wrote. With layers it needs `network.onnx` beside
            it, which tools/package_encoder.py writes.
        threads: How many may be used for layers; by default one for each processor.

    Attributes:
        dim: Width of a vector.
        max_length: Longest sentence in tokens; longer ones are cut.

    Raises:
        ValueError: The folder is no such encoder.

    With layers, `encode` raises RuntimeError in a process that was forked later.
    """

    def __init__(self, folder: str | Path, threads: int | None = None) -> None:
        from sentencepiece import SentencePieceProcessor

        folder = Path(folder)
        record = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
        config = record["config"]
        if config.keys() & USAGE:
            raise ValueError(f"`{folder}` has prompts of its own: it needs keras-msd.")
        self.max_length: int = config["max_length"]
        self.normalized: bool = config["normalize"]
        self.dim: int = config["projection_dim"] or config["hidden_dim"]
        # As bytes: on Windows SentencePiece opens paths in ASCII alone.
        model = (folder / "tokenizer" / "sentencepiece.model").read_bytes()
        self._pieces = SentencePieceProcessor(model_proto=model)
        weights = weights_of(folder)
        self._vectors: Callable[[list[list[int]]], np.ndarray]
        if config["num_layers"]:
            network = folder.with_name(NETWORK)
            self._vectors = _layers(network, config, weights, self.dim, threads)
        else:
            self._vectors = _bag_of_words(folder, config, weights)

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

    def similarity(
        self,
        texts: str | Iterable[str] | np.ndarray,
        others: str | Iterable[str] | np.ndarray,
    ) -> np.ndarray:
        """Return the cosines between two lists of texts or vectors.

        Returns:
            float32 `(n, m)`: row i is that of text i.
        """
        sides = []
        for given in (texts, others):
            vectors = given if isinstance(given, np.ndarray) else self.encode(given)
            vectors = np.atleast_2d(vectors)
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            sides.append(vectors / np.where(norms > 0, norms, np.float32(1)))
        return sides[0] @ sides[1].T


def network_weights(
    config: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the arrays that an encoder's ONNX graph is given, by their names in it.

    Args:
        config: Of the encoder.
        weights: Of its folder, by their paths, as they are stored.

    Returns:
        The word table as it is stored; kernels of 4 bits, if all are, as MatMulNBits
        takes them; the other weights float32: kernels `(in, out)`, vectors, and
        positions from the first token's on, with the first type.
    """
    given: dict[str, np.ndarray] = {}
    four_bits = has_four_bits(weights)
    for path, value in weights.items():
        scales = weights.get(f"{path}{SCALES}")
        if path == f"{WORD}{SCALES}":
            given[path] = value.reshape(len(value), -1)
        elif path == WORD:
            given[path] = value
        elif four_bits and path.endswith(KERNELS) and scales is not None:
            outputs, blocks = scales.shape
            pairs = _halves(value).reshape(outputs, blocks, -1, 2)
            given[path] = pairs[:, :, :, 0] | pairs[:, :, :, 1] << 4
            given[f"{path}{SCALES}"] = scales.astype(np.float32)
        elif path == "embedding/position":
            kind = weights["embedding/type"][0]
            given[path] = value[config["position_offset"] :] + kind
        elif path.endswith(KERNELS):
            given[path] = np.ascontiguousarray(_kernel(path, value, scales))
        elif path != "embedding/type" and not path.endswith(SCALES):
            given[path] = value.reshape(-1)
    return given


def has_four_bits(weights: Mapping[str, np.ndarray]) -> bool:
    """Tell whether all kernels are stored in 4 bits."""
    kernels = (path for path in weights if path.endswith(KERNELS))
    return all(weights[path].dtype == np.uint8 for path in kernels)


def _halves(stored: np.ndarray) -> np.ndarray:
    """Return numbers of 4 bits plus 8: the first half of a row, then the second."""
    return np.concatenate([stored & 15, stored >> 4], axis=1)


def _kernel(path: str, stored: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
    """Return a kernel, float32 `(in, out)`."""
    if stored.dtype != np.uint8 or scales is None:
        joined = "/attention_output/" not in path  # which side stands in two axes
        outputs = math.prod(stored.shape[1:]) if joined else stored.shape[-1]
        matrix = stored.reshape(-1, outputs).astype(np.float32)
        return matrix if scales is None else matrix * scales
    numbers = _halves(stored).astype(np.float32) - 8
    parts = numbers.reshape(*scales.shape, -1) * scales.astype(np.float32)[..., None]
    return parts.reshape(len(stored), -1).T


def _layers(
    network: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    dim: int,
    threads: int | None,
) -> Callable[[list[list[int]]], np.ndarray]:
    """Return the function from rows of ids to vectors, in onnxruntime."""
    if not network.is_file():
        raise ValueError(f"`{network}` is missing: an encoder with layers needs it.")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    options.intra_op_num_threads = threads or usable_processors()
    given = network_weights(config, weights)
    values = map(onnxruntime.OrtValue.ortvalue_from_numpy, given.values())
    options.add_external_initializers(list(given), list(values))
    session = onnxruntime.InferenceSession(
        network.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    process = os.getpid()

    def vectors(ids: list[list[int]]) -> np.ndarray:
        if os.getpid() != process:  # it would wait for threads that are not there
            raise RuntimeError(
                "The encoder was loaded before this process was forked, and the "
                "threads of onnxruntime are not in the fork. Load it in each process."
            )
        found = np.empty((len(ids), dim), np.float32)
        # The longest first: a batch is as long as its first row.
        order = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
        start = 0
        while start < len(order):
            length = len(ids[order[start]])
            places = order[start : start + max(1, BATCH // length)]
            token_ids = np.full((len(places), length), config["pad_id"], np.int32)
            mask = np.zeros_like(token_ids)
            for row, place in enumerate(places):
                token_ids[row, : len(ids[place])] = ids[place]
                mask[row, : len(ids[place])] = 1
            feeds = {"token_ids": token_ids, "padding_mask": mask}
            found[places] = session.run(None, feeds)[0]
            start += len(places)
        return found

    return vectors


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


def _bag_of_words(
    folder: Path, config: Mapping[str, Any], weights: dict[str, np.ndarray]
) -> Callable[[list[list[int]]], np.ndarray]:
    table, scales = weights.pop(WORD), weights.pop(f"{WORD}{SCALES}", None)
    if table.dtype == np.uint8:
        raise ValueError(f"`{folder}` has a table in 4 bits: it needs keras-msd.")
    for name in weights.keys() & MATRICES:
        scale = weights.pop(f"{name}{SCALES}", np.float32(1))
        weights[name] = weights[name] * scale
    parts = linear_parts(config, weights)
    if parts is None:
        raise ValueError(f"`{folder}` is more than a bag of words: it needs keras-msd.")

    def rows(ids: np.ndarray) -> np.ndarray:
        found = table[ids]
        return found if scales is None else found * scales[ids][..., np.newaxis]

    def vectors(ids: list[list[int]]) -> np.ndarray:
        return sentence_vectors(rows, ids, table.shape[1], *parts, config["normalize"])

    return vectors


def weights_of(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an encoder's folder by their paths, as they are stored.

    A .safetensors file is a length, a header and the bytes.
    """
    content = (folder / "weights.safetensors").read_bytes()
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
