"""Extend the vocabulary of a pre-trained embedding table."""

import numpy as np

from keras_msd.checks import InputError
from keras_msd.models.encoder import Encoder
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer


def extend_vocabulary(encoder: Encoder, tokenizer: Tokenizer) -> Encoder:
    """Extend the vocabulary of an encoder without transformer layers.

    The embedding of a new token is the sum of the embeddings of the tokens that it
    replaces. A sentence's vector is the direction of a sum of embeddings, so it does
    not change. There are two exceptions: encoders with position embeddings, and texts
    in which a new token overlaps two old ones in part.

    Args:
        encoder: An embedding table with mean pooling, such as a ridge baseline or
            tiny12; it is not changed.
        tokenizer: Tokenizer whose first tokens are the encoder's, from
            `extend_unigram`.

    Raises:
        InputError: The encoder has transformer layers or does not average its rows, or
            the tokenizer has other tokens at the encoder's ids.

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
            "Only an encoder that averages token embeddings can get more tokens. "
            f"Received: {config.num_layers} layers, pooling {config.pooling!r}, "
            f"embedding_layer_norm={config.embedding_layer_norm}, word_branch="
            f"{config.word_branch}. Use a ridge baseline, or an encoder trained from "
            "one."
        )
    pieces, size = tokenizer.pieces(), known.vocabulary_size
    if not isinstance(known, SentencePieceTokenizer) or pieces[:size] != known.pieces():
        raise InputError(
            "The new vocabulary must begin with the encoder's. Received: other tokens. "
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
