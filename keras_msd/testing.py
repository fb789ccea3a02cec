"""Small parts and checks for tests, of this library and of code built on it."""

from typing import Any

import numpy as np

from keras_msd.data.pair import Pair
from keras_msd.data.tokenizer import Tokenizer
from keras_msd.models.encoder import Encoder, new_encoder

SENTENCES = [
    ("The cat sleeps on the chair.", "Die Katze schläft auf dem Stuhl.", "de"),
    ("A dog runs in the park.", "Ein Hund läuft im Park.", "de"),
    ("We drink coffee in the morning.", "Wir trinken am Morgen Kaffee.", "de"),
    ("The train arrives at noon.", "Der Zug kommt mittags an.", "de"),
    ("The cat sleeps on the chair.", "Le chat dort sur la chaise.", "fr"),
    ("A dog runs in the park.", "Un chien court dans le parc.", "fr"),
    ("She reads a long book.", "Elle lit un long livre.", "fr"),
    ("The house is very old.", "La maison est très vieille.", "fr"),
]


def tiny_pairs() -> list[Pair]:
    """Return eight pairs in two languages; two English lines occur twice."""
    return [Pair(*one) for one in SENTENCES]


def tiny_tokenizer() -> Tokenizer:
    """Return a SentencePiece tokenizer trained on the tiny pairs."""
    from keras_msd.data.train_tokenizer import train_unigram

    texts = [text for source, target, _ in SENTENCES for text in (source, target)]
    return train_unigram(texts, vocabulary_size=90)


def tiny_encoder(tokenizer: Tokenizer | None = None, **fields: Any) -> Encoder:
    """Return an encoder of a few thousand parameters with random weights."""
    small = {
        "num_layers": 2,
        "hidden_dim": 16,
        "num_heads": 2,
        "intermediate_dim": 32,
        "max_length": 32,
    }
    return new_encoder(tokenizer or tiny_tokenizer(), **small | fields)


def run_layer_test(layer: Any, *inputs: np.ndarray, weights: int) -> None:
    """Check a layer: config round trip, weight count, shapes, three dtype policies.

    Args:
        layer: A layer that is not built yet.
        *inputs: What its `call` takes.
        weights: How many weights it must have.

    Raises:
        AssertionError: One of the checks fails.
    """
    import keras

    config = layer.get_config()
    twin = type(layer).from_config(config)
    _check(twin.get_config() == config, "get_config does not survive a round trip")
    output = keras.ops.convert_to_numpy(layer(*inputs))
    _check(
        len(layer.weights) == weights, f"{len(layer.weights)} weights, not {weights}"
    )
    _check(bool(np.isfinite(output).all()), "the output is not finite")
    symbolic = layer(*[keras.KerasTensor(x.shape, str(x.dtype)) for x in inputs])
    _check(tuple(symbolic.shape) == output.shape, "symbolic and eager shapes differ")
    for policy in ("mixed_float16", "mixed_bfloat16"):
        other = type(layer).from_config(config | {"dtype": policy})
        result = keras.ops.convert_to_numpy(keras.ops.cast(other(*inputs), "float32"))
        _check(result.shape == output.shape, f"shape changes under {policy}")
        _check(bool(np.isfinite(result).all()), f"not finite under {policy}")


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
