"""Unicode normalisation of texts and filters that drop doubtful pairs."""

import re
import unicodedata
from dataclasses import dataclass

from keras_msd.checks import InputError, at_least

# Control characters end words; marks without width or meaning are removed. The joiners
# U+200C and U+200D stay: Persian, Indic scripts and emoji need them.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
TURNS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of a text
INVISIBLE = re.compile(f"[\u00ad\u200b\u2060\ufeff{TURNS}]")


def normalize(text: str) -> str:
    r"""Return `text` in Unicode NFC, with one space between words and none around.

    Control characters count as spaces; soft hyphens, zero-width spaces, word joiners,
    byte order marks and marks that turn the direction are removed. The result
    normalised again is the same.

    Example:
        >>> msd.data.normalize("Cafe\u0301 au\t\u200blait ")
        'Café au lait'
    """
    return " ".join(unicodedata.normalize("NFC", visible(text)).split())


def visible(text: str) -> str:
    """Return `text` without invisible marks, with blanks for control characters."""
    return INVISIBLE.sub("", CONTROLS.sub(" ", text))


@dataclass(frozen=True)
class Cleaning:
    """Filters of pairs. A kept pair passes all of them; both texts are normalised.

    Attributes:
        min_chars: Minimum number of characters of each text.
        max_chars: Maximum number of characters of each text; None for any.
        max_words: Maximum number of words of each text, split at spaces; None for any.
        max_ratio: Maximum ratio of the lengths in UTF-8 bytes. A Chinese character has
            three bytes and means about as much as three Latin letters, so one limit
            fits all scripts.
        ratio_from: The ratio is checked only if the longer text has so many bytes.

    Example:
        >>> cleaning = msd.data.Cleaning(max_words=3)
        >>> cleaning.reason("This is a house.", "Das ist ein Haus.")
        'long'
        >>> cleaning.reason("A house.", "Ein Haus.") is None
        True
    """

    min_chars: int = 1
    max_chars: int | None = 2000
    max_words: int | None = 250
    max_ratio: float = 5.0
    ratio_from: int = 60

    def __post_init__(self) -> None:
        at_least(1, min_chars=self.min_chars, max_words=self.max_words)
        at_least(1, max_ratio=self.max_ratio)
        at_least(0, ratio_from=self.ratio_from)
        if self.max_chars is not None and self.max_chars < self.min_chars:
            raise InputError(
                "`max_chars` must be at least `min_chars`. Received: "
                f"max_chars={self.max_chars}, min_chars={self.min_chars}."
            )

    def reason(self, source: str, target: str) -> str | None:
        """Return why a pair of normalised texts is dropped, None if it is kept.

        Returns:
            `empty`, `short`, `long`, `ratio` or None.
        """
        chars = len(source), len(target)
        if min(chars) == 0:
            return "empty"
        if min(chars) < self.min_chars:
            return "short"
        if self.max_chars is not None and max(chars) > self.max_chars:
            return "long"
        words = 1 + max(source.count(" "), target.count(" "))
        if self.max_words is not None and words > self.max_words:
            return "long"
        short, long = sorted((len(source.encode()), len(target.encode())))
        if long >= self.ratio_from and long > self.max_ratio * short:
            return "ratio"
        return None
