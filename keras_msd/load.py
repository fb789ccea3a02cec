"""Open what a name, a folder or an address stands for: an encoder or a teacher."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

from keras_msd.arrays import TextEncoder
from keras_msd.checkpoints.packaged import (
    E5,
    PackagedEncoder,
    is_packaged,
    packaged_folder,
    packaged_names,
    runs_without_keras,
)
from keras_msd.checks import InputError, a_list, existing_folder, nearest, one_of
from keras_msd.choices import Pooling, Similarity
from keras_msd.export.artefact import load_artefact
from keras_msd.export.card import CARD, check_parts
from keras_msd.io.remote import HUB_NAME, PATTERNS, fetch
from keras_msd.teachers.teacher import (
    TEACHERS,
    JointTeacher,
    Teacher,
    VectorFile,
    default_folder,
    is_default,
    published_saved_model,
    saved_model_fingerprint,
    sentence_transformer,
    teacher_of,
    with_prompt,
)

# One of these says that a folder is an artefact, or was one before it was taken apart.
MODELS = ("1/saved_model.pb", "saved_model.pb", "model.tflite", "model.onnx")
# Starts of the names that sentence-transformers also takes without its own.
SENTENCE_TRANSFORMERS = ("all-", "paraphrase-", "multi-qa-", "distiluse-", "LaBSE")
HUB_PAGE = re.compile(r"(https?://)?(huggingface\.co|hf\.co)/|hf:/?(?!/)")


def load_encoder(
    source: str | Path,
    pooling: str | None = None,
    prompts: dict[str, str] | None = None,
    default_prompt_name: str | None = None,
    similarity_fn_name: str | None = None,
) -> Any:
    """Load an encoder.

    Args:
        source: A folder of ours, a folder in sentence-transformers layout (so is an
            artefact with model.safetensors), "hf://org/name", an artefact of any
            format: its folder, or the model file in it; "tiny12", "mini12" or
            "small12", encoders in packages of their own; or "e5-small",
            multilingual-e5-small in 4 bits from two packages on PyPI. A folder of that
            name comes first.
        pooling: "mean", "cls" or "max": pools the token vectors in another way than
            the folder says, or where it says nothing.
        prompts: Texts that can stand before a sentence, by name, such as `{"query":
            "query: ", "document": "passage: "}`, in place of all that the folder has;
            {} for none. They are saved with the encoder. A student made of it has none.
        default_prompt_name: Name of the prompt that `encode` uses by itself; by default
            what the folder says, or none where `prompts` is given.
        similarity_fn_name: "cosine", "dot", "euclidean" or "manhattan", in place of
            what the folder says.

    Returns:
        An `Encoder`. Of a packaged encoder without other arguments, a
        `PackagedEncoder`, which has the same methods and loads Keras when one of them
        needs it. From an artefact, an `Artefact` with `encode`, `dim` and `card`.

    Raises:
        InputError: Nothing of these kinds is there, it is damaged, it is an artefact
            and another argument is given, a prompt or similarity function is unknown,
            or its package is not installed or of another version than the library.

    Example:
        >>> msd.testing.tiny_encoder().save("encoder")
        >>> msd.load_encoder("encoder").config.pooling
        'mean'
        >>> msd.load_encoder("encoder", pooling="cls").config.pooling
        'cls'
        >>> encoder = msd.load_encoder("encoder", prompts={"query": "query: "})
        >>> encoder.prompts
        {'query': 'query: ', 'document': ''}
    """
    if similarity_fn_name is not None:
        one_of(get_args(Similarity), similarity_fn_name=similarity_fn_name)
    options: dict[str, Any] = {
        "pooling": pooling,
        "prompts": prompts,
        "default_prompt_name": default_prompt_name,
        "similarity_fn_name": similarity_fn_name,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if prompts is not None:
        given["default_prompt_name"] = default_prompt_name
    if not given and is_packaged(source) and runs_without_keras(str(source)):
        return PackagedEncoder(str(source))
    return _with_keras(source, given)


def _with_keras(source: str | Path, given: Mapping[str, Any]) -> Any:
    """Do what `load_encoder` does, also for a packaged encoder."""
    # Keras takes seconds to import, and a teacher may need none of it.
    from keras_msd.checkpoints.checkpoint import load_checkpoint
    from keras_msd.checkpoints.e5 import load_e5_small
    from keras_msd.checkpoints.weights import SINGLE
    from keras_msd.models.encoder import load_saved
    from keras_msd.models.encoder_folder import is_saved_encoder

    if "pooling" in given:
        one_of(get_args(Pooling), pooling=given["pooling"])
    if is_packaged(source, [E5]):
        return load_e5_small(**given)
    folder = folder_of(source)
    if is_saved_encoder(folder):
        return load_saved(folder, **given)
    is_artefact = folder.is_file() or (folder / CARD).is_file()
    if not is_artefact or (folder / SINGLE).is_file():
        existing_folder(folder, "encoder")
        if any((folder / name).is_file() for name in ("config.json", "modules.json")):
            if is_artefact:
                check_parts(folder, PATTERNS)
            return load_checkpoint(folder, **given)
        if not any((folder / name).exists() for name in MODELS):
            raise InputError(
                f"`{folder}` holds no encoder: neither encoder.json (ours), "
                "modules.json or config.json (a checkpoint) nor card.json (an "
                "artefact). Give one of these folders."
            )
    if given:
        raise InputError(
            "An artefact is loaded as it was exported. Received: "
            f"`{folder}`, {', '.join(f'{k}={v!r}' for k, v in given.items())}. Export "
            'the encoder with other settings, or call `encode(prompt="...")`.'
        )
    return load_artefact(folder)


def folder_of(source: str | Path) -> Path:
    """Return the folder or file of a packaged encoder, a hub address or a path.

    Raises:
        InputError: It does not exist, is not installed, or cannot be fetched.
    """
    check_source(source)
    if is_packaged(source):
        return packaged_folder(str(source))
    if str(source).startswith("hf://"):
        return fetch(str(source))
    return Path(source)


def check_source(
    source: str | Path, what: str = "encoder", others: Iterable[str] = ()
) -> None:
    """Raise `InputError` if a name or path stands for nothing.

    Args:
        source: The name, path or address.
        what: What it should be, for the message.
        others: Names that are allowed beside those of `load_encoder`.
    """
    name, others = str(source), list(others)
    known = name.startswith("hf://") or is_packaged(source, [*packaged_names(), E5])
    if known or name in others or Path(source).exists():
        return
    hint = nearest(name, [*packaged_names(), E5, *others])
    on_hub = name
    if page := HUB_PAGE.match(name):
        on_hub = "/".join(name[page.end() :].split("/")[:2])
    elif name.startswith(SENTENCE_TRANSFORMERS):
        on_hub = f"sentence-transformers/{name}"
    if HUB_NAME.fullmatch(on_hub) and not Path(on_hub).parent.is_dir():
        hint = f"Give the path of a folder, or of a model on the hub hf://{on_hub}"
    if name.startswith("~"):
        hint = "Write the whole path: `~` is not replaced."
    named = f", or one of {', '.join(others)}" if others else ""
    raise InputError(
        f"The {what} `{name}` does not exist. "
        f"{hint or f'Give the path of a folder{named}.'}"
    )


def load_teacher(
    source: Any,
    name: str | None = None,
    dim: int | None = None,
    pooling: str | None = None,
    languages: Iterable[str] | None = None,
    allow_operations: Collection[str] | None = None,
    prompt: str | None = None,
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
            "hf://organisation/model", "tiny12", "mini12" or "small12" (in packages of
            their own), "e5-small" (multilingual-e5-small in 4 bits) or "muse" (the
            multilingual Universal Sentence Encoder), each from packages on PyPI, a list
            of teachers (see `JointTeacher`), an `.npz` file with `sentences` `(n,)` and
            `vectors` `(n, dim)`, a `SentenceTransformer`, an `Encoder`, an artefact, a
            function from a list of strings to an array `(n, dim)`, or "hashed-words",
            which needs no weights; or a name in `TEACHERS`. A function, a
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
        prompt: Text put before every sentence, such as "query: ", in place of a model's
            default prompt. It is part of the fingerprint.

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
    teacher = teacher_of(guide, source, name)
    if dim not in (None, teacher.dim):
        raise InputError(
            f"`dim` must be the teacher's width. Received: {dim}, teacher "
            f"`{teacher.name}` {teacher.dim}. Leave it out."
        )
    if prompt is not None:
        teacher = with_prompt(teacher, prompt, hasattr(guide, "prompts"))
    known = languages or getattr(guide, "languages", None)
    known = known or (("en",) if is_default(source) else None)
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
        >>> from keras_msd.load import teacher_encoder
        >>> teacher_encoder("encoder").config.num_layers
        2
        >>> teacher_encoder("hashed-words") is None
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
    """Load an `Encoder` or artefact, or the encoder of the teacher "default"."""
    given = {} if pooling is None else {"pooling": pooling}
    return _with_keras(default_folder() if is_default(source) else source, given)


def open_source(source: str | Path, light: bool = False) -> Any:
    """Return the encoder, artefact or teacher that `source` names; it has `encode`.

    Args:
        source: As for `load_encoder` and `load_teacher`.
        light: Whether only `encode` is needed: an artefact then loads no Keras.

    Raises:
        InputError: Nothing of these kinds is there, or it is damaged.
    """
    if has_vectors_only(source):
        return load_teacher(source)
    if light and (Path(source).is_file() or (Path(source) / CARD).is_file()):
        return load_artefact(source)
    return open_encoder(source) if is_default(source) else load_encoder(source)


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
    if has_weights:
        check_source(place or "", "teacher", ["default", *TEACHERS])
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
        return JointTeacher([load_teacher(one) for one in source])
    is_encoder = hasattr(source, "encode") and hasattr(source, "dim")
    is_other = hasattr(source, "get_sentence_embedding_dimension")
    if is_other and not isinstance(source, TextEncoder):
        return sentence_transformer(source)
    if is_encoder or callable(source):
        return source
    raise InputError(
        "A teacher must be a name or path, a list of teachers, an encoder, an "
        "artefact, a SentenceTransformer or a function of a list of strings. "
        f"Received: {type(source).__name__}. Give one of these."
    )
