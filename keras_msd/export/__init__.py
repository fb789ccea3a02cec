"""Artefacts: encoders as files that need neither Keras nor this package.

An exporter is one module with `QUANTIZE`, `write(encoder, path, quantize) -> facts for
the card` and `load(path, threads) -> function from sentences to vectors`, and one entry
in `EXPORTERS`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_msd import checks
from keras_msd.export.artefact import Artefact, load_artefact
from keras_msd.export.card import read_card, write_card
from keras_msd.export.destination import check_target
from keras_msd.export.formats import (
    EXPORTERS,
    check_quantization,
    check_tokenizer,
    exporter,
    quantizations,
)
from keras_msd.export.parity import ExportError
from keras_msd.export.proof import THRESHOLDS, Proof, Rows
from keras_msd.export.quantization import check_weights
from keras_msd.export.settings import presets_folder, read_preset
from keras_msd.files import atomic_path

__all__ = [
    "EXPORTERS",
    "THRESHOLDS",
    "Artefact",
    "ExportError",
    "export",
    "load_artefact",
    "presets_folder",
    "quantizations",
    "read_card",
    "read_preset",
]


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
    sentences: Sequence[str] | None = None,
    sts: Rows | None = None,
    sts_name: str | None = None,
    min_cosine: float | None = None,
    min_neighbours: float | None = None,
    max_sts_loss: float | None = None,
) -> Path:
    """Write an encoder as an artefact, load it in its runtime and prove it.

    The artefact, its `card.json` and the same card as README.md appear complete or not
    at all; an earlier artefact at `path` is replaced, unless it holds other files.

    Args:
        encoder: The encoder to write.
        path: Folder of the artefact.
        format: A key of `EXPORTERS`.
        quantize: How weights are stored, None for float32, else a key of
            `quantization.SCHEMES` that the format offers.
        languages: Codes of the languages it was trained on, for the card.
        license: Licence of the artefact, for the card; so the next two.
        teacher_license: Licence of the teacher it learned from.
        data_license: Licence of the sentences it was trained on.
        sentences: What is compared; by default some 200 in many languages.
        sts: Graded rows `(gold, sentence 1, sentence 2)`, or such rows by language
            code, aligned and with English; by default made sentences.
        sts_name: What the card calls `sts`, such as "stsb dev".
        min_cosine: Smallest cosine that a vector of the artefact may have with the
            encoder's vector of the same sentence; by default `THRESHOLDS[quantize]`.
        min_neighbours: Smallest share of the sentences whose nearest other sentence
            must stay the same, from 0 to 1; the same default.
        max_sts_loss: Points of Spearman x 100 that `sts` may lose; the same default.

    Returns:
        `path`.

    Raises:
        InputError: The format or the quantisation is unknown, a package is not
            installed, something that is no artefact stands at `path`, `languages` is
            a text, the encoder's weights are not finite or, with `quantize`, larger
            than 16 bits hold, its tokenizer is of a kind that no format carries, or
            `encoder` is itself an artefact.
        ExportError: The artefact differs more from the encoder than it may, or is too
            large. Nothing is kept.
    """
    check_quantization(format, quantize)
    proof = Proof(sentences, sts, sts_name, min_cosine, min_neighbours, max_sts_loss)
    if isinstance(encoder, Artefact):
        raise checks.InputError(
            f"An artefact cannot be exported again. Received: `{encoder.path}`. "
            "Give the encoder that it was made from."
        )
    if isinstance(languages, str):
        raise checks.InputError(
            "`languages` must be a list of codes. Received: the text "
            f"{languages!r:.60}. Put it in a list."
        )
    check_tokenizer(encoder.tokenizer)
    check_weights(encoder, quantize)
    check_target(path)
    module = exporter(format)
    with atomic_path(path) as temporary:
        facts = module.write(encoder, temporary, quantize=quantize)
        # The card's checks come later: there is no card before the proof.
        artefact = Artefact(temporary, {"dim": encoder.dim}, module.load(temporary))
        write_card(
            temporary,
            encoder,
            languages,
            format=format,
            quantize=quantize,
            license=license,
            teacher_license=teacher_license,
            data_license=data_license,
            parity=proof(encoder, artefact, format, quantize),
            **facts,
        )
    return Path(path)
