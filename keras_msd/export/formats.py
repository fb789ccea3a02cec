"""Export formats by name."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, explained, one_of
from keras_msd.export.format import NO_FORMAT, Format
from keras_msd.io.files import read_toml
from keras_msd.lazy import OnUse

# Of each format: where its functions are. An exporter is imported when it is used: it
# needs libraries of its own.
FUNCTIONS = {
    "saved_model": {"write": "saved_model.write", "load": "saved_model.load"},
    "litert": {"write": "litert.write_ids", "load": "litert_files.load_ids"},
    "litert_text": {"write": "litert.write_text", "load": "litert_files.load_text"},
    "onnx": {"write": "onnx.write_ids", "load": "onnx_files.load_ids"},
    "onnx_text": {"write": "onnx.write_text", "load": "onnx_files.load_text"},
    "huggingface": {
        "write": "huggingface.write",
        "load": "huggingface.load",
        "compared": "huggingface.compared",
        "header": "huggingface.header",
    },
    "gguf": {"write": "gguf.write", "load": "gguf.load"},
    "model2vec": {
        "write": "model2vec.write",
        "load": "model2vec.load",
        "compared": "model2vec.compared",
    },
}


def _functions(format: str) -> dict[str, Any]:
    places = {name: it.split(".") for name, it in FUNCTIONS[format].items()}
    return {
        name: OnUse(f"keras_msd.export.{module}", function)
        for name, (module, function) in places.items()
    }


FORMATS = {
    name: Format(name=name, **settings, **_functions(name))
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
            if not known:
                raise InputError(
                    f"It has no options. Received: {name!r}. Leave it out."
                )
            one_of(known, option=name)
    if tokenizer.kind not in record.tokenizers:
        carry = [f for f, r in FORMATS.items() if tokenizer.kind in r.tokenizers]
        others = f"Use a format that supports it: {', '.join(carry)}."
        raise InputError(
            f"The tokenizer of a `{record.name}` artefact must be "
            f"{' or '.join(record.tokenizers)}. Received: {tokenizer.label}. "
            f"{others if carry else NO_FORMAT}"
        )
