"""Export formats and quantization schemes, by name."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checks import InputError, explained, one_of
from keras_msd.files import read_toml
from keras_msd.lazy import OnUse

Run = Callable[[list[str]], np.ndarray]
TOKENIZERS = ("unigram", "wordpiece")
LARGEST_HALF = float(np.finfo(np.float16).max)


class Scheme(NamedTuple):
    """A quantization scheme: "float32", "float16", "int8" or "int4" per kind of weight.

    Attributes:
        table: The embedding table, most of a small encoder's bytes.
        blocks: Kernels of matrix products. Biases, norms, positions and scales are
            small and stay in floating point (in a SavedModel float16, except scales).
    """

    table: str
    blocks: str


FULL = Scheme("float32", "float32")
SCHEMES: dict[str | None, Scheme] = {
    None: FULL,
    "fp16": Scheme("float16", "float16"),
    "int8": Scheme("int8", "int8"),
    "int4_table": Scheme("int4", "int8"),
    "int4": Scheme("int4", "int4"),
}


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
        quantize: Supported keys of `SCHEMES`, apart from None.
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

    def check(
        self, quantize: str | None, tokenizer: Any, options: Iterable[str] = ()
    ) -> None:
        """Check the arguments of an export.

        Raises:
            InputError: The format does not support `quantize` or the tokenizer, or
                `write` has no argument with the name of an option.
        """
        with explained(lambda error: f"Format `{self.name}`: {error}", InputError):
            one_of((None, *self.quantize), quantize=quantize)
            known = [*inspect.signature(self.write).parameters][3:]
            for name in options:
                one_of(known, option=name)
        if tokenizer.kind not in self.tokenizers:
            carry = [f for f, r in FORMATS.items() if tokenizer.kind in r.tokenizers]
            others = f"Use a format that supports it: {', '.join(carry)}."
            raise InputError(
                f"The tokenizer of a `{self.name}` artefact must be "
                f"{' or '.join(self.tokenizers)}. Received: {tokenizer.kind}. "
                f"{others if carry else NO_FORMAT}"
            )


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


def _huggingface() -> Any:
    from keras_msd.export import huggingface

    return huggingface


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
        "load": OnUse(lambda: _onnx().load_ids),
    },
    "onnx_text": {
        "write": OnUse(lambda: _onnx().write_text),
        "load": OnUse(lambda: _onnx().load_text),
    },
    "huggingface": {
        "write": OnUse(lambda: _huggingface().write),
        "load": OnUse(lambda: _huggingface().load),
        "header": OnUse(lambda: _huggingface().header),
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
    offered = (None, *FORMATS[format].quantize)
    return [name for name in SCHEMES if name in offered]


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
