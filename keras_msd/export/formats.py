"""The table of formats, and what each one offers."""

import importlib
from typing import Any

from keras_msd import checks
from keras_msd.export.quantization import SCHEMES

EXPORTERS = {
    "saved_model": "keras_msd.export.saved_model.exporter",
    "litert": "keras_msd.export.litert.ids",
    "litert_text": "keras_msd.export.litert.text",
    "onnx": "keras_msd.export.onnx.ids",
    "onnx_text": "keras_msd.export.onnx.text",
}

# The file of an artefact that its runtime opens.
MODEL_FILES = {
    "saved_model": "1/saved_model.pb",
    "litert": "model.tflite",
    "litert_text": "model.tflite",
    "onnx": "model.onnx",
    "onnx_text": "model.onnx",
}

TOKENIZERS = ("unigram", "wordpiece")
NO_FORMAT = (
    "No format carries such a tokenizer: use the encoder in Python, or train a student "
    "with a SentencePiece unigram or WordPiece vocabulary and export that."
)


def exporter(format: str) -> Any:
    """Import the module of a format.

    Raises:
        InputError: The format is unknown, or needs a package that is not installed.
    """
    checks.one_of(EXPORTERS, format=format)
    return importlib.import_module(EXPORTERS[format])


def quantizations(format: str) -> list[str | None]:
    """Return what `quantize` may be for a format, mildest first; None is float32."""
    offered = exporter(format).QUANTIZE
    return [name for name in SCHEMES if name is None or name in offered]


def check_quantization(format: str, quantize: str | None) -> None:
    """Raise `InputError` naming what is offered, if the format lacks `quantize`."""
    offered = quantizations(format)
    if quantize not in offered:
        names = [name for name in offered if name is not None]
        known = f"quantize may be {', '.join(names)}" if names else "it has none"
        hint = checks.nearest(str(quantize), names)
        raise checks.InputError(
            f"The format `{format}` does not offer quantize={quantize!r}: {known}. "
            f"{hint or 'Leave `quantize` out for float32.'}"
        )


def check_tokenizer(tokenizer: Any) -> None:
    """Raise `InputError` if no format carries a tokenizer of this kind."""
    if tokenizer.kind not in TOKENIZERS:
        raise checks.InputError(
            f"The tokenizer of an artefact must be {' or '.join(TOKENIZERS)}. "
            f"Received: {tokenizer.kind}. {NO_FORMAT}"
        )
