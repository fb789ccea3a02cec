"""A pair of sentences that mean the same, and a corpus of them that streams."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import InputError
from keras_msd.files import digest, file_digest


class Pair(NamedTuple):
    """An English text, its translation, and the translation's language code."""

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
        for index, one in enumerate(pairs):
            texts = isinstance(one, tuple) and all(isinstance(x, str) for x in one)
            if not texts or len(one) != 3:
                raise InputError(
                    "`pairs` must hold (source, target, language) of three strings. "
                    f"Received: {one!r:.80} at position {index}."
                )
            try:
                "".join(one).encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    "Texts must be Unicode. Received: half of a surrogate pair in "
                    f"{one!r:.80} at position {index}. Remove it."
                ) from error
            by_language.setdefault(one[2], []).append((one[0], one[1]))
        return cls(
            PairFile(f"memory.en-{code}", code, rows.__iter__, fingerprint=_hash(rows))
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


def _hash(rows: list[tuple[str, str]]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for row in rows:
        for text in row:
            data = text.encode()
            state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()
