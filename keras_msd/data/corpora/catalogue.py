"""The corpora that can be fetched: `catalogue.toml` and `checksums.tsv`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from keras_msd.checks import InputError, one_of
from keras_msd.files import read_toml

HERE = Path(__file__).parent
CODE = re.compile(r"[a-z]{2,3}(?:[_-][A-Za-z]{2,4})?")


@dataclass(frozen=True)
class RemoteFile:
    """A file at a corpus's home.

    Attributes:
        url: Its address.
        size: Bytes, None if not known before the home is asked.
        sha256: Checksum in hex, None if none is published.
    """

    url: str
    size: int | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        """Name in the folder of downloads."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Portion:
    """Files that are turned into TSV together.

    Attributes:
        languages: Our codes; one, unless the files serve all languages.
        code: The home's code of that one language, else an empty string.
        files: What must be fetched.
    """

    languages: tuple[str, ...]
    code: str
    files: tuple[RemoteFile, ...]


@dataclass(frozen=True)
class Corpus:
    """An entry of `catalogue.toml`, which explains the fields.

    Example:
        >>> from keras_msd.data.corpora import corpus
        >>> portion = corpus("europarl").portions(["de"])[0]
        >>> portion.files[0].name
        'de-en.txt.zip'
    """

    name: str
    title: str
    home: str
    licence: str
    converter: str
    urls: tuple[str, ...]
    note: str = ""
    checksums: str = "none published"
    languages: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    codes: dict[str, str] = field(default_factory=dict)

    def portions(self, languages: Iterable[str] | None) -> list[Portion]:
        """Return what must be fetched for some languages beside English.

        Args:
            languages: Our codes or the home's; None for all that the home has.

        Raises:
            InputError: A code is none or the home has no such language; or `languages`
                is None and the home's are not listed.
        """
        asked = list(dict.fromkeys(languages or ()))
        for code in asked:
            if not CODE.fullmatch(code):
                raise InputError(
                    "A language must be a code such as `de` or `pt_br`. Received: "
                    f"{code!r}."
                )
        if not any("{" in url for url in self.urls):
            return [Portion(tuple(asked), "", self._files(""))]
        asked = asked or list(self.languages)
        if not asked:
            raise InputError(
                f"`languages` must name those to fetch of `{self.name}`. Received: "
                "none. Give codes, for example: --languages de,fr"
            )
        if "en" not in self.always:  # English is the other half of every pair
            asked = [code for code in asked if code != "en"]
        codes = {code: self._home_code(code) for code in (*self.always, *asked)}
        if not codes:
            raise InputError(
                "`languages` must name one beside English, which every pair has. "
                "Received: en."
            )
        return [Portion((c,), home, self._files(home)) for c, home in codes.items()]

    def _home_code(self, code: str) -> str:
        home = self.codes.get(code, code)
        if self.languages and home not in self.languages:
            raise InputError(
                f"`{self.name}` has no `{code}`. It has: {', '.join(self.languages)}. "
                "Leave the language out."
            )
        return home

    def _files(self, code: str) -> tuple[RemoteFile, ...]:
        pair = "-".join(sorted(("en", code)))
        urls = [url.format(code=code, pair=pair) for url in self.urls]
        known = _checksums()
        return tuple(
            RemoteFile(url, *known.get(url.rpartition("/")[2], ())) for url in urls
        )


@cache
def corpora() -> dict[str, Corpus]:
    """Return every corpus of the catalogue by name.

    Example:
        >>> from keras_msd.data.corpora import corpora
        >>> "tatoeba" in corpora()
        True
    """
    entries = read_toml(HERE / "catalogue.toml")
    lists = ("urls", "languages", "always")
    return {
        name: Corpus(name, **entry | {k: tuple(entry.get(k, ())) for k in lists})
        for name, entry in entries.items()
    }


def corpus(name: str) -> Corpus:
    """Return the corpus of that name; raise `InputError` if there is none.

    Example:
        >>> from keras_msd.data.corpora import corpus
        >>> corpus("ted2020").licence
        'CC BY-NC-ND 4.0 (TED Talks Usage Policy): no commercial use'
    """
    one_of(corpora(), name=name)
    return corpora()[name]


@cache
def _checksums() -> dict[str, tuple[int, str]]:
    lines = (HERE / "checksums.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return {name: (int(size), checksum) for name, size, checksum in rows}
