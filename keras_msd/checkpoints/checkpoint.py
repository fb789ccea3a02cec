"""Encoders from the folders of published checkpoints.

The types of modules in modules.json are compared with known names; no class path in a
file is imported. A static embedding is a table of token vectors and their mean; a
folder of model2vec is read as one, too.
"""

import logging
import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from keras_msd.checkpoints.weights import (
    DENSE_ACTIVATIONS,
    POOLING_FLAGS,
    SINGLE,
    check_settings,
    checkpoint_tensors,
    read_checkpoint,
)
from keras_msd.checks import InputError, existing_folder, log_unused, one_of, placed
from keras_msd.io.files import VOCABULARY, parse_json, read_bytes, read_json, read_table
from keras_msd.io.tensors import FLOATS, INT8, WHOLE
from keras_msd.layers import POOLINGS
from keras_msd.models.encoder import Encoder
from keras_msd.tokenizers.base import CONFIG as TOKENIZER_CONFIG
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
from keras_msd.tokenizers.tokenizer_json import of_backend, read_backend, spell_added
from keras_msd.usage import Usage, usage_of

logger = logging.getLogger(__name__)

MODULES, CONFIG = "modules.json", "config.json"
SETTINGS = "config_sentence_transformers.json"
PASSAGE = ("passage", "corpus")  # other names of a document's prompt
# Names of all versions: `models` before 5.4, then with the name of the file or not.
MODULE = re.compile(
    r"sentence_transformers"
    r"\.(models|(base|sentence_transformer)\.modules(\.[a-z_]+)?)"
    r"\.(?P<kind>Transformer|Pooling|Dense|Normalize|StaticEmbedding)"
)
ORDER = re.compile(r"(Transformer( Pooling)?|StaticEmbedding)( Dense)?( Normalize)?")
LONGEST_NAME = 255  # bytes, in the file systems that are used
REPAIR = (
    "Load the model with sentence-transformers, and give `load_teacher` the "
    "`SentenceTransformer` itself."
)
# From a sentence's vector to another: what Dense and Normalize are.
VECTORS = dict.fromkeys(
    ("module_input_name", "module_output_name"), "sentence_embedding"
)
# What modules.json says of each module, and what 1_Pooling says beside its flags.
ENTRY = {"idx", "name", "path", "type", "kwargs"}
WIDTHS = ("word_embedding_dimension", "embedding_dimension")  # the older name first
POOLING = {*WIDTHS, "pooling_mode", "include_prompt"}
ACTIVATION = "activation_function"
# Of a static embedding.
MODEL2VEC = "model2vec"
TABLE, TABLE_OF_MODULE = "embeddings", "embedding.weight"
WEIGHTS, MAPPING = "weights", "mapping"
INTEGERS = ("I64", "I32")
LONGEST = 2048  # tokens of a text, where the folder sets no limit
MODEL2VEC_LONGEST = 512  # where its config.json does not say


# Of a model; and what other kinds of model have.
MODEL = {"model_type": "SentenceTransformer", "truncate_dim": None}
# Where a folder states its longest sentence: the first that has a number counts.
FAMILIES = ("bert", "roberta", "distilbert", "xlm-roberta", "camembert")
LIMITS = {f"sentence_{family}_config.json": "max_seq_length" for family in FAMILIES}
LIMITS[TOKENIZER_CONFIG] = "model_max_length"
# What such a file may say of how texts are run.
RUN = {
    "transformer_task": "feature-extraction",
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "last_hidden_state"}
    },
    "module_output_name": "token_embeddings",
    "query_length": None,
    "document_length": None,
    "query_expansion": None,
    "processing_kwargs": None,
    "tokenizer_name_or_path": None,
}
ARGUMENTS = [
    f"{of}_{what}"
    for of in ("model", "tokenizer", "processor", "config")
    for what in ("args", "kwargs")
]
RUN |= dict.fromkeys(ARGUMENTS)
CASED = 1000  # words that tell whether a tokenizer lower-cases
KNOWN = {*RUN, "max_seq_length", "do_lower_case", "unpad_inputs"}


class Modules(NamedTuple):
    """The parts of a sentence encoder.

    Attributes:
        first: Folder of the transformer, or of the static embedding.
        static: Whether it is a static embedding, which has a pooling of its own.
        pooling: How a transformer's token vectors are pooled.
        dense: Folder of the dense layer, if there is one.
        normalize: Whether vectors have length one.
        strips: Whether blanks around a text are taken away, as versions before 5.4 do:
            if the folder names such a version, or, without one, a module of those.
    """

    first: Path
    static: bool = False
    pooling: str = "mean"
    dense: Path | None = None
    normalize: bool = False
    strips: bool = False


def load_checkpoint(
    folder: str | Path, pooling: str | None = None, **usage: Any
) -> Encoder:
    """Load an encoder from a published checkpoint.

    With modules.json the folder has sentence-transformers layout: a Transformer and a
    Pooling (mean, cls or max), or a StaticEmbedding; then perhaps a Dense with a linear
    or tanh activation and a Normalize. Without it the folder is a plain transformer,
    pooled by the mean and not normalised, and a log line says so; or a static model of
    model2vec.

    Args:
        folder: The checkpoint's folder.
        pooling: "mean", "cls" or "max", whatever the folder asks for.
        **usage: Fields of `Usage` in place of what the folder says.

    Raises:
        InputError: A module, pooling, activation, similarity function or model family
            is not supported, or a file is missing or damaged.
    """
    folder = existing_folder(folder, "checkpoint folder")
    modules = _modules_of(folder, pooling)
    if modules.static:
        fields, arrays, tokenizer = read_static(modules.first)
    else:
        fields, arrays, tokenizer = _read_transformer(modules.first, modules.strips)
    if modules.dense is not None:
        more_fields, more_arrays = read_dense(modules.dense, fields["hidden_dim"])
        fields, arrays = fields | more_fields, arrays | more_arrays
    fields |= {"pooling": modules.pooling, "normalize": modules.normalize}
    fields |= read_usage(folder).model_dump() | usage
    encoder = Encoder.from_config(tokenizer, fields, origin=str(folder))
    encoder.set_weights(arrays, origin=f"`{folder}`")
    return encoder


def _modules_of(folder: Path, pooling: str | None) -> Modules:
    if (folder / MODULES).is_file():
        return read_modules(folder, pooling)
    if is_model2vec(folder):
        normalize = read_table(folder / CONFIG).get("normalize", False)
        return Modules(folder, static=True, normalize=bool(normalize))
    logger.warning(
        "%s has no modules.json: taken as a plain transformer, pooled by %s and not "
        "normalised.",
        folder,
        f'"{pooling}"' if pooling else "the mean of its tokens",
    )
    return Modules(folder, pooling=pooling or "mean")


def _read_transformer(
    body: Path, strips: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray], Tokenizer]:
    """Return fields, weights and tokenizer of a transformer's folder."""
    fields, arrays = read_checkpoint(body)
    tokenizer = read_checkpoint_tokenizer(body, strips)
    if tokenizer.vocabulary_size > fields["vocabulary_size"]:
        raise InputError(
            f"The word table in `{body}` must have a row for every token of its "
            f"tokenizer, {tokenizer.vocabulary_size}. Received: "
            f"{fields['vocabulary_size']} rows. {WHOLE}"
        )
    positions = fields["max_length"]
    fields |= {
        "pad_id": tokenizer.pad_id,
        "max_positions": positions,
        "max_length": _longest_sentence(body, positions),
    }
    _check_run(body, tokenizer)
    return fields, arrays, tokenizer


def _settings(path: Path) -> dict[str, Any]:
    values = read_json(path) if path.is_file() else {}
    return values if isinstance(values, dict) else {}


def _longest_sentence(body: Path, positions: int) -> int:
    for name, key in LIMITS.items():
        limit = _settings(body / name).get(key)
        if isinstance(limit, (int, float)) and limit >= 2:
            return int(min(limit, positions))
    return positions


def _ignores_case(tokenizer: Tokenizer) -> bool:
    words = (piece.lstrip("▁Ġ#") for piece in tokenizer.pieces())
    small = [word for word in words if word.isalpha() and word.upper().lower() == word]
    small = [word for word in small if word != word.upper()][:CASED]
    capitals = tokenizer.encode_plain([word.upper() for word in small])
    return capitals == tokenizer.encode_plain(small)


def _check_run(body: Path, tokenizer: Tokenizer) -> None:
    for name in LIMITS.keys() - {TOKENIZER_CONFIG}:
        settings = _settings(body / name)
        said = {key: value for key, value in settings.items() if value != {}}
        check_settings(said, RUN, body / name, REPAIR)
        log_unused(said, KNOWN, body / name)
        if settings.get("do_lower_case") and not _ignores_case(tokenizer):
            raise InputError(
                f"`do_lower_case` in `{body / name}` must be false unless the "
                "tokenizer itself lower-cases. Received: true. Lower-case the texts, "
                "and set it to false."
            )


def read_modules(folder: Path, pooling: str | None) -> Modules:
    """Return the parts that modules.json names.

    Args:
        folder: The checkpoint's.
        pooling: Takes the place of the module Pooling, which may then be absent.

    Raises:
        InputError: A module or pooling is not supported, or they are others than
            Transformer and Pooling, or StaticEmbedding, and then perhaps Dense and
            Normalize.
    """
    path = folder / MODULES
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise InputError(f"`{path}` must be a list of modules. {WHOLE}")
    for entry in entries:
        log_unused(entry, ENTRY, path)
    kinds = [_kind(entry, path) for entry in entries]
    folders = [_inside(folder, entry.get("path", ""), path) for entry in entries]
    places = dict(zip(kinds, folders, strict=True))
    static = "StaticEmbedding" in places
    pools = static or pooling is not None or "Pooling" in places
    if not (pools and ORDER.fullmatch(" ".join(kinds))):
        raise InputError(
            f"`{path}` must list Transformer and Pooling, or StaticEmbedding, and then "
            "at most one Dense and one Normalize. Received: "
            f"{', '.join(kinds) or 'nothing'}. {REPAIR}"
        )
    if static and pooling is not None:
        raise InputError(
            f"A static embedding has the pooling mean. Received: {pooling!r}. Leave "
            "`pooling` out."
        )
    if "Normalize" in places and (file := places["Normalize"] / CONFIG).is_file():
        settings = read_table(file)
        check_settings(settings, VECTORS, file, REPAIR)
        log_unused(settings, VECTORS, file)
    if pooling is None and not static:
        pooling = _pooling(places["Pooling"] / CONFIG)
    dense, normalize = places.get("Dense"), "Normalize" in places
    strips = not static and _is_old(folder, entries[0]["type"])
    return Modules(folders[0], static, pooling or "mean", dense, normalize, strips)


def read_usage(folder: Path) -> Usage:
    """Return the prompts and the similarity function that a folder asks for.

    Raises:
        InputError: They do not fit, or the folder is of another kind of model or asks
            for shortened vectors.
    """
    path = folder / SETTINGS
    settings = read_table(path) if path.is_file() else {}
    check_settings(settings, MODEL, path, REPAIR)
    log_unused(settings, {"__version__", *MODEL, *Usage.model_fields}, path)
    prompts = settings.get("prompts")
    if isinstance(prompts, dict):  # an empty prompt may be null
        settings["prompts"] = {k: "" if v is None else v for k, v in prompts.items()}
        without = not settings["prompts"].get("document")
        if unused := [it for it in PASSAGE if without and settings["prompts"].get(it)]:
            logger.warning(
                '`%s`: the prompt "%s" is not used for documents, as in '
                'sentence-transformers. Give it as `prompts={"document": ...}`, or '
                "name it with `prompt_name`.",
                *(path, unused[0]),
            )
    return usage_of(settings, f"`{path}`")


def _is_old(folder: Path, name: str) -> bool:
    path = folder / SETTINGS
    versions = read_table(path).get("__version__") if path.is_file() else None
    given = versions if isinstance(versions, dict) else {}
    parts = re.match(r"(\d+)\.(\d+)", str(given.get("sentence_transformers")))
    if parts is None:
        return name.startswith("sentence_transformers.models.")
    return (int(parts[1]), int(parts[2])) < (5, 4)


def _kind(entry: dict[str, Any], path: Path) -> str:
    name = str(entry.get("type"))
    module = MODULE.fullmatch(name)
    if module is None:
        raise InputError(
            f"Every `type` in `{path}` must be the whole name of a module that is "
            "read, such as sentence_transformers.models.Pooling. Received: "
            f"{name!r:.200}. {REPAIR}"
        )
    return module["kind"]


def _inside(folder: Path, place: Any, path: Path) -> Path:
    parts = PurePosixPath(place if isinstance(place, str) else "..")
    odd = parts.is_absolute() or ".." in parts.parts
    if odd or not str(place).isprintable() or len(place.encode()) > LONGEST_NAME:
        raise InputError(
            f"Every `path` in `{path}` must name a folder within its own. Received: "
            f"{place!r:.200}. {WHOLE}"
        )
    return folder / parts


def _pooling(path: Path) -> str:
    if not path.is_file():
        raise InputError(f"`{path}` does not exist, and modules.json names it. {WHOLE}")
    settings = read_table(path)
    check_settings(settings, {"include_prompt": True}, path, REPAIR)
    log_unused(settings, {*POOLING, *POOLING_FLAGS}, path)
    flags = [mode for key, mode in POOLING_FLAGS.items() if settings.get(key)]
    modes = settings.get("pooling_mode", flags or ["mean"])
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in POOLINGS:
        raise InputError(
            f"`{path}` must ask for one pooling among {', '.join(POOLINGS)}. Received: "
            f"{modes}. {REPAIR}"
        )
    return modes[0]


def read_dense(
    folder: Path, width: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a dense layer of `width` inputs.

    Returns:
        Fields of `EncoderConfig`, and float32 arrays by weight path.

    Raises:
        InputError: The activation is not in families.toml, the module is wired in
            another way than vector to vector, or its tensors do not fit.
    """
    path = folder / CONFIG
    settings = read_table(path, "dense layer's settings")
    # sentence-transformers takes tanh where the file does not say.
    default = "torch.nn.modules.activation.Tanh"
    activation = str(settings.get(ACTIVATION, default))
    with placed(path):
        one_of(DENSE_ACTIVATIONS, **{ACTIVATION: activation})
    needed = VECTORS | {"in_features": width, "use_residual": False}
    check_settings(settings, needed, path, REPAIR)
    log_unused(settings, {*needed, "out_features", "bias", ACTIVATION}, path)
    out, bias = settings.get("out_features"), bool(settings.get("bias", True))
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
    fields = {
        "projection_dim": out,
        "projection_bias": bias,
        "projection_activation": DENSE_ACTIVATIONS[activation],
    }
    arrays = {"projection/kernel": files.read("linear.weight").T}
    if bias:
        arrays["projection/bias"] = files.read("linear.bias")
    return fields, arrays


def is_model2vec(folder: Path) -> bool:
    """Tell whether a folder was written by model2vec.

    Its config.json names no other model, and the table is called `embeddings`.
    """
    path = folder / CONFIG
    if not path.is_file() or not (folder / SINGLE).is_file():
        return False
    kind = read_table(path).get("model_type", MODEL2VEC)
    return kind == MODEL2VEC and TABLE in checkpoint_tensors(folder).shapes


def read_static(
    folder: Path,
) -> tuple[dict[str, Any], dict[str, np.ndarray], Tokenizer]:
    """Read a table of token vectors and its tokenizer.

    A folder of model2vec cuts texts and leaves out unknown tokens as that library does,
    sentence-transformers does neither. A text of over 2,048 tokens is cut there.

    Args:
        folder: Holds tokenizer.json and model.safetensors with `embeddings` `(n, dim)`
            and perhaps `mapping` and `weights` `(vocabulary,)`, as model2vec writes
            them; or with `embedding.weight`, as sentence-transformers does.

    Returns:
        Fields of `EncoderConfig`, float32 arrays by weight path, and the tokenizer.

    Raises:
        InputError: A file is missing, damaged or does not fit the other.
    """
    settings = read_table(folder / CONFIG) if is_model2vec(folder) else None
    tokenizer, limit = _tokenizer(folder, settings)
    table = _table(folder)
    if len(table) < tokenizer.vocabulary_size:
        raise InputError(
            f"The table in `{folder / SINGLE}` must have a row for every token of its "
            f"tokenizer, {tokenizer.vocabulary_size}. Received: {len(table)} rows. "
            f"{WHOLE}"
        )
    rows, width = table.shape
    fields = {
        "vocabulary_size": rows,
        "hidden_dim": width,
        "num_layers": 0,
        "num_heads": 1,
        "intermediate_dim": 1,
        "embedding_layer_norm": False,
        "dropout": 0.0,
        "max_length": limit,
        "pad_id": tokenizer.pad_id,
    }
    arrays = {
        "embedding/word": table,
        "embedding/position": np.zeros((limit, width), np.float32),
        "embedding/type": np.zeros((1, width), np.float32),
    }
    return fields, arrays, tokenizer


def _table(folder: Path) -> np.ndarray:
    """Return one row for every token, float32 `(vocabulary, dim)`."""
    files = checkpoint_tensors(folder)
    names = files.shapes.keys()
    known = {TABLE, WEIGHTS, MAPPING} if TABLE in names else {TABLE_OF_MODULE}
    key = TABLE if TABLE in names else TABLE_OF_MODULE
    if odd := sorted(names - known):
        raise InputError(
            f"`{folder / SINGLE}` must hold `{TABLE}`, and perhaps `{WEIGHTS}` and "
            f"`{MAPPING}`; or `{TABLE_OF_MODULE}` alone. Received: `{odd[0]}`. {WHOLE}"
        )
    shape = files.shapes.get(key, ())
    if len(shape) != 2:
        raise InputError(
            f"`{key}` in `{folder / SINGLE}` must be a table (n, dim). Received: the "
            f"shape {shape}. {WHOLE}"
        )
    files.check(key, shape, FLOATS + INT8)
    table = files.read(key)
    if MAPPING in names:
        files.check(MAPPING, (*files.shapes[MAPPING], 0)[:1], INTEGERS)
        rows = files.read(MAPPING).astype(np.int64)
        if rows.min(initial=0) < 0 or rows.max(initial=0) >= len(table):
            raise InputError(
                f"`{MAPPING}` in `{folder / SINGLE}` must name rows of `{TABLE}`, 0 to "
                f"{len(table) - 1}. Received: {rows.min()} to {rows.max()}. {WHOLE}"
            )
        table = table[rows]
    if WEIGHTS in names:
        files.check(WEIGHTS, (len(table),))
        table = table * files.read(WEIGHTS)[:, None]
    return np.ascontiguousarray(table)


def _tokenizer(folder: Path, settings: dict[str, Any] | None) -> tuple[Tokenizer, int]:
    """Return the tokenizer, which adds no special tokens, and the most tokens."""
    path = folder / "tokenizer.json"
    origin = f"`{path}`"
    raw = read_bytes(path, VOCABULARY, WHOLE)
    backend = spell_added(read_backend(raw, origin), origin, roles={})
    tokenizer = of_backend(backend, origin, model2vec=settings is not None)
    if settings is None:
        cut = parse_json(raw, origin).get("truncation") or {}
        check_settings(cut, {"direction": "Right"}, path, WHOLE)
        limit = cut.get("max_length", LONGEST)
    else:  # model2vec passes over what the file says of long texts
        limit = settings.get("max_length", MODEL2VEC_LONGEST) or LONGEST
    if not isinstance(limit, int) or limit < 1:
        raise InputError(
            f"The longest text in `{folder}` must be a whole number of tokens. "
            f"Received: {limit!r:.60}. {WHOLE}"
        )
    # An encoder takes two tokens or more.
    return tokenizer, max(2, min(limit, LONGEST))
