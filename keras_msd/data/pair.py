"""Pairs of a sentence and its translation: corpora of them, normalisation, filters."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import InputError, at_least, utf8
from keras_msd.io.files import digest, file_digest

ENGLISH = "en"
CODE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4}|-[A-Z][A-Za-z]{1,3})?"
# Control characters end words; marks without width or meaning are removed. The joiners
# U+200C and U+200D stay: Persian, Indic scripts and emoji need them.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
TURNS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of a text
INVISIBLE = re.compile(f"[\u00ad\u200b\u2060\ufeff{TURNS}]")

GradedPair = tuple[float, str, str]  # how similar two sentences are, and both


class Pair(NamedTuple):
    """A text, its translation, and the language codes of the translation and the text.

    Example:
        >>> pair = msd.data.Pair("A house.", "Ein Haus.", "de")
        >>> pair.target, pair.language, pair.source_language
        ('Ein Haus.', 'de', 'en')
    """

    source: str
    target: str
    language: str
    source_language: str = ENGLISH


def language_pair(code: str) -> tuple[str, str]:
    """Return the languages of source and target that a code stands for.

    `fr` means English and French, `de-fr` German and French. If one of them is English,
    it is the source.
    """
    match = re.fullmatch(f"({CODE})-({CODE})", code)
    both = match.groups() if match else (ENGLISH, code)
    source, target = sorted(both, key=lambda one: one != ENGLISH)
    return source, target


def pair_code(source: str, target: str) -> str:
    """Return the code of two languages, as `language_pair` reads it."""
    return target if source == ENGLISH else f"{source}-{target}"


def languages_of_pairs(codes: Iterable[str]) -> list[str]:
    """Return the languages of pairs such as `fr` and `de-fr`, each once."""
    return list(dict.fromkeys(one for code in codes for one in language_pair(code)))


@dataclass(frozen=True)
class PairFile:
    """One corpus in one pair of languages; each file has its share of the draws.

    Attributes:
        name: Name in messages and reports, such as `news.en-de.tsv.gz`.
        language: Code of the language of the translations.
        iterate: Returns a new iterator over `(source, target)`; for an unreadable row,
            it yields the `InputError`.
        paths: The files; none for a corpus in memory.
        fingerprint: Hash of a corpus in memory; None if the content is in `paths`.
        source_language: Code of the language of the sources.

    Example:
        >>> rows = [("A house.", "Ein Haus.")]
        >>> file = msd.data.PairFile("own.en-de", "de", rows.__iter__, fingerprint="1")
        >>> list(msd.data.Pairs([file]))
        [Pair(source='A house.', target='Ein Haus.', language='de',
              source_language='en')]
    """

    name: str
    language: str
    iterate: Callable[[], Iterator[tuple[str, str] | InputError]] = field(repr=False)
    paths: tuple[Path, ...] = ()
    fingerprint: str | None = None
    source_language: str = ENGLISH

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of the languages of source and target."""
        return self.source_language, self.language

    def rows(
        self, skip: Callable[[InputError], None] | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yield `(source, target)` of each row.

        Args:
            skip: Function that is called with the error of each unreadable row; by
                default the error is raised.
        """
        for row in self.iterate():
            if not isinstance(row, InputError):
                yield row
            elif skip is None:
                raise row
            else:
                skip(row)

    def digest(self) -> str:
        """Return a hash of name, languages and content."""
        content = [self.fingerprint or "", *(file_digest(path) for path in self.paths)]
        return digest(self.name, *self.languages, *content)


class Pairs:
    """A corpus of any number of files, which can be iterated over several times.

    Args:
        files: One `PairFile` for each corpus and pair of languages, in reading order.

    Example:
        >>> pairs = msd.data.Pairs.from_list(msd.testing.tiny_pairs())
        >>> pairs.languages
        ['de', 'fr']
        >>> next(iter(pairs)).source
        'The cat sleeps on the chair.'
    """

    def __init__(self, files: Iterable[PairFile]) -> None:
        self.files = tuple(files)
        if not self.files:
            raise InputError("`pairs` must hold a pair. Received: none.")

    @classmethod
    def from_list(cls, pairs: Iterable[Pair]) -> "Pairs":
        """Return a corpus in memory, with one file per pair of languages.

        Args:
            pairs: `Pair`s or `(source, target, language)` tuples; if the source is not
                English, with its language as a fourth text.

        Raises:
            InputError: An item is not such a tuple of Unicode strings, or there is no
                item.
        """
        by_languages: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for index, pair in enumerate(pairs):
            texts = isinstance(pair, tuple) and all(isinstance(x, str) for x in pair)
            if not texts or len(pair) not in (3, 4):
                raise InputError(
                    "`pairs` must hold (source, target, language) of three strings, or "
                    "a fourth one, the source's language. "
                    f"Received: {pair!r:.80} at position {index}."
                )
            utf8("".join(pair), f"`pairs`, position {index}")
            source, target, language, of = Pair(*pair)
            by_languages.setdefault((of, language), []).append((source, target))
        return cls(
            PairFile(
                f"memory.{of}-{language}",
                language,
                rows.__iter__,
                fingerprint=digest(*chain.from_iterable(rows)),
                source_language=of,
            )
            for (of, language), rows in by_languages.items()
        )

    @property
    def languages(self) -> list[str]:
        """Codes of the language pairs, such as `de` or `de-fr`, in reading order."""
        return list(dict.fromkeys(pair_code(*file.languages) for file in self.files))

    def __iter__(self) -> Iterator[Pair]:
        for file in self.files:
            for source, target in file.rows():
                yield Pair(source, target, file.language, file.source_language)

    def digest(self) -> str:
        """Return a hash of the content of all files; it does not depend on folders."""
        return digest(*(file.digest() for file in self.files))


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
