"""Export an encoder to files that run without keras_msd, load them back, send them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_msd import checks
from keras_msd.arrays import TextEncoder, by_length
from keras_msd.checks import InputError, explained, placed, require
from keras_msd.evaluate.bitext import checked_threshold
from keras_msd.export.card import CARD, TEXT, parse_card, read_card, write_card
from keras_msd.export.formats import FORMATS, Run, check_supported
from keras_msd.io.files import atomic_path, digest
from keras_msd.io.remote import HUB_NAME
from keras_msd.progress import track
from keras_msd.runtimes import check_process
from keras_msd.usage import usage_fields, usage_of

LARGEST_HALF = float(np.finfo(np.float16).max)

if TYPE_CHECKING:  # the proof needs scipy, which loading does not
    from keras_msd.export.proof import Rows

# Formats whose loaded models have threads of their own.
THREADED = ("onnx", "onnx_text", "huggingface", "litert_text", "gguf")


def export(
    encoder: Any,
    path: str | Path,
    format: str = "saved_model",
    quantize: str | None = None,
    *,
    languages: Iterable[str] = (),
    license: str | None = None,
    teacher_license: str | None = None,
    data_license: str | None = None,
    threshold: Mapping[str, Any] | None = None,
    sentences: Sequence[str] | None = None,
    sts: "Rows | None" = None,
    sts_name: str | None = None,
    min_cosine: float | None = None,
    min_neighbours: float | None = None,
    max_sts_loss: float | None = None,
    **options: Any,
) -> Path:
    """Export an encoder, load the file in its runtime, and compare their vectors.

    The artefact contains `card.json` and the same card as README.md. It is written
    completely or not at all. An earlier artefact at `path` is replaced, unless its
    folder contains other files.

    Args:
        encoder: The encoder to export.
        path: Folder of the artefact.
        format: A key of `FORMATS`.
        quantize: How to store weights: None for float32, or another of
            `quantizations(format)`.
        languages: Codes of the languages that the encoder was trained on, for the card.
        license: Licence of the artefact, for the card.
        teacher_license: Licence of the teacher, for the card.
        data_license: Licence of the training sentences, for the card.
        threshold: Result of `evaluate.calibrate_threshold` for the encoder, for the
            card and for searches with the artefact.
        sentences: Sentences to compare; default about 200 in many languages.
        sts: Graded rows `(gold, sentence 1, sentence 2)`, or row-aligned rows by
            language code, including English; default example sentences.
        sts_name: Name of `sts` in the card, such as "stsb dev".
        min_cosine: Minimum cosine between the artefact's and the encoder's vector of
            the same sentence; default from `THRESHOLDS[quantize]`.
        min_neighbours: Minimum share, from 0 to 1, of sentences whose nearest other
            sentence stays the same; default from `THRESHOLDS[quantize]`.
        max_sts_loss: Maximum loss on `sts`, in points of Spearman x 100; default from
            `THRESHOLDS[quantize]`.
        **options: Options of the format, see `FORMATS`.

    Returns:
        `path`.

    Raises:
        InputError: The format, the quantization or an option is unknown, a package is
            not installed, `path` exists and is not an artefact, `languages` is a
            string, `threshold` is invalid, a weight is not finite or (with `quantize`)
            too large for 16 bits, the format does not support the tokenizer, or
            `encoder` is an artefact.
        ExportError: The artefact differs too much from the encoder, or is too large. It
            is deleted.

    Example:
        >>> encoder, graded = msd.testing.tiny_encoder(), [(1, "a", "b"), (0, "a", "c")]
        >>> folder = msd.export.export(
        ...     encoder, "student", "onnx", sentences=["A cat."], sts=graded
        ... )
        >>> sorted(file.name for file in folder.iterdir())
        ['README.md', 'card.json', 'model.onnx', 'portable_tokenizer.py']
        >>> msd.load_encoder("student").encode(["A cat."]).shape
        (1, 16)
    """
    from keras_msd.export.proof import limits_of, prove

    checks.one_of(FORMATS, format=format)
    record = FORMATS[format]
    if isinstance(encoder, Artefact):
        raise InputError(
            f"An artefact cannot be exported again. Received: `{encoder.path}`. "
            "Export the encoder that it was made from."
        )
    checks.a_list(languages=languages)
    given = checked_threshold(threshold)
    check_supported(record, quantize, encoder.tokenizer, options)
    limits = limits_of(
        quantize,
        min_cosine=min_cosine,
        min_neighbours=min_neighbours,
        max_sts_loss=max_sts_loss,
    )
    if sentences is not None:
        sentences = checks.sentences(sentences, "sentences")
    check_weights(encoder, quantize)
    check_destination(path)
    with atomic_path(path) as temporary:
        facts = record.write(encoder, temporary, quantize=quantize, **options)
        # The card is written last, because it contains the results of the comparison.
        run = record.load(temporary, threads=None)
        usage = usage_fields(encoder)
        artefact = Artefact(temporary, {"dim": encoder.dim} | usage, run)
        write_card(
            temporary,
            encoder,
            record,
            languages,
            quantize=quantize,
            license=license,
            teacher_license=teacher_license,
            data_license=data_license,
            **({"threshold": given} if given else {}),
            **usage,
            parity=prove(
                encoder, artefact, record, quantize, limits, sentences, sts, sts_name
            ),
            **facts,
        )
    return Path(path)


def check_weights(encoder: Any, quantize: str | None) -> None:
    """Check that an encoder's weights can be stored.

    Raises:
        InputError: A weight is not finite; or it is larger than float16 holds and
            `quantize` is not None. (A scheme of whole numbers, too, may hold biases and
            norms in float16.)
    """
    for name, value in encoder.weights().items():
        value = np.asarray(value, np.float32)
        if not np.isfinite(value).all():
            raise InputError(
                f"The weights must be finite. Received: NaN or infinity in `{name}`. "
                "Take an earlier state of the training."
            )
        if quantize is not None and np.abs(value).max(initial=0) > LARGEST_HALF:
            raise InputError(
                f"With quantize={quantize!r} some weights are stored in 16 bits, which "
                f"hold at most {LARGEST_HALF:g}. Received: {np.abs(value).max():g} in "
                f"`{name}`. Leave `quantize` out."
            )


def check_destination(path: str | Path) -> None:
    """Raise `InputError` unless an artefact may be written at `path`.

    It may where nothing is or an empty folder, and in place of an earlier artefact that
    has no other files in it.
    """
    folder = Path(path).resolve()
    found = None
    if folder in (Path.cwd(), *Path.cwd().parents):
        found = "it holds the working directory"
    elif files := [place for place in (folder, *folder.parents) if place.is_file()]:
        found = f"`{files[0]}` is a file"
    elif folder.is_dir() and any(folder.iterdir()):
        found = _other_content(folder)
    if found:
        raise InputError(
            "An artefact needs a folder of its own, a new one or that of an earlier "
            f"artefact. Received: `{path}`; {found}. Give a new path, or move it away."
        )


def _other_content(folder: Path) -> str | None:
    """Return what a folder holds that is no artefact's, if anything."""
    try:
        listed = {*parse_card(folder / CARD)["files"], CARD, TEXT}
    except InputError:
        return f"it has no whole {CARD}"
    foreign = sorted(
        name
        for path in folder.rglob("*")
        if (path.is_symlink() or not path.is_dir())
        and (name := path.relative_to(folder).as_posix()) not in listed
        # Python leaves its cache beside the tokenizer's reader.
        and not name.startswith("__pycache__/")
    )
    shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
    return f"files of others would be lost: {shown}" if foreign else None


class Artefact(TextEncoder):
    """A loaded artefact: embeds sentences as the exported encoder does.

    Args:
        path: The artefact's folder.
        card: The content of `card.json`.
        run: Function from a list of sentences to float32 `(n, dim)`.

    Example:
        >>> def run(texts):
        ...     return np.array([[len(text), 1] for text in texts], np.float32)
        >>> lengths = msd.export.Artefact("lengths", {"dim": 2}, run)
        >>> lengths.encode(["A cat.", ""])
        array([[6., 1.],
               [0., 1.]], dtype=float32)
    """

    def __init__(self, path: Path, card: dict[str, Any], run: Run) -> None:
        self.path, self.card, self._run = path, card, run
        self._process = os.getpid()
        self._usage = usage_of(card, f"The card of `{path}`")

    def __repr__(self) -> str:
        weights = self.card.get("quantize") or "float32"
        return (
            f"<Artefact `{self.path}`: {self.card.get('format')}, {weights}, "
            f"dim={self.dim}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return load_artefact, (self.path,)

    @property
    def dim(self) -> int:
        """Dimension of an embedding."""
        return self.card["dim"]

    @property
    def max_length(self) -> int:
        """Maximum number of tokens, with start and end; longer texts are truncated."""
        return self.card["max_length"]

    @property
    def fingerprint(self) -> str:
        """Hash of the files' checksums, and of the prompts."""
        files = sorted(self.card["files"].items())
        parts = [f"{name} {facts['sha256']}" for name, facts in files]
        usage = self._usage.model_dump_json(exclude={"similarity_fn_name"})
        return digest(*parts, *([] if usage == "{}" else [usage]))

    def count_tokens(self, texts: list[str]) -> list[int] | None:
        """Return the number of tokens that the model reads from each text.

        None if the tokenizer is part of the graph: onnx_text, litert_text and
        saved_model.
        """
        tokenizer = getattr(self._run, "tokenizer", None)
        return tokenizer and [len(ids) for ids in tokenizer.encode(texts)]

    def _vectors(self, texts: list[str], batch_size: int, progress: bool) -> np.ndarray:
        if (name := self.card.get("format")) in THREADED:
            check_process(self._process, f"of {name}")
        vectors = np.zeros((len(texts), self.dim), np.float32)
        batches = by_length(texts, batch_size)
        if progress:
            batches = track(batches, -(-len(texts) // batch_size), "Encoding")
        for rows in batches:
            batch = self._run([texts[row] for row in rows])
            if np.shape(batch) != (len(rows), self.dim):
                raise InputError(
                    f"`{self.path}` must return the shape {(len(rows), self.dim)}, as "
                    f"in its card. Received: {np.shape(batch)}. Export again."
                )
            vectors[rows] = batch
        return vectors


def load_artefact(path: str | Path, threads: int | None = None) -> Artefact:
    """Load an artefact in its runtime.

    Every file is compared with its checksum before the runtime loads it. A checksum
    detects damage. It does not make a file from an untrusted source safe.

    Args:
        path: The artefact's folder, or the model file in it (`model.tflite`,
            `model.onnx`, `1/saved_model.pb`).
        threads: Maximum number of threads; by default one for each usable processor.
            MediaPipe has one, and TensorFlow's default is its own.

    Raises:
        InputError: The artefact is missing, damaged or without a card, its format is
            unknown, or the format's package is not installed.

    Example:
        >>> encoder, graded = msd.testing.tiny_encoder(), [(1, "a", "b"), (0, "a", "c")]
        >>> folder = encoder.export("art", "onnx", sentences=["A cat."], sts=graded)
        >>> artefact = msd.export.load_artefact("art/model.onnx")
        >>> artefact.encode(["A cat.", "Eine Katze."]).shape
        (2, 16)
    """
    folder = artefact_folder(path)
    card = read_card(folder)
    checks.at_least(1, threads=threads)
    with placed(folder / CARD):
        checks.one_of(FORMATS, format=card["format"])
    record = FORMATS[card["format"]]
    if record.model_file not in card["files"]:
        raise InputError(
            f"`{folder / CARD}` must list the model `{record.model_file}`, so that it "
            "can be checked. Export the encoder again."
        )
    run = record.load(folder, threads=threads)
    return Artefact(folder, card, run)


def artefact_folder(path: str | Path) -> Path:
    """Return the artefact's folder, from its path or the path of its model file.

    Raises:
        InputError: `path` does not exist, or there is no card.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(
            f"The artefact `{path}` does not exist. Give its folder or its model file."
        )
    # `1/saved_model.pb` lies one folder deeper than `model.tflite`.
    nearest = [path, path.parent, path.parent.parent]
    for folder in nearest if path.is_dir() else nearest[1:]:
        if (folder / CARD).is_file():
            return folder
    raise InputError(
        f"`{path}` has no {CARD}, which describes an artefact and contains its "
        "checksums. Copy the whole folder that `export` wrote. If this is an encoder "
        "and not an artefact, give its folder. Files of other libraries, such as word "
        "vectors of fastText, are not read: give `load_teacher` a function of texts."
    )


def push_to_hub(folder: str | Path, repo: str, *, private: bool = False) -> str:
    """Upload an artefact's files to a repository of the Hugging Face hub.

    The files are compared with the card first, and only those that it lists are sent.
    Who sends is who `hf auth login` or HF_TOKEN says; HF_ENDPOINT names another hub.

    Args:
        folder: An artefact, as a rule of the format `huggingface`, which all that reads
            from the hub can load.
        repo: "organisation/model"; made if there is none.
        private: Whether a repository that is made is seen by its owners alone.

    Returns:
        The address of the commit.

    Raises:
        InputError: `folder` is no whole artefact, `repo` is no such name,
            `huggingface_hub` is not installed, or the hub cannot be reached or refuses.

    Example:
        >>> try:  # a name without its organisation
        ...     msd.export.push_to_hub("artefacts/student", "student")
        ... except msd.InputError as error:
        ...     print(str(error).split(".")[0])
        `repo` must read organisation/model
    """
    if not HUB_NAME.fullmatch(repo):
        raise InputError(
            f"`repo` must read organisation/model. Received: {repo!r}. Give the name "
            "of the repository without its address."
        )
    card = read_card(folder)
    hub = require("huggingface_hub", "hf", "Sending files to the hub")

    def unsent(error: Exception) -> str:
        return (
            f"`{folder}` could not be sent to {repo!r} ({type(error).__name__}: "
            f"{error}). Log in with `hf auth login`, and check the name, your rights "
            "and the network."
        )

    # The client's errors share no base class across its versions and its transports.
    with explained(unsent, Exception):
        api = hub.HfApi()
        api.create_repo(repo, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            commit_message="Add a sentence encoder",
            allow_patterns=[*card["files"], CARD, TEXT],
        )
    return str(commit.commit_url)
