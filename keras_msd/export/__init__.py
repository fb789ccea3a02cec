"""Artefacts: encoders as files that need neither Keras nor this package.

An exporter is one module with `write(encoder, path, quantize) -> facts for the card`
and `load(path) -> function from sentences to vectors`, and one entry in `EXPORTERS`.
"""

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_msd import checks
from keras_msd.export.artefact import Artefact
from keras_msd.export.card import read_card, write_card
from keras_msd.export.parity import ExportError, check_parity
from keras_msd.export.settings import presets_folder, read_preset
from keras_msd.files import atomic_path

__all__ = [
    "EXPORTERS",
    "Artefact",
    "ExportError",
    "export",
    "load_artefact",
    "presets_folder",
    "read_card",
    "read_preset",
]

EXPORTERS = {"saved_model": "keras_msd.export.saved_model"}


def export(
    encoder: Any,
    path: str | Path,
    format: str = "saved_model",
    quantize: str | None = None,
    *,
    languages: Iterable[str] = (),
    min_cosine: float = 0.9999,
    sentences: Sequence[str] | None = None,
) -> Path:
    """Write an encoder as an artefact, load it in its runtime and compare both.

    The artefact and its `card.json` appear complete or not at all; an earlier artefact
    at `path` is replaced.

    Args:
        encoder: The encoder to write.
        path: Folder of the artefact.
        format: A key of `EXPORTERS`.
        quantize: How weights are stored, where the format offers it.
        languages: Codes of the languages it was trained on, for the card.
        min_cosine: Smallest cosine that a vector of the artefact may have with the
            encoder's vector of the same sentence.
        sentences: What is compared; by default some in many scripts and lengths.

    Returns:
        `path`.

    Raises:
        InputError: The format is unknown, or something that is no artefact stands at
            `path`.
        ExportError: The artefact differs from the encoder, or is too large.
    """
    checks.one_of(EXPORTERS, format=format)
    path = Path(path)
    if path.is_file() or (
        path.is_dir() and any(path.iterdir()) and not (path / "card.json").is_file()
    ):
        raise checks.InputError(
            f"`{path}` exists and is no artefact. Give a new path, or move it away."
        )
    exporter = importlib.import_module(EXPORTERS[format])
    with atomic_path(path) as temporary:
        facts = exporter.write(encoder, temporary, quantize=quantize)
        run = exporter.load(temporary)
        parity = check_parity(encoder, run, min_cosine, sentences)
        write_card(
            temporary,
            encoder,
            languages,
            format=format,
            quantize=quantize,
            parity=parity,
            **facts,
        )
    return path


def load_artefact(path: str | Path) -> Artefact:
    """Load an artefact in the runtime it was made for.

    Raises:
        InputError: No artefact is there, it is damaged, or its format is unknown.
    """
    folder = checks.existing_folder(path, "artefact")
    card = read_card(folder)
    checks.one_of(EXPORTERS, format=card["format"])
    exporter = importlib.import_module(EXPORTERS[card["format"]])
    return Artefact(folder, card, exporter.load(folder))
