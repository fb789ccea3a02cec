"""A pair of sentences that mean the same, and a corpus of them that streams."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import InputError, utf8
from keras_msd.files import digest, file_digest


class Pair(NamedTuple):
    """An English text, its translation, and the translation's language code.

    Example:
        >>> pair = msd.data.Pair("A house.", "Ein Haus.", "de")
        >>> pair.target, pair.language
        ('Ein Haus.', 'de')
    """

    source: str
    target: str
    language: str


@dataclass(frozen=True)
class PairFile:
    """One corpus in one language; sampling gives every file its share.

    Attributes:
        name: What messages and reports call it, such as `news.en-de.tsv.gz`.
        language: Code of the language that is not English.
        iterate: Gives a fresh iterator over `(source, target)` at each call.
        paths: The files read, none for a corpus in memory.
        fingerprint: Hash of a corpus in memory; None where `paths` have the content.

    Example:
        >>> rows = [("A house.", "Ein Haus.")]
        >>> file = msd.data.PairFile("own.en-de", "de", rows.__iter__, fingerprint="1")
        >>> list(msd.data.Pairs([file]))
        [Pair(source='A house.', target='Ein Haus.', language='de')]
    """

    name: str
    language: str
    iterate: Callable[[], Iterator[tuple[str, str]]] = field(repr=False)
    paths: tuple[Path, ...] = ()
    fingerprint: str | None = None

    def digest(self) -> str:
        """Return a hash of name, language and content."""
        content = [self.fingerprint or "", *(file_digest(path) for path in self.paths)]
        return digest(self.name, self.language, *content)


class Pairs:
    """A corpus: any number of files, walked through as often as one likes.

    Args:
        files: One `PairFile` per corpus and language, in reading order.

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
        """Keep pairs in memory, as one file per language.

        Args:
            pairs: `Pair`s or `(source, target, language)` tuples.

        Raises:
            InputError: An item is no triple of Unicode strings, or there is none.
        """
        by_language: dict[str, list[tuple[str, str]]] = {}
        for index, pair in enumerate(pairs):
            texts = isinstance(pair, tuple) and all(isinstance(x, str) for x in pair)
            if not texts or len(pair) != 3:
                raise InputError(
                    "`pairs` must hold (source, target, language) of three strings. "
                    f"Received: {pair!r:.80} at position {index}."
                )
            utf8("".join(pair), f"`pairs`, position {index}")
            by_language.setdefault(pair[2], []).append((pair[0], pair[1]))
        return cls(
            PairFile(
                f"memory.en-{code}",
                code,
                rows.__iter__,
                fingerprint=digest(*chain.from_iterable(rows)),
            )
            for code, rows in by_language.items()
        )

    @property
    def languages(self) -> list[str]:
        """Language codes, each once, in reading order."""
        return list(dict.fromkeys(file.language for file in self.files))

    def __iter__(self) -> Iterator[Pair]:
        for file in self.files:
            for source, target in file.iterate():
                yield Pair(source, target, file.language)

    def digest(self) -> str:
        """Return a hash of the content of all files, wherever they lie."""
        return digest(*(file.digest() for file in self.files))
