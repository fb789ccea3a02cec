"""Prune the vocabulary of an encoder to the languages in use."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, a_list, at_least, sentences
from keras_msd.evaluate.measures import cost
from keras_msd.models.encoder import Encoder
from keras_msd.models.network import POSITION, WORD
from keras_msd.progress import track
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import parse, with_pieces

CHUNK = 1024  # texts tokenised at a time, so that any number fits in memory
UNIGRAM_SPECIAL = 4  # `<s>`, `<pad>`, `</s>`, `<unk>`


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
        encoder: Any encoder, also with a bottleneck; stays as it is.
        texts: Sentences of the languages to keep, walked through once. Each counts
            with every prompt of the encoder.
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
    encoder = getattr(encoder, "keras_encoder", encoder)
    if not isinstance(encoder, Encoder):
        raise InputError(
            "Only an encoder's vocabulary can be trimmed. Received: "
            f"{type(encoder).__name__}. Trim the encoder, then export it."
        )
    a_list(texts=texts)
    counts = np.zeros(encoder.tokenizer.vocabulary_size, np.int64)
    prompts = {*encoder.prompts.values(), encoder.default_prompt}
    for chunk in track(in_chunks(texts, CHUNK), what="Counting pieces", steps=CHUNK):
        read = [prompt + text for text in sentences(chunk) for prompt in prompts]
        rows = encoder.tokenizer.encode_plain(read)
        tokens = np.fromiter(chain.from_iterable(rows), np.int64)
        counts += np.bincount(tokens, minlength=len(counts))
    return keep_tokens(
        encoder, choose_pieces(encoder.tokenizer, counts, keep, min_count)
    )


def keep_tokens(encoder: Encoder, kept: Sequence[int]) -> Encoder:
    """Return an encoder that has only the tokens of some ids, see `trim_tokenizer`."""
    tokenizer = trim_tokenizer(encoder.tokenizer, kept)
    trimmed = encoder.with_config(tokenizer, origin="keep_tokens")
    weights = encoder.weights()
    weights[WORD] = weights[WORD][kept]
    trimmed.set_weights(weights, origin="the encoder")
    return trimmed


def cut_positions(encoder: Encoder, max_length: int) -> Encoder:
    """Return an encoder that reads at most `max_length` tokens of a text.

    Vectors of texts that are not longer stay the same. An encoder that already has no
    more positions is returned as it is.
    """
    if encoder.config.max_length <= max_length:
        return encoder
    lengths: dict[str, Any] = {"max_length": max_length, "max_positions": max_length}
    cut = encoder.with_config(origin="cut_positions", **lengths)
    weights = encoder.weights()
    rows = cut.config.position_offset + max_length
    weights[POSITION] = weights[POSITION][:rows]
    cut.set_weights(weights, origin="the encoder")
    return cut


def restore_vocabulary(encoder: Encoder, whole: Encoder) -> Encoder:
    """Put back the tokens that `trim_vocabulary` took out, also after more training.

    The result has the tokenizer of `whole`. Tokens that `encoder` has keep its
    embeddings, all others get those of `whole`, and everything else is `encoder`'s. A
    text that both tokenizers split in the same way keeps its vector.

    Args:
        encoder: An encoder with a part of the tokens of `whole`; it is not changed.
        whole: An encoder whose embedding table is as wide; it is not changed.

    Raises:
        InputError: The widths differ, or `encoder` has tokens that `whole` lacks.

    Example:
        >>> whole = msd.testing.tiny_encoder()
        >>> trimmed = msd.trim_vocabulary(whole, ["The cat sleeps."])
        >>> restored = msd.models.restore_vocabulary(trimmed, whole)
        >>> restored.tokenizer.vocabulary_size == whole.tokenizer.vocabulary_size
        True
    """
    known, rows = _table(whole.tokenizer), encoder.tokenizer.pieces()
    given, weights = whole.weights(), encoder.weights()
    widths = [it[WORD].shape[1] for it in (weights, given)]
    foreign = [token for token in rows if token not in known]
    if widths[0] != widths[1] or foreign:
        raise InputError(
            "A vocabulary is restored from an encoder with all of its tokens, in an "
            f"embedding table of the same width. Received: widths {widths[0]} and "
            f"{widths[1]}, {len(foreign)} tokens that are not there. Give the encoder "
            "whose vocabulary was trimmed."
        )
    restored = encoder.with_config(whole.tokenizer, origin="restore_vocabulary")
    table = given[WORD][: restored.config.vocabulary_size].copy()
    table[[known[token] for token in rows]] = weights[WORD][: len(rows)]
    restored.set_weights(weights | {WORD: table}, origin="the encoder")
    return restored


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


def _always_kept(tokenizer: Any) -> set[int]:
    """Return the ids of special pieces, and what else a vocabulary needs.

    Unigram: the least and the most likely piece. An unknown character costs a fixed
    amount more than the least likely one.

    Raises:
        InputError: The tokenizer is of a kind that cannot lose pieces.
    """
    if tokenizer.kind == "unigram":
        pieces = parse(tokenizer.definition).pieces
        likelihoods, kept = {}, set(range(UNIGRAM_SPECIAL))
        for number, piece in enumerate(pieces, 1):  # ours are one more
            if piece.type == piece.NORMAL:
                likelihoods[number] = piece.score
            elif piece.type != piece.UNUSED:
                kept.add(number)
        order = sorted(likelihoods, key=likelihoods.__getitem__)
        return kept.union(order[:1], order[-1:])
    if tokenizer.kind == "wordpiece":
        content, table = json.loads(tokenizer.definition), _table(tokenizer)
        special = {tokenizer.pad_id, *tokenizer.start_ids}
        special |= {*tokenizer.end_ids, tokenizer.unknown_id}
        return special | {table[t["content"]] for t in content["added_tokens"]}
    raise InputError(
        "A vocabulary that loses pieces must be of kind unigram or wordpiece. "
        f"Received: {tokenizer.kind}. Keep the whole vocabulary."
    )


def _table(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(tokenizer.pieces())}


def _definition(tokenizer: Any, kept: Sequence[int]) -> bytes:
    """Return the `definition` of a tokenizer that has only the pieces of `kept`."""
    if tokenizer.kind == "unigram":
        proto = parse(tokenizer.definition)
        rest = (it - 1 for it in kept if it >= UNIGRAM_SPECIAL)
        rows = [*range(UNIGRAM_SPECIAL - 1), *rest]
        return with_pieces(proto, [proto.pieces[row] for row in rows])
    content: dict[str, Any] = json.loads(tokenizer.definition)
    pieces = tokenizer.pieces()
    table = {pieces[old]: new for new, old in enumerate(kept)}
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {p: table[p] for p in vocabulary if p in table}
    for token in content["added_tokens"]:
        token["id"] = table[token["content"]]
    # It adds start and end by id, which `Tokenizer.encode` does itself.
    content["post_processor"] = None
    return json.dumps(content, ensure_ascii=False).encode()


def choose_pieces(
    tokenizer: Tokenizer,
    counts: np.ndarray,
    keep: int | float | None = None,
    min_count: int = 1,
) -> list[int]:
    """Return the ids to keep, ascending.

    Always kept: special pieces; every single character of the pieces that occur, so
    that what replaces a removed piece is spelled and not unknown; and pieces that occur
    and have a character without a piece of its own. Then the most frequent pieces, of
    equally frequent ones those of the lower id.

    Args:
        tokenizer: Has the vocabulary.
        counts: int `(vocabulary_size,)`, how often each id occurs in the texts.
        keep: How many pieces there may be, all told; or the share of the texts' tokens,
            in (0, 1], that the kept ones have to make up; None for no limit.
        min_count: A piece that occurs less often is only kept if it must be.

    Raises:
        InputError: `keep` or `min_count` does not fit, or `counts` is all zeros.
    """
    at_least(1, min_count=min_count)
    share = isinstance(keep, float) and 0 < keep <= 1
    number = isinstance(keep, int) and not isinstance(keep, bool) and keep >= 1
    if not (keep is None or share or number):
        raise InputError(
            "`keep` must be a number of pieces from 1 on (an int), a share of the "
            "tokens above 0 and up to 1.0 (a float), or None. Received: "
            f"keep={keep!r}."
        )
    total, most = int(counts.sum()), int(counts.max(initial=0))
    if not total:
        raise InputError(
            "The texts must hold something to split into pieces. Received: no texts, "
            "or only empty ones. Give sentences of the languages to keep."
        )
    if min_count > most:
        raise InputError(
            f"`min_count` must be at most {most}, what the most frequent piece has. "
            f"Received: min_count={min_count}. With it nothing would be left."
        )
    kept = needed_tokens(tokenizer, counts)
    goal = total * keep if isinstance(keep, float) else np.inf
    room = keep if isinstance(keep, int) else len(counts)
    if room < len(kept):
        raise InputError(
            f"`keep` must be at least {len(kept)}: special pieces and the characters "
            f"of the texts need so many. Received: keep={keep}."
        )
    covered = int(counts[list(kept)].sum())
    candidates = np.flatnonzero(counts >= min_count)
    for number in candidates[np.argsort(-counts[candidates], kind="stable")]:
        if number in kept:
            continue
        if covered >= goal or len(kept) == room:
            break
        kept.add(int(number))
        covered += int(counts[number])
    return sorted(kept)


def needed_tokens(tokenizer: Tokenizer, counts: np.ndarray) -> set[int]:
    """Return the ids that a vocabulary needs for some texts.

    These are the special tokens; every single character of the tokens that occur; and
    tokens that occur and have a character without a token of its own.

    Args:
        tokenizer: Has the vocabulary.
        counts: int `(vocabulary_size,)`, how often each id occurs in the texts.
    """
    return _always_kept(tokenizer) | _needed_letters(tokenizer, counts)


def _needed_letters(tokenizer: Any, counts: np.ndarray) -> set[int]:
    pieces, table, prefix = tokenizer.pieces(), _table(tokenizer), ""
    if tokenizer.kind == "wordpiece":  # "##" in BERT, before a piece inside a word
        prefix = tokenizer.backend.model.continuing_subword_prefix
    kept: set[int] = set()
    characters: set[str] = set()
    for number in np.flatnonzero(counts).tolist():
        if number == tokenizer.unknown_id:
            continue
        text = pieces[number].removeprefix(prefix)
        inside = len(text) < len(pieces[number])
        spelling = [
            prefix * (inside or at > 0) + letter for at, letter in enumerate(text)
        ]
        characters.update(text)
        if not all(piece in table for piece in spelling):
            kept.add(number)
    # "##a" may open a word in the next text, and "a" stand inside one.
    forms = {start + letter for letter in characters for start in ("", prefix)}
    return kept | {table[form] for form in forms if form in table}


def trim_tokenizer(tokenizer: Tokenizer, kept: Sequence[int]) -> Tokenizer:
    """Return a tokenizer of the same kind that has only the pieces of some ids.

    A text that `tokenizer` splits into kept pieces is split in the same way. Unigram:
    the likeliest of all splits is still there and still the likeliest. WordPiece: the
    longest match at each place is still the longest.

    Args:
        tokenizer: Stays as it is.
        kept: Ids in ascending order, as `choose_pieces` returns them, with all that the
            kind always keeps. The piece of the k-th of them gets the id k, counted from
            0.

    Raises:
        InputError: `kept` is in another order, or lacks some that are always kept.
    """
    if list(kept) != sorted(_always_kept(tokenizer).union(kept)):
        raise InputError(
            "`kept` must be ascending ids, each once, with all that a vocabulary of "
            f"kind {tokenizer.kind} always keeps. Received: {len(kept)} ids. Take them "
            "from `choose_pieces`."
        )
    return type(tokenizer).from_definition(
        _definition(tokenizer, kept), tokenizer.settings, "the trimmed vocabulary"
    )
