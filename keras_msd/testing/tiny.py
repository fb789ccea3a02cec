"""Pairs, a tokenizer and encoders that are made in a moment."""

from typing import Any

from keras_msd.data.pair import Pair
from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.tokenizers.base import Tokenizer

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
    """Return eight pairs in two languages; two English lines occur twice.

    Example:
        >>> msd.testing.tiny_pairs()[0]
        Pair(source='The cat sleeps on the chair.',
             target='Die Katze schläft auf dem Stuhl.', language='de')
    """
    return [Pair(*sentence) for sentence in SENTENCES]


def tiny_tokenizer() -> Tokenizer:
    """Return a SentencePiece tokenizer trained on the tiny pairs.

    Example:
        >>> msd.testing.tiny_tokenizer().vocabulary_size
        90
    """
    from keras_msd.tokenizers.sentencepiece import train_unigram

    texts = [text for source, target, _ in SENTENCES for text in (source, target)]
    return train_unigram(texts, vocabulary_size=90)


def tiny_encoder(tokenizer: Tokenizer | None = None, **fields: Any) -> Encoder:
    """Return an encoder of a few thousand parameters with random weights.

    Args:
        tokenizer: By default the tiny one.
        **fields: Fields of `EncoderConfig` that shall differ.

    Example:
        >>> encoder = msd.testing.tiny_encoder(projection_dim=4)
        >>> encoder.dim, encoder.num_parameters
        (4, 6516)
    """
    small = {
        "num_layers": 2,
        "hidden_dim": 16,
        "num_heads": 2,
        "intermediate_dim": 32,
        "max_length": 32,
    }
    return new_encoder(tokenizer or tiny_tokenizer(), **small | fields)
