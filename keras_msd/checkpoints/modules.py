"""What a sentence-transformers folder is made of: modules.json and the modules' files.

The types of modules are compared with known names from end to end; no class path in a
file is imported.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checkpoints.weights import check_settings, checkpoint_tensors
from keras_msd.checks import InputError, one_of, placed
from keras_msd.files import read_json, read_table
from keras_msd.layers.pooling import POOLINGS
from keras_msd.tensors import WHOLE

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
KINDS = ("Transformer", "Pooling", "Dense", "Normalize", "StaticEmbedding")
OLD = "sentence_transformers.models"  # of versions before 5.4
PACKAGES = (
    "sentence_transformers.base.modules",
    "sentence_transformers.sentence_transformer.modules",
)
FILES = {"StaticEmbedding": "static_embedding"}
# Whole names of modules, of version 5.4 and later with the name of their file or not.
TYPES = {f"{OLD}.{kind}": kind for kind in KINDS} | {
    f"{package}.{file}{kind}": kind
    for package in PACKAGES
    for kind in KINDS
    for file in ("", f"{FILES.get(kind, kind.lower())}.")
}
# Older files have one true-or-false key per pooling.
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
LONGEST_NAME = 255  # bytes, in the file systems that are used
REPAIR = (
    "Load the model with sentence-transformers, and give `load_teacher` the "
    "`SentenceTransformer` itself."
)
ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.SiLU": "silu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
}
SENTENCE = "sentence_embedding"
# What the first module may say of how texts are run, with the values that we run.
TRANSFORMER = {
    "transformer_task": "feature-extraction",
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "last_hidden_state"}
    },
    "module_output_name": "token_embeddings",
    "query_length": None,
    "document_length": None,
    "query_expansion": None,
    "processing_kwargs": None,
}


class Dense(NamedTuple):
    """A layer `activation(x @ kernel + bias)` on sentence vectors.

    Attributes:
        kernel: float32 `(in, out)`.
        bias: float32 `(out,)`, or None.
        activation: A name that Keras knows.
    """

    kernel: np.ndarray
    bias: np.ndarray | None
    activation: str


class Modules(NamedTuple):
    """The parts of a sentence encoder.

    Attributes:
        first: Folder of the transformer, or of the static embedding.
        static: Whether it is a static embedding, which has a pooling of its own.
        pooling: How a transformer's token vectors are pooled.
        dense: Folders of the dense layers, and None in place of each Normalize.
        strips: Whether blanks around a text are taken away, as versions before 5.4 do:
            if the folder names such a version, or, without one, a module of those.
        whole_prompt: Whether the tokens of a prompt are pooled, too.
    """

    first: Path
    static: bool = False
    pooling: str = "mean"
    dense: tuple[Path | None, ...] = ()
    strips: bool = False
    whole_prompt: bool = True


def read_modules(folder: Path, pooling: str | None) -> Modules:
    """Return the parts that modules.json names.

    Args:
        folder: The checkpoint's.
        pooling: Takes the place of the module Pooling, which may then be absent.

    Raises:
        InputError: A module or pooling is not supported, or they come in another order
            than Transformer, Pooling, then any of Dense and Normalize; or
            StaticEmbedding, then any of these.
    """
    path = folder / MODULES
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise InputError(f"`{path}` must be a list of modules. {WHOLE}")
    kinds = [_kind(entry, path) for entry in entries]
    static = kinds[:1] == ["StaticEmbedding"]
    first = kinds[:1] if static else ["Transformer"]
    pools = not static and (pooling is None or kinds[1:2] == ["Pooling"])
    first += ["Pooling"] if pools else []
    rest = kinds[len(first) :]
    if kinds[: len(first)] != first or not {"Dense", "Normalize"}.issuperset(rest):
        raise InputError(
            f"`{path}` must list Transformer and Pooling, or StaticEmbedding, and then "
            "Dense and Normalize as often as needed. Received: "
            f"{', '.join(kinds) or 'nothing'}. {REPAIR}"
        )
    if static and pooling is not None:
        raise InputError(
            f"A static embedding has the pooling mean. Received: {pooling!r}. Leave "
            "`pooling` out."
        )
    places = [_inside(folder, entry.get("path", ""), path) for entry in entries]
    settings: dict[str, Any] = {}
    if pools:
        config = places[1] / "config.json"
        settings = read_table(config, "pooling's settings") if pooling is None else {}
        pooling = pooling or _pooling(settings, config)
    steps = zip(rest, places[len(first) :], strict=True)
    dense = []
    for kind, place in steps:
        dense.append(place if kind == "Dense" else None)
        if kind == "Normalize":
            _check_normalize(place / "config.json")
    return Modules(
        places[0],
        static,
        pooling or "mean",
        tuple(dense),
        strips=not static and _is_old(folder, entries[0]["type"]),
        whole_prompt=settings.get("include_prompt", True) is not False,
    )


def _is_old(folder: Path, name: str) -> bool:
    """Tell whether a version before 5.4 wrote a folder, by its name or its modules."""
    path = folder / SETTINGS
    versions = read_table(path).get("__version__") if path.is_file() else None
    given = (
        versions.get("sentence_transformers") if isinstance(versions, dict) else None
    )
    parts = re.match(r"(\d+)\.(\d+)", str(given))
    return tuple(map(int, parts.groups())) < (5, 4) if parts else name.startswith(OLD)


def check_transformer(settings: dict[str, Any], path: Path) -> None:
    """Raise `InputError` if a transformer's module is run in another way than ours."""
    given = {key: value for key, value in settings.items() if value != {}}
    check_settings(given, TRANSFORMER, path, REPAIR)


def _kind(entry: dict[str, Any], path: Path) -> str:
    name = str(entry.get("type"))
    if name not in TYPES:
        raise InputError(
            f"Every `type` in `{path}` must be a module of sentence_transformers among "
            f"{', '.join(KINDS)}, in full, such as {OLD}.Pooling or "
            f"{PACKAGES[1]}.pooling.Pooling. Received: {name!r:.200}. {REPAIR}"
        )
    return TYPES[name]


def _inside(folder: Path, place: Any, path: Path) -> Path:
    parts = PurePosixPath(place if isinstance(place, str) else "..")
    odd = parts.is_absolute() or ".." in parts.parts
    if odd or not str(place).isprintable() or len(place.encode()) > LONGEST_NAME:
        raise InputError(
            f"Every `path` in `{path}` must name a folder within its own. Received: "
            f"{place!r:.200}. {WHOLE}"
        )
    return folder / parts


def _pooling(settings: dict[str, Any], path: Path) -> str:
    flags = [mode for key, mode in FLAGS.items() if settings.get(key)]
    modes = settings.get("pooling_mode", flags or ["mean"])
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in POOLINGS:
        raise InputError(
            f"`{path}` must ask for one pooling among {', '.join(POOLINGS)}. Received: "
            f"{modes}. {REPAIR}"
        )
    return modes[0]


def _check_normalize(path: Path) -> None:
    if path.is_file():
        names = dict.fromkeys(("module_input_name", "module_output_name"), SENTENCE)
        check_settings(read_table(path), names, path, REPAIR)


def read_dense(folder: Path, width: int) -> Dense:
    """Read a dense layer of `width` inputs.

    Raises:
        InputError: The activation is not in `ACTIVATIONS`, the module is wired in
            another way than vector to vector, or its tensors do not fit.
    """
    path = folder / "config.json"
    settings = read_table(path, "dense layer's settings")
    # sentence-transformers takes tanh where the file does not say.
    default = "torch.nn.modules.activation.Tanh"
    activation = str(settings.get("activation_function", default))
    with placed(path):
        one_of(ACTIVATIONS, activation_function=activation)
    needed = {
        "in_features": width,
        "use_residual": False,
        "module_input_name": SENTENCE,
        "module_output_name": SENTENCE,
    }
    check_settings(settings, needed, path, REPAIR)
    out, bias = settings.get("out_features"), settings.get("bias", True)
    files = checkpoint_tensors(folder)
    tensors: dict[str, tuple[Any, ...]] = {"linear.weight": (out, width)}
    tensors |= {"linear.bias": (out,)} if bias else {}
    if unknown := sorted(files.shapes.keys() - tensors.keys()):
        raise InputError(
            f"`{folder}` must hold {' and '.join(tensors)} alone. Received: "
            f"`{unknown[0]}`. {WHOLE}"
        )
    for key, shape in tensors.items():
        files.check(key, shape)
    kernel = files.read("linear.weight").T
    return Dense(
        kernel, files.read("linear.bias") if bias else None, ACTIVATIONS[activation]
    )


def joined(first: Dense, second: Dense) -> Dense:
    """Return one layer in place of a linear one and the one after it."""
    weights = second.kernel.astype(np.float64)
    bias = None if first.bias is None else first.bias @ weights
    if second.bias is not None:
        bias = second.bias if bias is None else bias + second.bias
    return Dense(
        (first.kernel @ weights).astype(np.float32),
        None if bias is None else np.asarray(bias, np.float32),
        second.activation,
    )
