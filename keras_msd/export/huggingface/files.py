"""An encoder as the settings and tensors of a BERT in sentence-transformers layout."""

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from keras_msd.checkpoints import weights as checkpoint
from keras_msd.checkpoints.modules import ACTIVATIONS
from keras_msd.checks import InputError
from keras_msd.files import write_json
from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import matrix

BERT = checkpoint.FAMILIES["bert"]
# Of several names for one function, the one that most checkpoints have stands first.
HIDDEN_ACT = {ours: name for name, ours in reversed(checkpoint.ACTIVATIONS.items())}
DENSE_ACTIVATION = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
MODULES = "sentence_transformers.models"


def check_bert(config: EncoderConfig) -> None:
    """Raise `InputError`, saying what is in the way, unless an encoder is a BERT."""
    wrong = {
        "no layers (`num_layers=0`)": not config.num_layers,
        "a word branch (`word_branch=True`)": config.word_branch,
        "layers that normalise first (`normalize_first=True`)": config.normalize_first,
        "embeddings without a layer norm (`embedding_layer_norm=False`)": (
            not config.embedding_layer_norm
        ),
    }
    if found := [what for what, is_so in wrong.items() if is_so]:
        raise InputError(
            "model.safetensors of a Hugging Face folder holds a BERT. Received: an "
            f"encoder with {' and '.join(found)}, which no BERT has. Give "
            "leave_out=['weights'] (--leave-out weights) for a folder that ONNX "
            'runtimes alone load (sentence-transformers with backend="onnx", '
            "transformers.js, fastembed), or use the format `onnx` or `saved_model`."
        )


def write_settings(config: EncoderConfig, folder: Path, tokens: bool) -> None:
    """Write config.json, modules.json and the settings of the modules.

    Args:
        config: The encoder's.
        folder: Where they go.
        tokens: Whether the transformer gives the vectors of tokens. If not, it gives
            the sentence's vector in the place of each: pooling by the mean gives it
            back, and no Dense is needed.
    """
    positions = config.max_positions or config.max_length
    write_json(
        folder / "config.json",
        {
            "model_type": "bert",
            "architectures": ["BertModel"],
            "attention_probs_dropout_prob": config.dropout,
            "hidden_act": HIDDEN_ACT[config.activation],
            "hidden_dropout_prob": config.dropout,
            "hidden_size": config.hidden_dim if tokens else config.dim,
            "intermediate_size": config.intermediate_dim,
            "layer_norm_eps": config.layer_norm_epsilon,
            "max_position_embeddings": positions,
            "num_attention_heads": config.num_heads,
            "num_hidden_layers": config.depth,
            "pad_token_id": config.pad_id,
            "position_embedding_type": "absolute",
            "type_vocab_size": config.num_types,
            "vocab_size": config.vocabulary_size,
        },
    )
    limits = {"max_seq_length": config.max_length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", limits)
    library = {"similarity_fn_name": "cosine", "prompts": {}}
    write_json(folder / "config_sentence_transformers.json", library)
    write_modules(config, folder, tokens)


def write_modules(config: EncoderConfig, folder: Path, tokens: bool) -> None:
    """Write modules.json and the settings of Pooling and Dense."""
    dense = tokens and config.projection_dim is not None
    kinds = ["Transformer", "Pooling", *["Dense"] * dense]
    kinds += ["Normalize"] * config.normalize
    entries = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"{MODULES}.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", entries)
    pooling = config.pooling if tokens else "mean"
    modes = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}
    flags = {f"pooling_mode_{mode}": name == pooling for name, mode in modes.items()}
    width = config.hidden_dim if tokens else config.dim
    _write(folder / "1_Pooling", {"word_embedding_dimension": width} | flags)
    if dense:
        _write(
            folder / "2_Dense",
            {
                "in_features": config.hidden_dim,
                "out_features": config.projection_dim,
                "bias": config.projection_bias,
                "activation_function": DENSE_ACTIVATION[config.projection_activation],
            },
        )


def _write(folder: Path, settings: dict[str, Any]) -> None:
    folder.mkdir()
    write_json(folder / "config.json", settings)


def write_tensors(encoder: Any, folder: Path) -> None:
    """Write model.safetensors of a BERT, and of Dense where there is a projection.

    The word table goes through its projection, and a unit that runs several times
    becomes as many layers: the file is larger than the encoder's own.
    """
    config: EncoderConfig = encoder.config
    weights = encoder.weights()
    # What the embedding layer does with rows of padding, and with a bottleneck.
    word = np.array(weights["embedding/word"])
    word[config.pad_id] = 0
    if config.bottleneck_dim is not None:
        word = word @ weights["embedding/projection"]
    weights["embedding/word"] = word
    position = weights["embedding/position"]
    weights["embedding/position"] = position[config.position_offset :]
    tensors = {}
    for key, path in BERT.keys.items():
        for layer in range(config.depth) if "{i}" in key else (0,):
            place = path.format(i=layer % config.num_layers)
            tensors[key.format(i=layer)] = _stored(place, weights[place])
    _save(tensors, folder)
    if config.projection_dim is not None:
        dense = {
            f"linear.{name}": _stored(path, weights[path])
            for name, path in (
                ("weight", "projection/kernel"),
                ("bias", "projection/bias"),
            )
            if path in weights
        }
        _save(dense, folder / "2_Dense")


def _stored(path: str, array: np.ndarray) -> np.ndarray:
    """Return a weight as checkpoints hold it: linear maps `(out, in)`, heads joined."""
    if path.endswith("/kernel"):
        array = matrix(path, array).T
    elif path.endswith("/bias"):
        array = array.reshape(-1)
    return np.ascontiguousarray(array, np.float32)


def _save(tensors: dict[str, np.ndarray], folder: Path) -> None:
    # transformers asks which framework's layout it is.
    save_file(tensors, folder / checkpoint.SINGLE, metadata={"format": "pt"})
