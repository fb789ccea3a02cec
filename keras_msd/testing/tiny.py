"""Pairs, a tokenizer and encoders that are made in a moment."""

from pathlib import Path
from typing import Any

from keras_msd.data.pair import Pair
from keras_msd.models.encoder import Encoder, new_encoder
from keras_msd.tokenizers.base import Tokenizer

_LINES = Path(__file__).with_name("sentences.tsv").read_text("utf-8").splitlines()
SENTENCES = [tuple(line.split("\t")) for line in _LINES]


def tiny_pairs() -> list[Pair]:
    """Return eight pairs in two languages; two English lines occur twice.

    Example:
        >>> msd.testing.tiny_pairs()[0]
        Pair(source='The cat sleeps on the chair.',
             target='Die Katze schläft auf dem Stuhl.', language='de',
             source_language='en')
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
