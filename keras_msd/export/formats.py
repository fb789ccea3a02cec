"""The formats of artefacts: one record each, which is all that is known of it."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import checks
from keras_msd.export.quantization import SCHEMES
from keras_msd.registry import Record, Registry, loaded

Run = Callable[[list[str]], np.ndarray]
TOKENIZERS = ("unigram", "wordpiece")
ALL = tuple(name for name in SCHEMES if name is not None)
NO_FORMAT = (
    "No format carries such a tokenizer: use the encoder in Python, or train a student "
    "with a SentencePiece unigram or WordPiece vocabulary and export that."
)


@dataclass(frozen=True, kw_only=True)
class Format(Record):
    """A format of artefacts.

    Attributes:
        name: What `format` says.
        write: `write(encoder, path, quantize, **options) -> facts`, or its dotted path.
            It makes the folder `path` with the model in it and returns what the card
            should have beside the record's parts: `operators`, `signatures` and others.
            What other arguments it has are options of the format.
        load: `load(path, threads) -> run`, or its dotted path: from an artefact's
            folder to a function from sentences to float32 `(n, dim)`; `threads` is how
            many the runtime may use, None for its own choice. A model that the runtime
            cannot take is an `InputError`.
        model_file: The file in the folder that the runtime opens.
        how_to_load: Python code for the card that makes `vectors`, with FOLDER in the
            place of the artefact's path.
        quantize: Keys of `SCHEMES` that it offers besides None.
        tokenizers: Kinds of tokenizer that it carries.
        libraries: Distributions that write and run it; the card has their versions.
        warning: What the card warns of.

    Raises:
        InputError: A part is empty, or `quantize` has a name that is none of `SCHEMES`.
        TypeError: A part is missing.

    Example:
        >>> numbers = msd.export.Format(
        ...     name="numbers", write="numbers.write", load="numbers.load",
        ...     model_file="model.npz", how_to_load="vectors = ...", quantize=("fp16",),
        ... )
        >>> msd.export.FORMATS.register(numbers).model_file
        'model.npz'
        >>> msd.export.quantizations("numbers")
        [None, 'fp16']
        >>> msd.export.FORMATS.remove("numbers").name
        'numbers'
    """

    write: str | Callable[..., Mapping[str, Any]]
    load: str | Callable[..., Run]
    model_file: str
    how_to_load: str
    quantize: tuple[str, ...] = ()
    tokenizers: tuple[str, ...] = TOKENIZERS
    libraries: tuple[str, ...] = ()
    warning: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.quantize:
            checks.one_of(ALL, quantize=name)

    def check(
        self, quantize: str | None, tokenizer: Any, options: Iterable[str] = ()
    ) -> None:
        """Check a request to write it.

        Raises:
            InputError: It offers no such `quantize`, carries no such tokenizer, or
                `write` has no argument of an option's name.
        """
        if quantize not in (None, *self.quantize):
            offered = ", ".join(self.quantize)
            known = f"quantize may be {offered}" if offered else "it has none"
            hint = checks.nearest(str(quantize), self.quantize)
            raise checks.InputError(
                f"The format `{self.name}` does not offer quantize={quantize!r}: "
                f"{known}. {hint or 'Leave `quantize` out for float32.'}"
            )
        arguments = [*inspect.signature(loaded(self.write)).parameters][3:]
        for name in options:
            if name not in arguments:
                shown = f"it has {', '.join(arguments) or 'none'}"
                hint = checks.nearest(name, arguments)
                raise checks.InputError(
                    f"The format `{self.name}` has no option `{name}`: {shown}. "
                    f"{hint or 'Leave it out, or spell it otherwise.'}"
                )
        if tokenizer.kind not in self.tokenizers:
            carry = [f for f, r in FORMATS.items() if tokenizer.kind in r.tokenizers]
            others = f"Use a format that carries it: {', '.join(carry)}."
            raise checks.InputError(
                f"The tokenizer of a `{self.name}` artefact must be "
                f"{' or '.join(self.tokenizers)}. Received: {tokenizer.kind}. "
                f"{others if carry else NO_FORMAT}"
            )


FORMATS = Registry(
    "format",
    Format(
        name="saved_model",
        write="keras_msd.export.saved_model.exporter.write",
        load="keras_msd.export.saved_model.exporter.load",
        model_file="1/saved_model.pb",
        quantize=ALL,
        libraries=("tensorflow", "tensorflow-text"),
        warning="A SavedModel is a program: load only one from a source you trust.",
        how_to_load="""\
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

model = tf.saved_model.load("FOLDER/1")
encode = model.signatures["serving_default"]
vectors = encode(text=tf.constant(["A sentence."]))["embedding"]  # float32 (n, dim)
# TensorFlow Serving: --model_base_path=FOLDER, an absolute path.
""",
    ),
    Format(
        name="litert",
        write="keras_msd.export.litert.exporter.write_ids",
        load="keras_msd.export.litert.files.load_ids",
        model_file="model.tflite",
        quantize=ALL,
        libraries=("tensorflow", "ai-edge-litert"),
        warning="A model is a program: load only one from a source you trust.",
        how_to_load="""\
import sys
import zipfile

import numpy as np
from ai_edge_litert.interpreter import Interpreter

sys.path.append("FOLDER")
from portable_tokenizer import PortableTokenizer  # a file of this folder

model = "FOLDER/model.tflite"  # also a zip archive that holds the tokenizer
with zipfile.ZipFile(model) as archive:
    tokenizer = PortableTokenizer(archive.read("tokenizer.json"))
embed = Interpreter(model).get_signature_runner("serving_default")
vectors = []
for ids in tokenizer.encode(["A sentence."]):
    ids = np.array([ids], np.int32)
    vectors += list(embed(token_ids=ids, padding_mask=np.ones_like(ids))["embedding"])
""",
    ),
    Format(
        name="litert_text",
        write="keras_msd.export.litert.exporter.write_text",
        load="keras_msd.export.litert.files.load_text",
        model_file="model.tflite",
        quantize=ALL,
        tokenizers=("unigram",),
        libraries=("tensorflow", "tensorflow-text", "mediapipe"),
        warning="A model is a program: load only one from a source you trust.",
        how_to_load="""\
from mediapipe.tasks.python.text import TextEmbedder

with TextEmbedder.create_from_model_path("FOLDER/model.tflite") as embedder:
    # One text a call; MediaPipe ends it at a NUL character.
    vector = embedder.embed("A sentence.").embeddings[0].embedding  # float32 (dim,)
""",
    ),
    Format(
        name="onnx",
        write="keras_msd.export.onnx.exporter.write_ids",
        load="keras_msd.export.onnx.exporter.load_ids",
        model_file="model.onnx",
        quantize=ALL,
        how_to_load="""\
import sys

import numpy as np
import onnxruntime

sys.path.append("FOLDER")
from portable_tokenizer import PortableTokenizer  # a file of this folder

session = onnxruntime.InferenceSession("FOLDER/model.onnx")
description = session.get_modelmeta().custom_metadata_map["tokenizer"]
rows = PortableTokenizer(description.encode()).encode(["A sentence."])
token_ids = np.array(rows, np.int32)  # rows of one length; pad others at the right
inputs = {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)}
vectors = session.run(["embedding"], inputs)[0]  # float32 (n, dim)
""",
    ),
    Format(
        name="onnx_text",
        write="keras_msd.export.onnx.exporter.write_text",
        load="keras_msd.export.onnx.exporter.load_text",
        model_file="model.onnx",
        quantize=ALL,
        how_to_load="""\
import numpy as np
import onnxruntime
import onnxruntime_extensions

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
session = onnxruntime.InferenceSession("FOLDER/model.onnx", options)
text = np.array(["A sentence."], object)
vectors = session.run(["embedding"], {"text": text})[0]  # float32 (n, dim)
""",
    ),
)


def quantizations(format: str) -> list[str | None]:
    """Return what `quantize` may be for a format, mildest first; None is float32.

    Raises:
        InputError: The format is unknown.

    Example:
        >>> msd.export.quantizations("litert")
        [None, 'fp16', 'int8', 'int4_table', 'int4']
    """
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
