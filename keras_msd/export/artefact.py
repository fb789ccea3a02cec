"""Export an encoder to files that run without keras_msd, and load them back."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_msd import checks
from keras_msd.arrays import TextEncoder, by_length
from keras_msd.checks import InputError, placed, without_prefix
from keras_msd.evaluate.threshold import checked
from keras_msd.export.card import CARD, TEXT, card_files, read_card, write_card
from keras_msd.export.formats import FORMATS, Run, check_weights
from keras_msd.files import atomic_path, digest
from keras_msd.progress import track

if TYPE_CHECKING:  # the proof needs scipy, which loading does not
    from keras_msd.export.proof import Rows


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
    """Export an encoder, load the file in its runtime and compare both.

    The artefact, its `card.json` and the same card as README.md appear complete or not
    at all; an earlier artefact at `path` is replaced, unless it holds other files.

    Args:
        encoder: The encoder to write.
        path: Folder of the artefact.
        format: A key of `FORMATS`.
        quantize: How weights are stored, None for float32, else a key of
            `formats.SCHEMES` that the format offers.
        languages: Codes of the languages it was trained on, for the card.
        license: Licence of the artefact, for the card; so the next two.
        teacher_license: Licence of the teacher it learned from.
        data_license: Licence of the sentences it was trained on.
        threshold: What `evaluate.calibrate_threshold` gave for the encoder, for the
            card and for what searches with the artefact.
        sentences: What is compared; by default some 200 in many languages.
        sts: Graded rows `(gold, sentence 1, sentence 2)`, or such rows by language
            code, aligned and with English; by default example sentences.
        sts_name: What the card calls `sts`, such as "stsb dev".
        min_cosine: Smallest cosine that a vector of the artefact may have with the
            encoder's vector of the same sentence; by default `THRESHOLDS[quantize]`.
        min_neighbours: Smallest share of the sentences whose nearest other sentence
            must stay the same, from 0 to 1; the same default.
        max_sts_loss: Points of Spearman x 100 that `sts` may lose; the same default.
        **options: Those of the format: its record says which there are.

    Returns:
        `path`.

    Raises:
        InputError: The format, the quantisation or an option is unknown, a package is
            not installed, something that is no artefact stands at `path`, `languages`
            is a text, `threshold` is no such, the encoder's weights are not finite or,
            with `quantize`, larger than 16 bits hold, its tokenizer is of a kind that
            the format does not carry, or `encoder` is itself an artefact.
        ExportError: The artefact differs more from the encoder than it may, or is too
            large. Nothing is kept.

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
    from keras_msd.export.proof import Proof

    checks.one_of(FORMATS, format=format)
    record = FORMATS[format]
    proof = Proof(
        sentences,
        sts,
        sts_name,
        min_cosine=min_cosine,
        min_neighbours=min_neighbours,
        max_sts_loss=max_sts_loss,
    )
    if isinstance(encoder, Artefact):
        raise InputError(
            f"An artefact cannot be exported again. Received: `{encoder.path}`. "
            "Give the encoder that it was made from."
        )
    without_prefix(encoder, "`export` takes")
    if isinstance(languages, str):
        raise InputError(
            "`languages` must be a list of codes. Received: the text "
            f"{languages!r:.60}. Put it in a list."
        )
    given = checked(threshold)
    record.check(quantize, encoder.tokenizer, options)
    check_weights(encoder, quantize)
    check_destination(path)
    with atomic_path(path) as temporary:
        facts = record.write(encoder, temporary, quantize=quantize, **options)
        # The card's checks come later: there is no card before the proof.
        run = record.load(temporary, threads=None)
        artefact = Artefact(temporary, {"dim": encoder.dim}, run)
        write_card(
            temporary,
            encoder,
            format,
            languages,
            quantize=quantize,
            license=license,
            teacher_license=teacher_license,
            data_license=data_license,
            **({"threshold": given} if given else {}),
            parity=proof(encoder, artefact, format, quantize),
            **facts,
        )
    return Path(path)


def check_destination(path: str | Path) -> None:
    """Raise `InputError` unless an artefact may be written at `path`.

    It may where nothing is or an empty folder, and in place of an earlier artefact that
    has no other files in it.
    """
    folder = Path(path).resolve()
    if folder in (Path.cwd(), *Path.cwd().parents):
        raise InputError(
            f"An artefact needs a folder of its own. Received: `{path}`, which holds "
            "the working directory. Give a new path."
        )
    if files := [place for place in (folder, *folder.parents) if place.is_file()]:
        raise InputError(
            f"An artefact is a folder, and `{files[0]}` is a file. Received: `{path}`. "
            "Give a new path."
        )
    if folder.is_dir() and any(folder.iterdir()):
        _check_replaceable(folder)


def _check_replaceable(folder: Path) -> None:
    try:
        listed = {*card_files(folder / CARD), CARD, TEXT}
    except InputError as error:
        raise InputError(
            f"`{folder}` exists and is no artefact: it has no whole {CARD}. Give a new "
            "path, or move it away."
        ) from error
    foreign = sorted(
        name
        for path in folder.rglob("*")
        if (path.is_symlink() or not path.is_dir())
        and (name := path.relative_to(folder).as_posix()) not in listed
        # Python leaves its cache beside the tokenizer's reader.
        and not name.startswith("__pycache__/")
    )
    if foreign:
        shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise InputError(
            f"`{folder}` is an artefact that would be replaced, and would lose files "
            f"that are none of its own: {shown}. Give a new path, or move them away."
        )


class Artefact(TextEncoder):
    """A loaded artefact: embeds sentences as the exported encoder does.

    Args:
        path: The folder it was loaded from.
        card: What `card.json` says.
        run: The runtime: a list of sentences to float32 `(n, dim)`.

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
        """Longest sentence in tokens, start and end included; longer ones are cut."""
        return self.card["max_length"]

    @property
    def fingerprint(self) -> str:
        """Hash of the files' checksums."""
        files = sorted(self.card["files"].items())
        return digest(*(f"{name} {facts['sha256']}" for name, facts in files))

    def count_tokens(self, texts: list[str]) -> list[int] | None:
        """Return how many tokens the model reads of each text.

        None where the tokenizer is part of the graph: onnx_text, litert_text and
        saved_model.
        """
        tokenizer = getattr(self._run, "tokenizer", None)
        return tokenizer and [len(ids) for ids in tokenizer.encode(texts)]

    def _vectors(self, texts: list[str], batch_size: int, progress: bool) -> np.ndarray:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        batches = by_length(texts, batch_size)
        if progress:
            batches = track(batches, -(-len(texts) // batch_size), "Encoding")
        for rows in batches:
            batch = self._run([texts[row] for row in rows])
            if np.shape(batch) != (len(rows), self.dim):
                raise InputError(
                    f"`{self.path}` must give vectors of shape {(len(rows), self.dim)} "
                    f"as its card says. Received: {np.shape(batch)}. Export again."
                )
            vectors[rows] = batch
        return vectors


def load_artefact(path: str | Path, threads: int | None = None) -> Artefact:
    """Load an artefact in the runtime it was made for.

    Every file is compared with its checksum before the runtime sees it. A checksum
    tells damage from what was exported; it does not make a stranger's file safe.

    Args:
        path: The artefact's folder, or the model file in it (`model.tflite`,
            `model.onnx`, `1/saved_model.pb`).
        threads: How many threads the runtime may use; by default its own choice.

    Raises:
        InputError: No artefact is there, it has no card, it is damaged, its format is
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
    run = FORMATS[card["format"]].load(folder, threads=threads)
    return Artefact(folder, card, run)


def artefact_folder(path: str | Path) -> Path:
    """Return the folder with the card that `path`, itself or a file in it, belongs to.

    Raises:
        InputError: Nothing is there, or it has no card.
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
        f"`{path}` has no {CARD}, which says what an artefact is and holds its "
        "checksums. Copy the whole folder that `export` wrote; an encoder that is no "
        "artefact is given by its folder."
    )
