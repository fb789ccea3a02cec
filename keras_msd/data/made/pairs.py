"""Parallel sentences of the made corpus."""

from collections.abc import Iterator, Sequence

from keras_msd.checks import InputError, at_least, one_of
from keras_msd.data.made.draw import Draw
from keras_msd.data.made.lexicon import LANGUAGES
from keras_msd.data.made.meaning import Meaning
from keras_msd.data.made.render import render
from keras_msd.data.pair import Pair

SPLITS = ("train", "dev")
MOST = 100_000  # sentences; the grammar has many more, yet repeats get frequent


def made_pairs(
    count: int = 40_000,
    languages: Sequence[str] = LANGUAGES,
    seed: int = 0,
    split: str = "train",
) -> list[Pair]:
    """Make translated sentence pairs.

    The English lines are distinct, are the same for any choice of languages, and line i
    is translated into every language before line i + 1 follows; a smaller `count` gives
    the beginning of a larger one.

    Args:
        count: Pairs in total, spread evenly over the languages.
        languages: Codes out of `LANGUAGES`.
        seed: The same seed gives the same pairs.
        split: `train`, or `dev`, whose sentences have templates that training never
            has, and at least one held-out word each.

    Returns:
        `count` pairs.

    Raises:
        InputError: A language or a split is unknown, or `count` is not positive or
            needs more than 100,000 English sentences.
    """
    languages = check_languages(languages)
    at_least(1, count=count)
    one_of(SPLITS, split=split)
    lines = -(-count // len(languages))
    if lines > MOST:
        raise InputError(
            f"`count` must be at most {MOST * len(languages)} for {len(languages)} "
            f"languages: {MOST} sentences each. Received: count={count}."
        )
    pairs: list[Pair] = []
    for meaning, english in distinct(seed, held_out=split == "dev"):
        for language in languages:
            pairs.append(Pair(english, render(meaning, language), language))
            if len(pairs) == count:
                return pairs
    return pairs


def distinct(seed: int, held_out: bool) -> Iterator[tuple[Meaning, str]]:
    """Yield meanings with their English sentence, each sentence once."""
    seen: set[str] = set()
    for meaning in Draw(seed, held_out).meanings():
        english = render(meaning, "en")
        if english not in seen:
            seen.add(english)
            yield meaning, english


def check_languages(languages: Sequence[str]) -> list[str]:
    """Return the codes once each, in the given order; raise if one is unknown."""
    codes = list(dict.fromkeys(languages))
    if not codes:
        raise InputError(
            f"`languages` must name at least one of {', '.join(LANGUAGES)}. "
            "Received: none."
        )
    for language in codes:
        one_of(LANGUAGES, languages=language)
    return codes
