"""Which pieces of a vocabulary some texts need, from how often each occurs."""

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.trim import always_kept, derivation
from keras_msd.tokenizers.wordpiece import WordPieceTokenizer


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
    checks.at_least(1, min_count=min_count)
    _check_keep(keep)
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
    kept = always_kept(tokenizer) | _needed_letters(tokenizer, counts)
    goal = total * keep if isinstance(keep, float) else np.inf
    room = keep if isinstance(keep, int) else len(counts)
    if room < len(kept):
        raise InputError(
            f"`keep` must be at least {len(kept)}: special pieces and the characters "
            f"of the texts need so many. Received: keep={keep}."
        )
    parts = derivation(tokenizer)
    covered = int(counts[list(kept)].sum())
    candidates = np.flatnonzero(counts >= min_count)
    for number in candidates[np.argsort(-counts[candidates], kind="stable")]:
        group = {int(number), *parts(int(number))} - kept
        if covered >= goal or len(kept) + len(group) > room:
            break
        kept |= group
        covered += int(counts[list(group)].sum())
    return sorted(kept)


def _check_keep(keep: int | float | None) -> None:
    if keep is None:
        return
    share = isinstance(keep, float) and 0 < keep <= 1
    number = isinstance(keep, int) and not isinstance(keep, bool) and keep >= 1
    if not (share or number):
        raise InputError(
            "`keep` must be a number of pieces from 1 on (an int), a share of the "
            "tokens above 0 and up to 1.0 (a float), or None. Received: "
            f"keep={keep!r}."
        )


def _needed_letters(tokenizer: Tokenizer, counts: np.ndarray) -> set[int]:
    pieces = tokenizer.pieces()
    table = {piece: number for number, piece in enumerate(pieces)}
    prefix = ""
    if isinstance(tokenizer, WordPieceTokenizer):
        prefix = tokenizer.backend.model.continuing_subword_prefix
    kept: set[int] = set()
    characters: set[str] = set()
    for number in np.flatnonzero(counts).tolist():
        if number == tokenizer.unknown_id:
            continue
        text = pieces[number].removeprefix(prefix)
        inside = len(text) < len(pieces[number])
        spelling = [prefix * (inside or at > 0) + one for at, one in enumerate(text)]
        characters.update(text)
        if not all(one in table for one in spelling):
            kept.add(number)
    # "##a" may open a word in the next text, and "a" stand inside one.
    forms = {start + one for one in characters for start in ("", prefix)}
    return kept | {table[one] for one in forms if one in table}
