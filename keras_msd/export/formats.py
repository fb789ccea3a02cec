"""Export formats: the record of one, which exporter, card and proof read, and all."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError, explained, one_of
from keras_msd.io.files import read_toml
from keras_msd.lazy import OnUse

Run = Callable[[list[str]], np.ndarray]
TOKENIZERS = ("unigram", "wordpiece")

NO_FORMAT = (
    "No format supports this tokenizer: use the encoder in Python, or train and export "
    "a student with a SentencePiece unigram or WordPiece vocabulary."
)


@dataclass(frozen=True, kw_only=True)
class Format:
    """An export format.

    Attributes:
        name: Name of the format; its key in `FORMATS`.
        write: `write(encoder, path, quantize, **options) -> facts` writes the model
            into the folder `path`. It returns further entries of the card, such as
            `operators`. Its other arguments are the options of the format.
        load: `load(path, threads) -> run` returns a function from sentences to float32
            `(n, dim)`. `threads` is the maximum number of threads, None for the
            runtime's default. It raises `InputError` if the runtime cannot load the
            model.
        model_file: The file in the folder that the runtime opens.
        how_to_load: Python code for the card that computes `vectors`; FOLDER stands for
            the artefact's path.
        quantize: Supported quantizations apart from None, more bits first: keys of
            `THRESHOLDS`.
        tokenizers: Supported types of tokenizer.
        libraries: Packages that write and run the format; the card lists their
            versions.
        warning: A warning for the card. `write` can return another one under this name.
        compared: `compared(encoder, texts) -> texts` returns the texts whose vectors
            must agree; None for all.
        header: Function from the content of `card.json` to the first lines of the
            README; None for no such lines.

    Example:
        >>> def write(encoder, path, quantize=None):
        ...     encoder.save(path / "whole")
        ...     return {}
        >>> def load(path, threads=None):
        ...     return msd.load_encoder(path / "whole").encode
        >>> msd.export.FORMATS["folder"] = msd.export.Format(
        ...     name="folder", write=write, load=load, model_file="whole/encoder.json",
        ...     how_to_load="vectors = ...", quantize=("fp16",),
        ... )
        >>> msd.export.quantizations("folder")
        [None, 'fp16']
        >>> del msd.export.FORMATS["folder"]
    """

    name: str
    write: Callable[..., Mapping[str, Any]]
    load: Callable[..., Run]
    model_file: str
    how_to_load: str
    quantize: Sequence[str] = ()
    tokenizers: Sequence[str] = TOKENIZERS
    libraries: Sequence[str] = ()
    warning: str = ""
    compared: Callable[[Any, Sequence[str]], list[str]] | None = None
    header: Callable[[Mapping[str, Any]], Iterable[str]] | None = None

    @property
    def quantizations(self) -> list[str | None]:
        """Values of `quantize`, more bits first; None is float32."""
        return [None, *self.quantize]


def loaders_folder() -> Path:
    """Return the folder with what an application needs to load an artefact.

    It holds a script for each format, readers of a tokenizer's description in Python
    and JavaScript, and a page for browsers.

    Example:
        >>> (msd.export.loaders_folder() / "load_saved_model.py").is_file()
        True
    """
    # A wheel carries the folder inside this package, a checkout beside keras_msd.
    inside = Path(__file__).parent / "loaders"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "export"


FUNCTIONS = ("write", "load", "compared", "header")


def _record(name: str, settings: dict[str, Any]) -> Format:
    """Make the record of a built-in format; its modules are imported when used.

    An exporter needs libraries of its own.
    """
    for function in settings.keys() & FUNCTIONS:
        module, _, attribute = settings[function].rpartition(".")
        settings[function] = OnUse(f"keras_msd.export.{module}", attribute)
    return Format(name=name, **settings)


FORMATS = {
    name: _record(name, settings)
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
