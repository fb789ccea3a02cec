"""The formats of parallel files by name: `READERS`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.pair import PairFile
from keras_msd.data.readers import (
    csv_table,
    gettext,
    jsonl,
    moses,
    parquet,
    tmx,
    tsv,
    xliff,
)
from keras_msd.data.readers.lines import PACKERS

Languages = tuple[str | None, str | None]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A format of parallel files: all that finding, opening and messages need.

    Attributes:
        suffixes: Ends of the names of its files, without the `.gz`, `.bz2`, `.xz` or
            `.zst` that each may have. The reader that was added last comes first.
        read: From a file's path and the code of the translations' language to
            `(source, translation)` pairs. `readers.lines` has what opens plain and
            compressed files alike.
        language: From a path to the code that the file itself names, or None; for
            formats whose files can say it.
        languages: From a path to the codes of sources and translations that the file
            itself names, each of them or None; in place of `language`.
        claims: From a path, the codes of sources and translations that were asked for,
            and the suffixes of all readers, to whether a file of no such suffix is of
            this format; for formats whose suffix is a language.
        opens: From a path, the codes that were asked for and the suffixes of all
            readers, to the files of a corpus; for formats of several files.
        words: How messages put the format, where the suffixes do not say it.
        sources: Whether `read` takes the code of the sources' language as well, where
            it is not English.
        columns: Whether `read` takes `columns`, two names or numbers of columns.
        pair_names: Whether a name such as `app.pt-br.po` says two languages; not where
            it is one language and its region.
        skips: Whether `read` takes `dirty`, a `readers.lines.DirtyRows`, and goes on
            after a row that it skips.

    Raises:
        InputError: `suffixes` is no tuple of suffixes with a dot in front.

    Example:
        >>> from pathlib import Path
        >>> def read(path, language):
        ...     for line in path.read_text().splitlines():
        ...         yield tuple(line.split(" = "))
        >>> msd.data.READERS["glossary"] = msd.data.Reader(
        ...     suffixes=(".gls",), read=read
        ... )
        >>> _ = Path("words.en-de.gls").write_text("house = Haus")
        >>> list(msd.data.read_pairs("words.en-de.gls"))
        [Pair(source='house', target='Haus', language='de', source_language='en')]
        >>> del msd.data.READERS["glossary"]
    """

    suffixes: tuple[str, ...]
    read: Callable[..., Iterator[tuple[str, str]]]
    language: Callable[[Path], str | None] | None = None
    languages: Callable[[Path], Languages] | None = None
    claims: Callable[[Path, Languages, set[str]], bool] | None = None
    opens: Callable[[Path, Languages, set[str]], list[PairFile]] | None = None
    words: str = ""
    sources: bool = False
    columns: bool = False
    pair_names: bool = True
    skips: bool = False

    def __post_init__(self) -> None:
        ends = self.suffixes if isinstance(self.suffixes, tuple) else ()
        if not ends or not all(s.startswith(".") and s not in PACKERS for s in ends):
            raise InputError(
                "`suffixes` must be a tuple of ends such as `.csv`, without the `.gz` "
                f"that each may have. Received: suffixes={self.suffixes!r}."
            )


READERS = {
    "tsv": Reader(
        suffixes=(".tsv",), read=tsv.read, sources=True, columns=True, skips=True
    ),
    "tmx": Reader(
        suffixes=(".tmx",),
        read=tmx.read,
        language=tmx.first_language,
        sources=True,
        skips=True,
    ),
    "jsonl": Reader(
        suffixes=(".jsonl", ".ndjson", ".json"),
        read=jsonl.read,
        language=jsonl.first_language,
        sources=True,
        columns=True,
        skips=True,
    ),
    "csv": Reader(
        suffixes=(".csv",),
        read=csv_table.read,
        language=csv_table.first_language,
        sources=True,
        columns=True,
        skips=True,
    ),
    "parquet": Reader(
        suffixes=(".parquet",),
        read=parquet.read,
        language=parquet.first_language,
        sources=True,
        columns=True,
    ),
    "gettext": Reader(
        suffixes=(".po", ".mo"),
        read=gettext.read,
        languages=gettext.languages,
        sources=True,
        pair_names=False,
    ),
    "xliff": Reader(
        suffixes=(".xlf", ".xliff"),
        read=xliff.read,
        languages=xliff.languages,
        sources=True,
        skips=True,
    ),
    "moses": Reader(
        suffixes=(".en",),
        read=moses.read,
        claims=moses.claims,
        opens=moses.opened,
        words="two files `x.en` and `x.<language>`",
        sources=True,
    ),
}


def reader_name(reader: Reader) -> str:
    """Return the name that a reader has in `READERS`."""
    return next(name for name, it in READERS.items() if it is reader)


def reader_of(path: Path, languages: Languages, suffix: str) -> Reader | None:
    """Return the reader of a file by its suffix or by the files beside it, or None."""
    readers = list(READERS.values())[::-1]  # what a user adds comes first
    found = next((it for it in readers if suffix in it.suffixes), None)
    claimants = (it for it in readers if it.claims)
    return found or next(
        (it for it in claimants if it.claims(path, languages, taken())),  # type: ignore[misc]
        None,
    )


def taken() -> set[str]:
    """Return the suffixes of all readers of single files."""
    return {end for it in READERS.values() if not it.opens for end in it.suffixes}


def known_formats() -> str:
    """Return all that is known, for messages."""
    readers = READERS.values()
    named = [end for it in readers if not it.words for end in it.suffixes]
    packed = "each also .gz, .bz2, .xz or .zst, or in a .zip"
    others = [it.words for it in readers if it.words]
    return ", or ".join([f"{', '.join(named)} ({packed})", *others])
