"""Tuning half and reporting half of an evaluation set.

Only the English text decides the half of a pair, so it is the same in every language.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, Literal, get_args

from keras_msd.checks import InputError, one_of

WHOLE: Final = "all"
CHOOSE: Final = "choose"
REPORT: Final = "report"
Part = Literal["all", "choose", "report"]
PARTS = get_args(Part)


def named(part: str) -> dict[str, str]:
    """Return `part` as a keyword argument; nothing for the whole set."""
    return {} if part == WHOLE else {"part": part}


def half_of(text: str) -> str:
    """Return the half of an English sentence: "choose" or "report".

    The half is "choose" if the first byte of the SHA-256 of the text (NFC, stripped,
    UTF-8) is even, and "report" if it is odd.
    """
    first = hashlib.sha256(_plain(text).encode()).digest()[0]
    return REPORT if first % 2 else CHOOSE


def halves(pairs: Iterable[Sequence[str]]) -> list[str]:
    """Return the half of each pair of English sentences; no sentence is in both.

    Pairs that share a sentence, directly or through other pairs, are in one half. It is
    the half of their smallest sentence, by code points.
    """
    smaller: dict[str, str] = {}  # a smaller linked sentence, or the sentence itself

    def smallest(text: str) -> str:
        while (below := smaller.setdefault(text, text)) != text:
            smaller[text] = smaller[below]  # a shortcut for the next search
            text = smaller[text]
        return text

    pairs = [(_plain(first), _plain(second)) for first, second in pairs]
    for pair in pairs:
        low, high = sorted(map(smallest, pair))
        smaller[high] = low
    return [half_of(smallest(first)) for first, _ in pairs]


def rows_of(part: str, of: Iterable[str], what: str) -> list[int]:
    """Return the rows of a part.

    Args:
        part: "all", "choose" or "report".
        of: The half of each row.
        what: Name of the rows, for the error message.

    Raises:
        InputError: There is no such part, or it has no row.
    """
    one_of(PARTS, part=part)
    rows = [row for row, half in enumerate(of) if part in (WHOLE, half)]
    if not rows:
        raise InputError(
            f"{what} must have a pair in the half that is scored. Received: none in "
            f"{part!r}. Add pairs, or score all of them."
        )
    return rows


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()
