"""Extend the vocabulary of a pre-trained word table."""

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer


def extend_vocabulary(encoder: Encoder, tokenizer: Tokenizer) -> Encoder:
    """Give an encoder without a body the vocabulary of another tokenizer.

    A new piece has the sum of the rows of those that it takes the place of. As a
    sentence's vector is the direction of a sum of rows, it stays where it was, but for
    positions and for texts in which a new piece crosses the border of two old ones.

    Args:
        encoder: A word table with mean pooling, such as a closed form or tiny12; it is
            not changed.
        tokenizer: Its first pieces are the encoder's, as `extend_unigram` makes it.

    Raises:
        InputError: The encoder has a body or does not add up its rows, or the
            tokenizer has other pieces at the encoder's ids.

    Source: ours.

    Example:
        >>> table = np.eye(90, 8, dtype="float32")
        >>> known = msd.testing.tiny_tokenizer()
        >>> encoder = msd.starts.closed_form_encoder(known, table, max_length=32)
        >>> texts = ["Der Nebel ist dicht.", "Der Nebel kommt."]
        >>> own = msd.tokenizers.train_unigram(texts, 40, at_most=True)
        >>> more = msd.tokenizers.extend_unigram(known, own)
        >>> extended = msd.starts.extend_vocabulary(encoder, more)
        >>> extended.config.vocabulary_size == more.vocabulary_size
        True
    """
    config, known = encoder.config, encoder.tokenizer
    adds_up = config.pooling == "mean" and not config.embedding_layer_norm
    if encoder.has_body or not adds_up or config.word_branch:
        raise InputError(
            "Only an encoder whose vector is the mean of its rows can have more pieces."
            f" Received: {config.num_layers} layers, pooling {config.pooling!r}, "
            f"embedding_layer_norm={config.embedding_layer_norm}, word_branch="
            f"{config.word_branch}. Give a closed form, or an encoder trained from one."
        )
    pieces, size = tokenizer.pieces(), known.vocabulary_size
    if not isinstance(known, SentencePieceTokenizer) or pieces[:size] != known.pieces():
        raise InputError(
            "The new vocabulary must begin with the encoder's. Received: other pieces. "
            "Make it with `extend_unigram(encoder.tokenizer, other)`."
        )
    extended = encoder.with_config(tokenizer, origin="extend_vocabulary")
    weights = encoder.weights()
    table = weights["embedding/word"][:size]
    sums = [table[ids].sum(axis=0) for ids in known.split_pieces(pieces[size:])]
    rows = np.reshape(sums, (-1, table.shape[1])).astype(np.float32)
    weights["embedding/word"] = np.concatenate([table, rows])
    extended.set_weights(weights, origin="the encoder")
    return extended
