"""Corpus readers: one format a module, one `Reader` each in the table `READERS`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keras_msd.checks import InputError
from keras_msd.registry import Record, Registry, read_records

if TYPE_CHECKING:
    from keras_msd.data.pair import PairFile

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
Read = Callable[..., Iterator[tuple[str, str]]]


@dataclass(frozen=True, kw_only=True)
class Reader(Record):
    """A format of parallel files: all that finding, opening and messages need.

    A function is given itself, or as its dotted path and imported on use.

    Attributes:
        name: What `format` calls it.
        suffixes: Ends of the names of its files, without the `.gz`, `.bz2`, `.xz` or
            `.zst` that each may have.
        read: From a file's path and the code of the translations' language to
            `(source, translation)` pairs. `readers.lines` has what opens plain and
            compressed files alike.
        language: From a path to the code that the file itself names, or None; for
            formats whose files can say it.
        languages: From a path to the codes of sources and translations that the file
            itself names, each of them or None; in place of `language`.
        claims: From a path, and the codes of sources and translations that were asked
            for, to whether a file of no suffix in the table is of this format; for
            formats whose suffix is a language.
        opens: From a path and the language that was asked for, or None, to the files
            of a corpus; for formats of several files.
        words: How messages put the format, where the suffixes do not say it.
        sources: Whether `read` takes the code of the sources' language as well, where
            it is not English; and `opens` the one that was asked for, or None.
        columns: Whether `read` takes `columns`, two names or numbers of columns.
        pair_names: Whether a name such as `app.pt-br.po` says two languages; not where
            it is one language and its region.
        skips: Whether `read` takes `dirty`, a `readers.lines.DirtyRows`, and goes on
            after a row that it skips.

    Raises:
        InputError: A part is empty, or a suffix has no point in front.

    Example:
        >>> from pathlib import Path
        >>> def read(path, language):
        ...     for line in path.read_text().splitlines():
        ...         yield tuple(line.split(" = "))
        >>> reader = msd.data.Reader(name="glossary", suffixes=(".gls",), read=read)
        >>> _ = msd.data.READERS.register(reader)
        >>> _ = Path("words.en-de.gls").write_text("house = Haus")
        >>> list(msd.data.read_pairs("words.en-de.gls"))
        [Pair(source='house', target='Haus', language='de', source_language='en')]
        >>> _ = msd.data.READERS.remove("glossary")
    """

    suffixes: tuple[str, ...]
    read: Read | str
    language: Callable[[Path], str | None] | str | None = None
    languages: Callable[[Path], tuple[str | None, str | None]] | str | None = None
    claims: Callable[[Path, tuple[str | None, str | None]], bool] | str | None = None
    opens: "Callable[..., list[PairFile]] | str | None" = None
    words: str = ""
    sources: bool = False
    columns: bool = False
    pair_names: bool = True
    skips: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(s.startswith(".") and s not in PACKED for s in self.suffixes):
            raise InputError(
                "`suffixes` must be a tuple of ends such as `.csv`, without the `.gz` "
                f"that each may have. Received: suffixes={self.suffixes!r} in the "
                f"record `{self.name}`."
            )


class Readers(Registry[Reader]):
    """The formats by name; a suffix belongs to one of them."""

    def register(self, record: Reader) -> Reader:
        """Add a reader, which comes last, and return it.

        Raises:
            InputError: As `Registry.register`; or a suffix is another reader's.
        """
        for other in self.values():
            shared = set(other.suffixes) & set(getattr(record, "suffixes", ()))
            if shared and other.name != record.name:
                raise InputError(
                    f"A suffix belongs to one reader. Received: `{min(shared)}` of "
                    f"`{record.name}`, which `{other.name}` reads. Leave it out, or "
                    f'`remove("{other.name}")` first.'
                )
        return super().register(record)

    def of_suffix(self, suffix: str) -> Reader | None:
        """Return the reader that has a suffix, None if none has."""
        return next((r for r in self.values() if suffix in r.suffixes), None)

    def words(self) -> str:
        """Return all that is known, for messages."""
        named = [suffix for r in self.values() if not r.words for suffix in r.suffixes]
        others = [reader.words for reader in self.values() if reader.words]
        packed = "each also .gz, .bz2, .xz or .zst, or in a .zip"
        return ", or ".join([f"{', '.join(named)} ({packed})", *others])


READERS = Readers(
    "format", *read_records(Reader, Path(__file__).with_name("readers.toml"))
)
