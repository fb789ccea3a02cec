"""A tokenizer with some of its pieces only, and which of them it cannot do without."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from keras_msd.checks import InputError
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.bytepair import BytePairTokenizer
from keras_msd.tokenizers.rebuild import parse
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer

_UNIGRAM_SPECIAL = 4  # `<s>`, `<pad>`, `</s>`, `<unk>`


def always_kept(tokenizer: Tokenizer) -> set[int]:
    """Return the ids without which other texts would be split differently.

    Special pieces in every kind. Unigram: also the least and the most likely piece, as
    an unknown character costs a fixed amount more than the former. Byte pairs: also
    every single byte, so that nothing becomes unknown.

    Raises:
        InputError: The tokenizer marks pieces inside or at the end of a word.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        return _unigram_always(tokenizer)
    table = {piece: number for number, piece in enumerate(tokenizer.pieces())}
    content = json.loads(tokenizer.definition)
    kept = {table[token["content"]] for token in content["added_tokens"]}
    kept |= {tokenizer.pad_id, tokenizer.start_id}
    kept |= {tokenizer.end_id, tokenizer.unknown_id}
    if isinstance(tokenizer, BytePairTokenizer):
        for mark in ("continuing_subword_prefix", "end_of_word_suffix"):
            if content["model"].get(mark):
                raise InputError(
                    f"Only byte pairs without `{mark}` can be trimmed. Received: "
                    f"{content['model'][mark]!r}. Keep the whole vocabulary."
                )
        kept |= {number for piece, number in table.items() if len(piece) == 1}
    return kept


def derivation(tokenizer: Tokenizer) -> Callable[[int], set[int]]:
    """Return a function from an id to the ids that must be kept with it.

    A byte-pair piece is made by merges, each of which makes a piece. Merges inside a
    piece happen in the same order whatever stands around it, because none of them
    crosses its border. Pieces of other kinds need no others.
    """
    if not isinstance(tokenizer, BytePairTokenizer):
        return lambda number: set()
    pieces = tokenizer.pieces()
    table = {piece: number for number, piece in enumerate(pieces)}
    merges = json.loads(tokenizer.definition)["model"]["merges"]
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    return lambda number: {table[part] for part in _merged(pieces[number], ranks)}


def trim_tokenizer(tokenizer: Tokenizer, kept: Sequence[int]) -> Tokenizer:
    """Return a tokenizer of the same kind that has only the pieces of some ids.

    A text that `tokenizer` splits into kept pieces is split in the same way. Unigram:
    the likeliest of all splits is still there and still the likeliest. WordPiece: the
    longest match at each place is still the longest. Byte pairs: the merge of the
    lowest rank at each step is still the lowest.

    Args:
        tokenizer: Stays as it is.
        kept: Ids in ascending order, with all of `always_kept` and of `derivation`.
            The piece of the k-th of them gets the id k, counted from 0.

    Raises:
        InputError: `kept` is in another order, or lacks some of `always_kept`.
    """
    if list(kept) != sorted(always_kept(tokenizer).union(kept)):
        raise InputError(
            "`kept` must be ascending ids, each once, with all that `always_kept` "
            f"returns. Received: {len(kept)} ids. Take them from `choose_pieces`."
        )
    if isinstance(tokenizer, SentencePieceTokenizer):
        definition = _unigram_part(tokenizer, kept)
    else:
        definition = _backend_part(tokenizer, kept)
    return type(tokenizer).from_definition(
        definition, tokenizer.settings, "the trimmed vocabulary"
    )


def _unigram_always(tokenizer: SentencePieceTokenizer) -> set[int]:
    pieces = parse(tokenizer.definition).pieces
    kept = set(range(_UNIGRAM_SPECIAL))
    if not pieces:
        return kept
    types = type(pieces[0])
    normal = [
        number for number, piece in enumerate(pieces) if piece.type == types.NORMAL
    ]
    normal.sort(key=lambda number: pieces[number].score)
    kept |= {number + 1 for number in normal[:1] + normal[-1:]}
    trimmable = (types.NORMAL, types.UNUSED)
    return kept | {
        number + 1
        for number, piece in enumerate(pieces)
        if number >= _UNIGRAM_SPECIAL - 1 and piece.type not in trimmable
    }


def _unigram_part(tokenizer: SentencePieceTokenizer, kept: Sequence[int]) -> bytes:
    proto = parse(tokenizer.definition)
    # A fresh model, because a published one may carry examples of how all of its pieces
    # split a text, which TensorFlow's operation tries when it loads.
    trimmed = type(proto)()
    trimmed.pieces.extend(proto.pieces[: _UNIGRAM_SPECIAL - 1])
    trimmed.pieces.extend(
        proto.pieces[number - 1] for number in kept if number >= _UNIGRAM_SPECIAL
    )
    for part in ("trainer_spec", "normalizer_spec", "denormalizer_spec"):
        if proto.HasField(part):
            getattr(trimmed, part).CopyFrom(getattr(proto, part))
    trimmed.trainer_spec.vocab_size = len(trimmed.pieces)
    return trimmed.SerializeToString(deterministic=True)


def _backend_part(tokenizer: Tokenizer, kept: Sequence[int]) -> bytes:
    content: dict[str, Any] = json.loads(tokenizer.definition)
    pieces = tokenizer.pieces()
    table = {pieces[old]: new for new, old in enumerate(kept)}
    model = content["model"]
    model["vocab"] = {piece: table[piece] for piece in model["vocab"] if piece in table}
    if "merges" in model:
        model["merges"] = [
            pair
            for pair in model["merges"]
            if all(part in table for part in (*pair, "".join(pair)))
        ]
    for token in content["added_tokens"]:
        token["id"] = table[token["content"]]
    # It adds start and end by id, which `Tokenizer.encode` does itself.
    content["post_processor"] = None
    return json.dumps(content, ensure_ascii=False).encode()


def _merged(piece: str, ranks: dict[tuple[str, ...], int]) -> Iterator[str]:
    """Yield what each merge makes while single characters become `piece`."""
    parts = list(piece)
    while True:
        found = [
            (ranks[pair], place)
            for place, pair in enumerate(pairwise(parts))
            if pair in ranks
        ]
        if not found:
            return
        place = min(found)[1]
        parts[place : place + 2] = ["".join(parts[place : place + 2])]
        yield parts[place]
