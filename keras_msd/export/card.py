"""`card.json`: what an artefact is, how to load it, and checksums of its files."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.evaluate.cost import cost
from keras_msd.files import read_json, write_json

CARD = "card.json"
VERSION = 1
REQUIRED = ("card_version", "format", "dim", "files")


def write_card(
    folder: Path, encoder: Any, languages: Iterable[str], **facts: Any
) -> None:
    """Write the card of the artefact in `folder`.

    Args:
        folder: Holds the finished files.
        encoder: What they were made from.
        languages: Codes of the languages it was trained on.
        **facts: What the exporter and the parity check found.
    """
    files = {
        path.relative_to(folder).as_posix(): _facts(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != CARD
    }
    own = {
        "card_version": VERSION,
        "dim": encoder.dim,
        "max_length": encoder.max_length,
        "languages": sorted(languages),
        "encoder": {"fingerprint": encoder.fingerprint} | cost(encoder),
        "tokenizer": {
            "kind": encoder.tokenizer.kind,
            "vocabulary_size": encoder.tokenizer.vocabulary_size,
            "fingerprint": encoder.tokenizer.fingerprint,
        },
        "files": files,
        "bytes": sum(facts["bytes"] for facts in files.values()),
    }
    write_json(folder / CARD, own | facts)


def read_card(folder: str | Path) -> dict[str, Any]:
    """Read an artefact's card and check its files against it.

    Raises:
        InputError: There is no card, it is not one of ours, or a file is missing,
            damaged or of another export.
    """
    folder = Path(folder)
    card = read_json(folder / CARD)
    if not isinstance(card, dict) or any(key not in card for key in REQUIRED):
        raise InputError(
            f"`{folder / CARD}` must have the keys {', '.join(REQUIRED)}. "
            "Export the encoder again."
        )
    if card["card_version"] != VERSION:
        raise InputError(
            f"`{folder / CARD}` must have card_version {VERSION}. Received: "
            f"{card['card_version']!r}. Export the encoder again."
        )
    root = folder.resolve()
    for name, facts in card["files"].items():
        path = (root / name).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            raise InputError(
                f"`{folder}` lacks the file `{name}` of its card. Take a whole copy."
            )
        if _facts(path) != facts:
            raise InputError(
                f"`{folder / name}` differs from its checksum in {CARD}. "
                "Take a whole copy, or export again."
            )
    return card


def _facts(path: Path) -> dict[str, Any]:
    with open(path, "rb") as handle:
        checksum = hashlib.file_digest(handle, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": checksum}
