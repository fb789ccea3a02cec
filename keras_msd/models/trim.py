"""Prune the vocabulary of an encoder to the languages in use."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, a_list, sentences
from keras_msd.evaluate.costs import cost
from keras_msd.models.encoder import Encoder
from keras_msd.progress import track
from keras_msd.tokenizers.trim import choose_pieces, trim_tokenizer

TABLE = "embedding/word"
CHUNK = 1024  # texts tokenised at a time, so that any number fits in memory


def trim_vocabulary(
    encoder: Encoder,
    texts: Iterable[str],
    keep: int | float | None = None,
    min_count: int = 1,
) -> Encoder:
    """Keep only the subword tokens that some texts use.

    Ids, tokenizer and word table change together, and nothing else. A text that the
    given encoder splits into kept pieces alone is split in the same way and has the
    same vector; any other is spelled with shorter kept pieces. Spare rows of the table,
    which no token has, go.

    Args:
        encoder: Any encoder, a bottleneck and a word branch included; stays as it is.
        texts: Sentences of the languages to keep, walked through once.
        keep: How many pieces there may be, all told (int); or the share of the texts'
            tokens, in (0, 1.0], that the kept pieces have to make up (float); or None
            for every piece that occurs. Special pieces and the characters that occur
            are always kept.
        min_count: Leave pieces out that occur less often, single characters excepted.

    Raises:
        InputError: There are no texts, or `keep` or `min_count` would leave too little.

    Source: Abdaoui et al. 2020 (arXiv:2010.05609); Ushio et al. 2023
    (arXiv:2305.15020).

    Example:
        >>> encoder = msd.testing.tiny_encoder()
        >>> trimmed = msd.trim_vocabulary(encoder, ["The cat sleeps."])
        >>> trimmed.tokenizer.vocabulary_size < encoder.tokenizer.vocabulary_size
        True
        >>> text = ["The cat sleeps."]
        >>> bool(np.allclose(encoder.encode(text), trimmed.encode(text), atol=1e-6))
        True
    """
    if not isinstance(encoder, Encoder):
        raise InputError(
            "Only an encoder's vocabulary can be trimmed. Received: "
            f"{type(encoder).__name__}. Trim the encoder, then export it."
        )
    a_list(texts=texts)
    counts = np.zeros(encoder.tokenizer.vocabulary_size, np.int64)
    for chunk in track(in_chunks(texts, CHUNK), what="Counting pieces", steps=CHUNK):
        read = [encoder.prefix + text for text in sentences(chunk)]
        rows = encoder.tokenizer.encode_plain(read)
        tokens = np.fromiter(chain.from_iterable(rows), np.int64)
        counts += np.bincount(tokens, minlength=len(counts))
    kept = choose_pieces(encoder.tokenizer, counts, keep, min_count)
    tokenizer = trim_tokenizer(encoder.tokenizer, kept)
    trimmed = encoder.with_config(tokenizer, origin="trim_vocabulary")
    weights = encoder.weights()
    weights[TABLE] = weights[TABLE][kept]
    trimmed.set_weights(weights, origin="the encoder")
    return trimmed


def trimming_report(
    encoder: Encoder, trimmed: Encoder, texts: Iterable[str]
) -> dict[str, Any]:
    """Compare an encoder before and after trimming on some texts.

    Args:
        encoder: Before.
        trimmed: After.
        texts: Sentences; those that the vocabulary was chosen by, or better others.

    Returns:
        `pieces_before`, `pieces_after`; `bytes_before`, `bytes_after` of weights and
        tokenizer; `texts`; `tokens_kept`, the share of the tokens before whose piece is
        still there; `texts_unchanged`, the share of texts that are split as before.

    Raises:
        InputError: There are no texts, or they have no tokens.

    Example:
        >>> encoder, texts = msd.testing.tiny_encoder(), ["The cat sleeps."]
        >>> trimmed = msd.trim_vocabulary(encoder, texts)
        >>> msd.trimming_report(encoder, trimmed, texts)["texts_unchanged"]
        1.0
    """
    before, after = encoder.tokenizer, trimmed.tokenizer
    new = {piece: number for number, piece in enumerate(after.pieces())}
    moved = [new.get(piece, -1) for piece in before.pieces()]
    count = tokens = kept = unchanged = 0
    for chunk in track(in_chunks(texts, CHUNK), what="Comparing pieces", steps=CHUNK):
        rows = zip(before.encode_plain(chunk), after.encode_plain(chunk), strict=True)
        for old, row in rows:
            expected = [moved[number] for number in old]
            count += 1
            tokens += len(old)
            kept += len(old) - expected.count(-1)
            unchanged += expected == row
    if not tokens:
        raise InputError(
            "`texts` must hold something to split into pieces. Received: none."
        )
    return {
        "pieces_before": before.vocabulary_size,
        "pieces_after": after.vocabulary_size,
        "bytes_before": cost(encoder)["bytes"] + len(before.definition),
        "bytes_after": cost(trimmed)["bytes"] + len(after.definition),
        "texts": count,
        "tokens_kept": round(kept / tokens, 6),
        "texts_unchanged": round(unchanged / count, 6),
    }
