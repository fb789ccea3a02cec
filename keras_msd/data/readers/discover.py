"""From paths, folders and patterns to a corpus, and to the texts of some languages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from keras_msd.checks import InputError, existing_folder, nearest, one_of
from keras_msd.data.pair import ENGLISH, PairFile, Pairs, languages_of_pairs
from keras_msd.data.readers.formats import (
    READERS,
    Languages,
    Reader,
    known_formats,
    reader_name,
    reader_of,
    taken,
)
from keras_msd.data.readers.lines import (
    EXCEL,
    TO_CSV,
    is_english,
    languages_of,
    unpacked,
)
from keras_msd.data.readers.zip_files import ZipMember, is_zip
from keras_msd.files import digest
from keras_msd.remote import as_path, matching

FOLDER = re.compile(r"en-([a-z]{2,3})(?:-([a-z]{2,4}))?")
JSON = ".json"


def read_pairs(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    language: str | None = None,
    source_language: str | None = None,
    columns: Sequence[str | int] | None = None,
) -> Pairs:
    r"""Open parallel corpora; the sentences are read when the result is walked through.

    The language stands in the name, `<corpus>.en-<xx>.tsv.gz`, in the suffix of a
    Moses file, in a TMX, XLIFF, JSON Lines or gettext file itself, or in the name of
    its folder, such as `en-de`; otherwise give `language`. Sources are English, unless
    the name has a pair without it, `<corpus>.<xx>-<yy>.tsv.gz`, the file itself names
    another, or `source_language` does.

    Args:
        paths: A file, a folder or zip archive (its files; not those of folders inside a
            folder), a pattern such as `data/*.en-de.tsv.gz`, or a list of those; or a
            text that names one elsewhere, such as `s3://bucket/pairs`, `gs://...` and
            `hf://datasets/...`.
        format: A name in `READERS`; by default the suffix decides.
        language: Code of the translations' language, where no name says it; of
            several translations that lie beside an `x.en`, the one to read.
        source_language: Code of the sources' language, where it is not English and no
            name says it.
        columns: Which two columns of a table are source and translation, by name or by
            number from 1; for TSV, CSV, JSON Lines and parquet.

    Raises:
        InputError: Nothing is found, a format or language is not clear, a language
            contradicts a name or what the file says, a format has English sources
            alone or no columns, or a file is an Excel workbook.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("news.en-de.tsv").write_text("A house.\tEin Haus.\n")
        >>> list(msd.data.read_pairs("news.en-de.tsv"))
        [Pair(source='A house.', target='Ein Haus.', language='de',
              source_language='en')]
    """
    if format is not None:
        one_of(READERS, format=format)
    given = None if format is None else READERS[format]
    names = two_columns(columns)
    languages = (source_language, language)
    files: dict[tuple[Path, str], PairFile] = {}
    for path in expanded(paths, given, languages):
        reader = given or _reader_of(path, languages)
        for file in _opened(path, reader, language, source_language, names):
            files.setdefault((file.paths[0], file.language), file)
    return Pairs(files.values())


def two_columns(columns: Sequence[str | int] | None) -> list[str] | None:
    """Return the names or numbers of two columns as texts.

    Raises:
        InputError: There are not two different ones.
    """
    if columns is None:
        return None
    names = [] if isinstance(columns, str) else [str(column) for column in columns]
    if len(names) != 2 or names[0] == names[1]:
        raise InputError(
            "`columns` must be two names or numbers, of the sources and of the "
            f"translations. Received: columns={columns!r:.80}. Write "
            '`["text", "translation"]` or `[2, 3]`.'
        )
    return names


def _reader_of(path: Path, languages: Languages, named: bool = True) -> Reader | None:
    """Return the reader of a file; `named` is whether the user gave the file itself."""
    suffix = unpacked(path).suffix
    if suffix == JSON and not named:  # it may be anything
        return None
    return reader_of(path, languages, suffix)


def expanded(
    paths: str | Path | Iterable[str | Path],
    given: Reader | None = None,
    languages: Languages = (None, None),
) -> list[Path]:
    """Return the files that paths, folders and patterns stand for.

    Args:
        paths: As for `read_pairs`.
        given: The format; by default each file's suffix decides.
        languages: Codes of sources and translations that were asked for, or None.

    Raises:
        InputError: Nothing is found.
    """
    files: list[Path] = []
    for path in map(as_path, [paths] if isinstance(paths, str | Path) else paths):
        if path.suffix.lower() in EXCEL:
            raise InputError(
                f"`{path}` must be a text file. Received: an Excel workbook. {TO_CSV}"
            )
        if is_zip(path):
            path = ZipMember(path)
        if path.is_dir():
            here = [file for file in sorted(path.iterdir()) if file.is_file()]
            usable = [it for it in here if given or _reader_of(it, languages, False)]
            if not usable:
                raise InputError(
                    f"`{path}` holds no parallel corpus. Known: "
                    f"{known_formats()}. Files inside its folders are not looked for, "
                    "and a .json must be named."
                )
            files += usable
        elif path.exists():
            files.append(path)
        else:
            matches = matching(path)
            if not matches:
                raise InputError(
                    f"The corpus file `{path}` does not exist. Give the path of a file "
                    "or a folder, or a pattern that matches files."
                )
            files += matches
    if not files:
        raise InputError("`paths` must name a file. Received: an empty list.")
    return files


def _opened(
    path: Path,
    reader: Reader | None,
    language: str | None,
    source_language: str | None,
    columns: list[str] | None,
) -> list[PairFile]:
    if reader is None:
        raise InputError(
            f"`{path}`: the format is not clear from the name. Known: "
            f"{known_formats()}. Give `format` (`--format`), one of "
            f"{', '.join(READERS)}."
        )
    if columns and not reader.columns:
        raise InputError(
            f"`{path}`: `columns` are for tables. Received: columns={columns}, for a "
            f"file of the format `{reader_name(reader)}`. Leave `columns` out."
        )
    if not reader.sources and source_language not in (None, ENGLISH):
        raise InputError(
            f"`{path}`: sources of the format `{reader_name(reader)}` are English. "
            f"Received: source_language={source_language!r}. Write the pairs as TSV."
        )
    if reader.opens:
        return reader.opens(path, (source_language, language), taken())
    source, code = languages_of(path) or (None, None)
    if not (reader.sources and reader.pair_names) and source != ENGLISH:
        source = code = None  # `app.pt-br.po` is no pair without English
    _check_same("language", language, code, f"the name of `{path}`")
    _check_same("source_language", source_language, source, f"the name of `{path}`")
    source, code = source or source_language, code or language
    if reader.languages:
        first, second = reader.languages(path)
        first = ENGLISH if first and is_english(first) else first
        _check_same("source_language", source, first, f"`{path}`")
        source, code = source or first, code or second
    source = source or ENGLISH
    if code is None and reader.language and source == ENGLISH:
        code = reader.language(path)
    if code is None and reader.sources and source == ENGLISH:
        code = _language_of_folder(path)
    if code is None:
        raise InputError(
            f"`{path}`: the language is not clear. Name the file "
            f"`<corpus>.en-<xx>{reader.suffixes[0]}` or give `language` (`--language`)."
        )
    read = partial(reader.read, path, code)
    if source != ENGLISH:
        read = partial(read, source)
    if columns:
        read = partial(read, columns=columns)
    return [
        PairFile(
            path.name,
            code,
            read,
            (path,),
            fingerprint=digest("columns", *columns) if columns else None,
            source_language=source,
            skipping=read if reader.skips else None,
        )
    ]


def _language_of_folder(path: Path) -> str | None:
    """Return the language of a folder such as `en-de` or `en-pt-br`, as on the hub."""
    match = FOLDER.fullmatch(path.parent.name)
    return "_".join(filter(None, match.groups())) if match else None


def _check_same(key: str, given: str | None, said: str | None, where: str) -> None:
    """Raise `InputError` if a language is given and another one is found."""
    if given and said and given != said:
        raise InputError(
            f"`{key}` contradicts {where}. Received: {key}={given!r}, {said!r} there. "
            f"Leave `{key}` out, or rename or correct the file."
        )


class LanguageTexts:
    """Sentences as they stand in the files, read anew each time one walks through.

    English ones are taken from the corpora of the other languages asked for, and from
    all of them if English is the only one.

    Args:
        data_dir: Folder with `parallel/train/<corpus>.en-<xx>.tsv.gz`.
        languages: Codes of single languages, as in the names of the files.

    Raises:
        InputError: The folder or a language is not there.
    """

    def __init__(self, data_dir: str | Path, languages: Sequence[str]) -> None:
        folder = existing_folder(Path(data_dir) / "parallel" / "train", "data folder")
        pairs = read_pairs(folder)
        others = {*languages_of_pairs(pairs.languages)} - {ENGLISH}
        known = [ENGLISH, *sorted(others)]
        if isinstance(languages, str) or not languages:
            raise InputError(
                "`languages` must be a list of one code or more. Received: "
                f"{languages!r}. `{folder}` has {', '.join(known)}."
            )
        for code in languages:
            if code not in known:
                hint = nearest(str(code), known) or "Give one that is there."
                raise InputError(
                    f"`languages` must be among those of `{folder}`: "
                    f"{', '.join(known)}. Received: {code!r}. {hint}"
                )
        self.languages = frozenset(languages)
        asked = self.languages - {ENGLISH} or self.languages
        self.files = [file for file in pairs.files if asked & {*file.languages}]

    def __iter__(self) -> Iterator[str]:
        for file in self.files:
            codes = enumerate(file.languages)
            sides = [side for side, code in codes if code in self.languages]
            for pair in file.iterate():
                yield from (pair[side] for side in sides)
