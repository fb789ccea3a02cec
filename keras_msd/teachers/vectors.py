"""Teachers without a network, and the check that every teacher's vectors pass."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.arrays import unit_rows
from keras_msd.checks import InputError, existing_file, explained
from keras_msd.io.files import TIMES, digest, file_digest

HASHED_WORDS = "hashed-words"
NO_NUMBERS = "cMmSU"  # kinds of complex numbers, times and texts
SMALL = 1 << 16  # bytes that an archive counts as, if it has fewer
RECIPE = (
    "Write it with numpy.savez(path, sentences=numpy.array(list_of_str), vectors=...)."
)


class HashedWords:
    """Maps a sentence to the direction of the sum of its words' random vectors.

    For smoke runs and tests: no download, no time, and graded similarity. Case and
    punctuation do not count.

    Args:
        dim: Width of a vector.

    Raises:
        InputError: `dim` is None.

    Example:
        >>> cat, same = msd.teachers.HashedWords(8).encode(["The cat.", "the CAT"])
        >>> bool(np.allclose(cat, same))
        True
    """

    def __init__(self, dim: int | None) -> None:
        if dim is None:
            raise InputError(
                f'The teacher "{HASHED_WORDS}" needs a width. Received: none. Give '
                "`dim`, in a recipe `teacher.dim`."
            )
        self.dim, self.normalized = dim, True
        self.fingerprint = digest(HASHED_WORDS, str(dim))
        self._row = lru_cache(maxsize=100_000)(self._word)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return float32 `(n, dim)`, rows of length one; zeros without any word."""
        texts = list(texts)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                vectors[row] += self._row(word)
        return unit_rows(vectors)

    def _word(self, word: str) -> np.ndarray:
        seed = int(digest(HASHED_WORDS, word)[:16], 16)
        return np.random.default_rng(seed).standard_normal(self.dim, np.float32)


class VectorFile:
    """Vectors that were computed elsewhere, looked up by their sentence.

    Args:
        path: An `.npz` file with `vectors` `(n, dim)` and either `sentences` `(n,)`, an
            array of strings, or, as `keras-msd embed` writes them, `text`, the UTF-8
            bytes of all sentences in a row, and `ends` `(n,)`, where each one ends
            there. The last row counts where a sentence occurs twice.

    Raises:
        InputError: The file is missing, damaged, or holds something else.

    Example:
        >>> np.savez("v.npz", sentences=np.array(["a", "b"]), vectors=np.eye(2))
        >>> msd.teachers.VectorFile("v.npz").encode(["b"]).tolist()
        [[0.0, 1.0]]
    """

    def __init__(self, path: str | Path) -> None:
        """Read the file."""
        self.path = existing_file(path, "file of vectors")
        sentences, self._table = read_vectors(self.path)
        check_differing(str(path), self._table, sentences)
        self._rows = {sentence: row for row, sentence in enumerate(sentences)}
        self.dim = self._table.shape[1]
        self.normalized = unit_length(self._table)
        self.fingerprint = file_digest(self.path)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return the vectors of `texts`; `InputError` names the first unknown one."""
        for text in texts:
            if text not in self._rows:
                raise InputError(
                    f"`{self.path}` has no vector for {text!r:.80}. Add the sentence "
                    "to the file, or use a teacher that can encode."
                )
        return self._table[[self._rows[text] for text in texts]]


def read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the sentences of a `VectorFile` and float32 `(n, dim)`."""
    existing_file(path, "file of vectors")

    def damaged(error: Exception) -> str:
        return f"`{path}` is not a whole .npz file of plain arrays ({error}). {RECIPE}"

    # NumPy leaves a damaged file open when it opens it itself; NumPy and zipfile raise
    # nearly anything for one.
    with explained(damaged, Exception), open(path, "rb") as handle:
        archive = np.load(handle, allow_pickle=False)
        size = sum(member.file_size for member in archive.zip.infolist())
        times = size // max(path.stat().st_size, SMALL)
        TIMES.check(times, f"`{path}`", RECIPE)
        arrays = {key: archive[key] for key in archive.files}
    sentences, vectors = _sentences(arrays), arrays.get("vectors")
    if not sentences or vectors is None:
        listed = ", ".join(f"{key} {a.dtype} {a.shape}" for key, a in arrays.items())
        raise InputError(
            f"`{path}` must hold `sentences` (n,), strings, and `vectors` (n, dim). "
            f"Received: {listed}. {RECIPE}"
        )
    return sentences, checked(str(path), vectors, sentences)


def _sentences(arrays: dict[str, np.ndarray]) -> list[str]:
    """Return the sentences in either layout; none where there is neither."""
    plain, text, ends = (arrays.get(name) for name in ("sentences", "text", "ends"))
    if plain is not None and plain.dtype.kind == "U" and plain.ndim == 1:
        return [str(sentence) for sentence in plain]
    if text is None or ends is None or text.dtype != np.uint8 or ends.dtype != np.int64:
        return []
    content = text.tobytes()
    edges = [0, *ends.ravel().tolist()]
    if edges != sorted(edges) or edges[-1] != len(content):
        return []
    try:
        return [content[a:b].decode() for a, b in pairwise(edges)]
    except UnicodeDecodeError:
        return []


def unit_length(vectors: np.ndarray) -> bool:
    """Tell whether every row of `vectors` has length one, to a thousandth."""
    return bool(np.all(np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3))


def checked(name: str, vectors: Any, texts: list[str]) -> np.ndarray:
    """Return a teacher's `vectors` for `texts` as float32 `(n, dim)`.

    Raises:
        InputError: They are not numbers, not one row per text, or not all finite.
    """
    try:
        given = np.asarray(vectors)
        if given.dtype.kind in NO_NUMBERS:
            raise TypeError(f"{given.dtype} is no real number")
        array = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The teacher `{name}` must give an array of numbers (n, dim). Received: "
            f"{type(vectors).__name__} ({error}). Return a NumPy array."
        ) from error
    if array.ndim != 2 or len(array) != len(texts) or not array.shape[1]:
        raise InputError(
            f"The teacher `{name}` must give one vector per sentence, (n, dim). "
            f"Received: the shape {array.shape} for {len(texts)} sentences. Return one "
            "row for each."
        )
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(wrong):
        raise InputError(
            f"The teacher `{name}` must give finite vectors. Received: NaN or infinity "
            f"for {texts[wrong[0]]!r:.80}. Repair the model or leave the sentence out."
        )
    return array


def check_differing(name: str, vectors: np.ndarray, texts: list[str]) -> None:
    """Raise `InputError` where all texts have one vector, or none but zeros."""
    several = len(set(texts)) > 1
    if not vectors.any() or (several and (vectors == vectors[0]).all()):
        raise InputError(
            f"The vectors of the teacher `{name}` must differ from sentence to "
            f"sentence. Received: one vector, {vectors[0]!s:.60}, for all of "
            f"{len(texts)}. It teaches nothing: repair the model."
        )
