"""`card.json`: what an artefact is, how to load it, and checksums of its files."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic

from keras_msd import __version__
from keras_msd.checks import InputError
from keras_msd.evaluate.cost import cost
from keras_msd.export.card_text import card_text
from keras_msd.export.formats import MODEL_FILES
from keras_msd.files import atomic_path, read_json, write_json

CARD = "card.json"
TEXT = "README.md"
VERSION = 1
LARGEST = 2**22  # bytes of a card: a real one has a few thousand
WIDEST = 2**16  # numbers in a vector, so that a damaged card cannot ask for all memory


class FileFacts(pydantic.BaseModel):
    """Size and SHA-256 of one file."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    bytes: Annotated[int, pydantic.Field(ge=0)]
    sha256: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]


class Card(pydantic.BaseModel):
    """The keys that loading relies on; others are for people."""

    model_config = pydantic.ConfigDict(strict=True, extra="allow")

    card_version: int
    format: str
    dim: Annotated[int, pydantic.Field(ge=1, le=WIDEST)]
    files: dict[str, FileFacts]


def write_card(
    folder: Path, encoder: Any, languages: Iterable[str], **facts: Any
) -> dict[str, Any]:
    """Write `card.json` and `README.md` of the artefact in `folder`.

    Args:
        folder: Holds the finished files.
        encoder: What they were made from.
        languages: Codes of the languages it was trained on.
        **facts: What the exporter and the proof found, and the licences.

    Returns:
        The card.
    """
    files = {name: _facts(folder / name) for name in _names(folder)}
    card = {
        "card_version": VERSION,
        "made_with": f"keras-msd {__version__}",
        "dim": encoder.dim,
        "max_length": encoder.max_length,
        "languages": sorted(set(languages)),
        "encoder": {"fingerprint": encoder.fingerprint} | cost(encoder),
        "tokenizer": {
            "kind": encoder.tokenizer.kind,
            "vocabulary_size": encoder.tokenizer.vocabulary_size,
            "fingerprint": encoder.tokenizer.fingerprint,
        },
        "files": files,
        "bytes": sum(facts["bytes"] for facts in files.values()),
    } | facts
    write_json(folder / CARD, card)
    with atomic_path(folder / TEXT) as temporary:
        temporary.write_text(card_text(card), encoding="utf-8")
    return card


def read_card(folder: str | Path) -> dict[str, Any]:
    """Read an artefact's card and check its files against it.

    Raises:
        InputError: There is no card, it is damaged or not one of ours, or a file is
            missing, damaged, of another export or outside the folder.
    """
    folder = Path(folder)
    card = _checked(folder / CARD)
    if card["card_version"] != VERSION:
        raise InputError(
            f"`{folder / CARD}` must have card_version {VERSION}. Received: "
            f"{card['card_version']!r}. Export the encoder again."
        )
    model = MODEL_FILES.get(card["format"])
    if model is not None and model not in card["files"]:
        raise InputError(
            f"`{folder / CARD}` must list the model `{model}`, so that it can be "
            "checked. Export the encoder again."
        )
    root = folder.resolve()
    for name, facts in card["files"].items():
        _check_file(root, folder, name, facts)
    return card


def card_files(path: Path) -> list[str]:
    """Return the names of the files that a card lists.

    Raises:
        InputError: There is no card, it is damaged or not one of ours.
    """
    return list(_checked(path)["files"])


def _checked(path: Path) -> dict[str, Any]:
    if path.is_file() and path.stat().st_size > LARGEST:
        raise InputError(
            f"`{path}` must be at most {LARGEST} bytes. Received: "
            f"{path.stat().st_size}. It is no card; take a whole copy."
        )
    try:
        card = read_json(path)
        Card.model_validate(card)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"])) or "the card"
        raise InputError(
            f"`{path}`: `{key}`: {problem['msg']}. Received: "
            f"{problem['input']!r:.60}. Take a whole copy, or export again."
        ) from error
    except InputError:
        raise
    # Too deep a nesting, or a number too long to convert.
    except (RecursionError, ValueError) as error:
        raise InputError(
            f"`{path}` cannot be read: {error}. Take a whole copy."
        ) from error
    return card


def _check_file(root: Path, folder: Path, name: str, facts: Mapping[str, Any]) -> None:
    try:
        path = (root / name).resolve()
        found = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        found = False
    if not found:
        raise InputError(
            f"`{folder}` lacks the file {name!r:.200} of its card. Take a whole copy."
        )
    if path.stat().st_size != facts["bytes"]:
        raise InputError(
            f"`{folder / name}` must have {facts['bytes']} bytes, as {CARD} says. "
            f"Received: {path.stat().st_size}. Take a whole copy, or export again."
        )
    if _facts(path) != facts:
        raise InputError(
            f"`{folder / name}` differs from its checksum in {CARD}. "
            "Take a whole copy, or export again."
        )


def _names(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in found)
    return [name for name in names if name not in (CARD, TEXT)]


def _facts(path: Path) -> dict[str, Any]:
    with open(path, "rb") as handle:
        checksum = hashlib.file_digest(handle, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": checksum}
