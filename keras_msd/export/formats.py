"""Export formats by name."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, explained, one_of
from keras_msd.export.format import NO_FORMAT, Format
from keras_msd.io.files import read_toml
from keras_msd.lazy import OnUse


# Each exporter is imported when it is used: it needs libraries of its own.
def _saved_model() -> Any:
    from keras_msd.export import saved_model

    return saved_model


def _litert() -> Any:
    from keras_msd.export import litert

    return litert


def _litert_files() -> Any:
    from keras_msd.export import litert_files

    return litert_files


def _onnx() -> Any:
    from keras_msd.export import onnx

    return onnx


def _onnx_files() -> Any:
    from keras_msd.export import onnx_files

    return onnx_files


def _huggingface() -> Any:
    from keras_msd.export import huggingface

    return huggingface


def _gguf() -> Any:
    from keras_msd.export import gguf

    return gguf


def _model2vec() -> Any:
    from keras_msd.export import model2vec

    return model2vec


FUNCTIONS: dict[str, dict[str, Any]] = {
    "saved_model": {
        "write": OnUse(lambda: _saved_model().write),
        "load": OnUse(lambda: _saved_model().load),
    },
    "litert": {
        "write": OnUse(lambda: _litert().write_ids),
        "load": OnUse(lambda: _litert_files().load_ids),
    },
    "litert_text": {
        "write": OnUse(lambda: _litert().write_text),
        "load": OnUse(lambda: _litert_files().load_text),
    },
    "onnx": {
        "write": OnUse(lambda: _onnx().write_ids),
        "load": OnUse(lambda: _onnx_files().load_ids),
    },
    "onnx_text": {
        "write": OnUse(lambda: _onnx().write_text),
        "load": OnUse(lambda: _onnx_files().load_text),
    },
    "huggingface": {
        "write": OnUse(lambda: _huggingface().write),
        "load": OnUse(lambda: _huggingface().load),
        "header": OnUse(lambda: _huggingface().header),
    },
    "gguf": {
        "write": OnUse(lambda: _gguf().write),
        "load": OnUse(lambda: _gguf().load),
    },
    "model2vec": {
        "write": OnUse(lambda: _model2vec().write),
        "load": OnUse(lambda: _model2vec().load),
        "compared": OnUse(lambda: _model2vec().compared),
    },
}


FORMATS = {
    name: Format(name=name, **settings, **FUNCTIONS[name])
    for name, settings in read_toml(Path(__file__).with_name("formats.toml")).items()
}


def quantizations(format: str) -> list[str | None]:
    """Return the values of `quantize` for a format; None is float32.

    Raises:
        InputError: The format is unknown.

    Example:
        >>> msd.export.quantizations("litert")
        [None, 'fp16', 'int8', 'int4_table', 'int4']
    """
    one_of(FORMATS, format=format)
    return FORMATS[format].quantizations


def check_supported(
    record: Format, quantize: str | None, tokenizer: Any, options: Iterable[str] = ()
) -> None:
    """Check the arguments of an export.

    Args:
        record: The format.
        quantize: Name of a quantization scheme, or None.
        tokenizer: The encoder's.
        options: Names of further arguments for `write`.

    Raises:
        InputError: The format does not support `quantize` or the tokenizer, or
            `write` has no argument with the name of an option.
    """
    with explained(lambda error: f"Format `{record.name}`: {error}", InputError):
        one_of((None, *record.quantize), quantize=quantize)
        known = [*inspect.signature(record.write).parameters][3:]
        for name in options:
            one_of(known, option=name)
    if tokenizer.kind not in record.tokenizers:
        carry = [f for f, r in FORMATS.items() if tokenizer.kind in r.tokenizers]
        others = f"Use a format that supports it: {', '.join(carry)}."
        raise InputError(
            f"The tokenizer of a `{record.name}` artefact must be "
            f"{' or '.join(record.tokenizers)}. Received: {tokenizer.label}. "
            f"{others if carry else NO_FORMAT}"
        )
