"""Graded similarity of made sentences: the gold score is computed from the meaning."""

from collections.abc import Sequence

from keras_msd.checks import at_least
from keras_msd.data.made.change import change
from keras_msd.data.made.draw import Draw
from keras_msd.data.made.lexicon import LANGUAGES
from keras_msd.data.made.meaning import Meaning, similarity
from keras_msd.data.made.pairs import check_languages, distinct
from keras_msd.data.made.render import render

Row = tuple[float, str, str]

# Each level in turn, so that the scale is covered evenly: (lowest, highest) gold.
LEVELS = ((4.5, 5.0), (3.4, 4.4), (2.2, 3.3), (1.1, 2.1), (1.0, 1.0), (0.0, 0.0))
TRIES = 500


def made_sts(
    count: int = 1000, languages: Sequence[str] = LANGUAGES, seed: int = 0
) -> dict[str, list[Row]]:
    """Make similarity rows of held-out sentences, aligned over languages.

    Args:
        count: Rows for each language.
        languages: Codes out of `LANGUAGES`; English is always made.
        seed: The same seed gives the same rows.

    Returns:
        Language code to rows `(gold, sentence 1, sentence 2)`, gold from 0 to 5. Row i
        has the same gold and the same two meanings in every language.

    Raises:
        InputError: A language is unknown, or `count` is not positive.
    """
    at_least(1, count=count)
    codes = ["en", *check_languages(languages)]
    rows: dict[str, list[Row]] = {code: [] for code in codes}
    draw = Draw(seed + 1, held_out=True)
    for first, _ in distinct(seed, held_out=True):
        made = len(rows["en"])
        if made == count:
            break
        second = _partner(first, LEVELS[made % len(LEVELS)], draw)
        if second is None:
            continue
        gold = similarity(first, second)
        for code in codes:
            rows[code].append((gold, render(first, code), render(second, code)))
    return rows


def _partner(first: Meaning, level: tuple[float, float], draw: Draw) -> Meaning | None:
    """Return another held-out meaning at `level`, None if no try was at it."""
    lowest, highest = level
    others = draw.meanings()
    for _ in range(TRIES):
        if highest <= 1.0:
            second = next(others)
        else:
            second = change(first, draw)
        held_out = any(entry.held_out for entry in second.entries())
        if held_out and lowest <= similarity(first, second) <= highest:
            if render(first, "en") != render(second, "en"):
                return second
    return None
