"""Vocabularies with some of their pieces only, and which ones texts need."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_msd.checks import InputError, at_least
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.sentencepiece import parse, with_pieces

UNIGRAM_SPECIAL = 4  # `<s>`, `<pad>`, `</s>`, `<unk>`


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
    kept = _always_kept(tokenizer) | _needed_letters(tokenizer, counts)
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
