"""Readers of parallel files: the files of a corpus, found and opened.

Two files with equally many lines, `x.en` and `x.<language>`, are in the format of Moses
and OPUS. Without English, their names contain the pair, as in `x.de-fr.de` and
`x.de-fr.fr`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from keras_msd.checks import InputError, existing_folder, one_of
from keras_msd.data.languages import check_code
from keras_msd.data.pair import CODE, ENGLISH, PairFile, Pairs, languages_of_pairs
from keras_msd.data.readers import tables, tmx
from keras_msd.data.readers.lines import (
    TO_CSV,
    ZipMember,
    is_english,
    is_zip,
    languages_of,
    read_lines,
    unpacked,
)
from keras_msd.io.files import digest
from keras_msd.io.remote import as_path, glob_files

FOLDER = re.compile(r"en-([a-z]{2,3})(?:-([a-z]{2,4}))?")
JSON = ".json"
FIRST = 10_000  # pairs of a file that are looked at before slow work
ENOUGH = 5  # English sentences on the wrong side that are no accident
REPEATED = 20  # rows of each different text, on average, that are no translations
SAME = 0.9  # share of rows with equal sides, above which none are translations
# Frequent words of English that are rare or absent in other languages.
ENGLISH_WORDS = frozenset("the and you with this that they from your what".split())
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
MOSES = "moses"  # the format of two files, which is no `Reader`

Languages = tuple[str | None, str | None]
# Other suffixes beside a corpus that look like languages.
NOT_LANGUAGES = {"csv", "gz", "ids", "log", "md", "txt", "xml", "xz", "zip", "zst"}


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A format of parallel corpora of one file.

    Attributes:
        suffixes: Suffixes of its files, without `.gz`, `.bz2`, `.xz` and `.zst`, which
            each may have. If several readers have a suffix, the last one is used.
        read: `read(path, languages)` yields `(source, translation)`; `languages` are
            the codes of both. The functions of `readers.lines` also open compressed
            files. For an unreadable row, it may yield the `InputError`, so that the
            row can be skipped.
        language: `language(path)` returns the code of the translations if the file
            contains it, else None.
        columns: Whether `read` has a parameter `columns`, the names or numbers of both
            text columns.

    Example:
        >>> from pathlib import Path
        >>> def read(path, languages):
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
    read: Callable[..., Iterator[tuple[str, str] | InputError]]
    language: Callable[[Path], str | None] | None = None
    columns: bool = False


READERS = {
    "tsv": Reader(suffixes=(".tsv",), read=tables.read_tsv, columns=True),
    "tmx": Reader(suffixes=(".tmx",), read=tmx.read, language=tmx.language),
    "jsonl": Reader(
        suffixes=(".jsonl", ".ndjson", JSON),
        read=tables.read_jsonl,
        language=tables.jsonl_language,
        columns=True,
    ),
    "csv": Reader(
        suffixes=(".csv",),
        read=tables.read_csv,
        language=tables.csv_language,
        columns=True,
    ),
    "parquet": Reader(
        suffixes=(".parquet",),
        read=tables.read_parquet,
        language=tables.parquet_language,
        columns=True,
    ),
}


def read_pairs(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    language: str | None = None,
    source_language: str | None = None,
    columns: Sequence[str | int] | None = None,
) -> Pairs:
    r"""Open parallel corpora; the sentences are read when you iterate over the result.

    The language is part of the file name, `<corpus>.en-<xx>.tsv.gz`, the suffix of a
    Moses file, part of a TMX, JSON Lines, CSV or parquet file, or part of the name of
    its folder, such as `en-de`. Otherwise pass `language`. Sources are English, unless
    the file name has a pair without it, `<corpus>.<xx>-<yy>.tsv.gz`, or you pass
    `source_language`.

    Args:
        paths: A file, a folder or zip archive (its files, but not those in folders of a
            folder), a pattern such as `data/*.en-de.tsv.gz`, or a list of these; also
            remote ones, such as `s3://bucket/pairs`, `gs://...` and
            `hf://datasets/...`.
        format: A name in `READERS`; by default the suffix decides.
        language: Code of the language of the translations, if no name contains it; or,
            if there are several translations beside `x.en`, the one to read.
        source_language: Code of the language of the sources, if it is not English and
            no name contains it.
        columns: The columns of source and translation in a table (TSV, CSV, JSON Lines
            or parquet), by name or by number from 1.

    Raises:
        InputError: No file is found, a format or language is not clear or unknown, a
            language contradicts a file name, or a format has no columns.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("news.en-de.tsv").write_text("A house.\tEin Haus.\n")
        >>> list(msd.data.read_pairs("news.en-de.tsv"))
        [Pair(source='A house.', target='Ein Haus.', language='de',
              source_language='en')]
    """
    if format is not None:
        one_of([*READERS, MOSES], format=format)
    check_code(language=language, source_language=source_language)
    names = two_columns(columns)
    languages = (source_language, language)
    files: dict[tuple[Path, str], PairFile] = {}
    for path in expanded(paths, format, languages):
        for file in _opened(
            path, format or _format_of(path, languages), names, languages
        ):
            files.setdefault((file.paths[0], file.language), file)
    return Pairs(files.values())


def check_pairs(pairs: Pairs, least: int = 1) -> None:
    """Read the first pairs, so that mistakes show before slow work begins.

    Args:
        pairs: The corpus.
        least: Number of pairs that it must have.

    Raises:
        InputError: A row among the first `FIRST` of a file cannot be read, English is
            on the wrong side, a side has hardly any different texts, both sides are the
            same, or there are too few pairs.
    """
    count = 0
    for file in pairs.files:
        rows = list(islice(file.rows(), FIRST))
        count += len(rows)
        for side, name in enumerate(("sources", "translations")):
            different = len({row[side] for row in rows})
            if different * REPEATED < len(rows):
                raise InputError(
                    f"`{file.name}`: the {name} must be sentences of their own. "
                    f"Received: {different} in {len(rows)} rows, such as "
                    f"{rows[0][side]!r:.60}. Give the columns of sentence and "
                    'translation, such as `columns=["1", "3"]` (`--columns 1,3`), or '
                    "another file."
                )
        copies = sum(row[0] == row[1] for row in rows)
        if len(rows) >= REPEATED and copies > SAME * len(rows):
            raise InputError(
                f"`{file.name}`: the translations must be other texts than the "
                f"sources. Received: the same in {copies} of {len(rows)} rows, such as "
                f"{rows[0][0]!r:.60}. Give the column of the translations, such as "
                '`columns=["1", "3"]` (`--columns 1,3`), or another file.'
            )
        english = [sum(_looks_english(row[side]) for row in rows) for side in (0, 1)]
        many = english[1] > max(ENOUGH, len(rows) / 5)
        if file.source_language == ENGLISH and many and english[0] * 10 < english[1]:
            raise InputError(
                f"`{file.name}`: the sources must be English, the translations in "
                f"`{file.language}`. Received: the other way round, such as "
                f"{rows[0][0]!r:.60} for {rows[0][1]!r:.60}. Exchange the sides, for a "
                'table with `columns=["2", "1"]` (`--columns 2,1`).'
            )
    if count < least:
        raise InputError(
            f"`pairs` needs at least {least} pairs. Received: {count}. Add pairs."
        )


def _looks_english(text: str) -> bool:
    return not ENGLISH_WORDS.isdisjoint(text.lower().split())


def two_columns(columns: Sequence[str | int] | None) -> list[str] | None:
    """Return the names or numbers of two columns as texts.

    Raises:
        InputError: They are not two different ones.
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


def _format_of(path: Path, languages: Languages, named: bool = True) -> str | None:
    """Return the format of a file; `named` tells whether the user named the file."""
    suffix = unpacked(path).suffix
    if suffix == JSON and not named:  # it may contain anything
        return None
    for name, reader in reversed(READERS.items()):  # readers of the user first
        if suffix in reader.suffixes:
            return name
    return MOSES if _moses_source(path, languages) else None


def _suffixes() -> list[str]:
    return [suffix for reader in READERS.values() for suffix in reader.suffixes]


def _known() -> str:
    """Return all formats, for messages."""
    packed = "each also .gz, .bz2, .xz or .zst, or in a .zip"
    return (
        f"{', '.join(_suffixes())} ({packed}), or two files `x.en` and `x.<language>`"
    )


def expanded(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    languages: Languages = (None, None),
) -> list[Path]:
    """Return the files of paths, folders and patterns.

    Args:
        paths: See `read_pairs`.
        format: Format of the files; by default their names decide.
        languages: Requested codes of sources and translations, or None.

    Raises:
        InputError: No file is found.
    """
    files: list[Path] = []
    for path in map(as_path, [paths] if isinstance(paths, str | Path) else paths):
        if is_zip(path):
            path = ZipMember(path)
        if path.is_dir():
            here = [file for file in sorted(path.iterdir()) if file.is_file()]
            usable = [it for it in here if format or _format_of(it, languages, False)]
            if not usable:
                raise InputError(
                    f"`{path}` holds no parallel corpus. Known: {_known()}. Files "
                    "inside its folders are not looked for, and a .json must be named."
                )
            files += usable
        elif path.exists():
            files.append(path)
        else:
            matches = glob_files(path)
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
    path: Path, format: str | None, columns: list[str] | None, languages: Languages
) -> list[PairFile]:
    if format is None:
        raise InputError(
            f"`{path}`: the format is not clear from the name. Known: {_known()}. Give "
            f"`format` (`--format`), one of {', '.join([*READERS, MOSES])}."
            f"{f' {TO_CSV}' if path.suffix.lower() in SHEETS else ''}"
        )
    reader = READERS.get(format)
    if columns and not (reader and reader.columns):
        raise InputError(
            f"`{path}`: `columns` are for tables. Received: columns={columns}, for a "
            f"file of the format `{format}`. Leave `columns` out."
        )
    if reader is None:
        return _moses_files(path, languages)
    named_source, named = languages_of(path) or (None, None)
    source = _same("source_language", languages[0], named_source, path) or ENGLISH
    code = _same("language", languages[1], named, path)
    if code is None and source == ENGLISH:
        code = reader.language(path) if reader.language else None
        code = code or _language_of_folder(path)
    if code is None:
        raise InputError(
            f"`{path}`: the language is not clear. Name the file "
            f"`<corpus>.en-<xx>{reader.suffixes[0]}` or give `language` (`--language`)."
        )
    read, fingerprint = partial(reader.read, path, (source, code)), None
    if columns:
        read = partial(read, columns=columns)
        fingerprint = digest("columns", *columns)
    return [PairFile(path.name, code, read, (path,), fingerprint, source)]


def _language_of_folder(path: Path) -> str | None:
    """Return the language of a folder such as `en-de` or `en-pt-br`, as on the hub."""
    match = FOLDER.fullmatch(path.parent.name)
    return "_".join(filter(None, match.groups())) if match else None


def _same(key: str, given: str | None, named: str | None, path: Path) -> str | None:
    """Return the language from the user or from the file name; both must agree."""
    if given and named and given != named:
        raise InputError(
            f"`{key}` contradicts the name of `{path}`. Received: {key}={given!r}, "
            f"{named!r} there. Leave `{key}` out, or rename the file."
        )
    return given or named


class LanguageTexts:
    """The sentences of a data folder in some languages, as they are in the files.

    English sentences are those of the corpora of the other languages; if English is the
    only language, those of all corpora.

    Args:
        data_dir: Folder with `parallel/train/<corpus>.en-<xx>.tsv.gz`.
        languages: Codes of single languages, as in the names of the files.

    Raises:
        InputError: The folder or a language does not exist.
    """

    def __init__(self, data_dir: str | Path, languages: Sequence[str]) -> None:
        folder = existing_folder(Path(data_dir) / "parallel" / "train", "data folder")
        pairs = read_pairs(folder)
        others = {*languages_of_pairs(pairs.languages)} - {ENGLISH}
        known = [ENGLISH, *sorted(others)]
        if not languages:
            raise InputError(
                "`languages` must name a language. Received: none. "
                f"`{folder}` has {', '.join(known)}."
            )
        for code in languages:
            one_of(known, languages=code)
        self.languages = frozenset(languages)
        asked = self.languages - {ENGLISH} or self.languages
        self.files = [file for file in pairs.files if asked & {*file.languages}]

    def __iter__(self) -> Iterator[str]:
        for file in self.files:
            codes = enumerate(file.languages)
            sides = [side for side, code in codes if code in self.languages]
            for pair in file.rows():
                yield from (pair[side] for side in sides)


def _moses_source(path: Path, languages: Languages) -> str | None:
    """Return the language of the sources of the corpus that a file belongs to.

    Any two or three letters can be a language. So a file belongs to a corpus only if it
    or a file beside it is English or in the requested source language, or if its name
    has a pair such as `de-fr` before the language.

    Args:
        path: The file.
        languages: Requested codes of sources and translations, or None.

    Returns:
        The suffix of the file of the sources; None if `path` belongs to no corpus.
    """
    code, (source, language) = _moses_language(path), languages
    if code is None:
        return None
    beside = _beside(path)
    if source:
        asked = language in (None, code) or code == source
        return source if source in beside and asked else None
    english, named = next(filter(is_english, beside), None), languages_of(path)
    return english or (named[0] if named and code in named else None)


def _moses_files(path: Path, languages: Languages) -> list[PairFile]:
    """Return the corpora of a file.

    Args:
        path: `x.en` for every language beside it, or `x.<language>`; each also `.gz`.
        languages: The language of the sources: by default English if there is such a
            file, else the first language in a stem such as `x.de-fr`. And, if there are
            several translations beside `x.en`, the one to read.

    Raises:
        InputError: The other file is missing.
    """
    stem, code = unpacked(path).stem, unpacked(path).suffix[1:]
    source, beside = _moses_source(path, languages), _beside(path)
    if source is None or source not in beside:
        raise _alone(path, source or ENGLISH)
    codes = [code]
    if code == source:
        named = None if is_english(source) else languages_of(path)
        asked = languages[1] or (named and named[1])
        others = sorted(it for it in beside if it != source and not is_english(it))
        codes = [asked] if asked else others
    if not codes:
        raise _alone(path, "<language>")
    first = beside[source]
    source = ENGLISH if is_english(source) else source
    files = []
    for code in codes:
        paths, name = (first, moses_partner(first, code)), f"{stem}.{source}-{code}"
        rows = partial(moses_rows, *paths, (source, code))
        files.append(PairFile(name, code, rows, paths, source_language=source))
    return files


def moses_rows(
    source: Path, target: Path, codes: tuple[str, str] = (ENGLISH, ENGLISH)
) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every line number.

    Args:
        source: The file of the sources, such as `x.en` or `x.en.gz`.
        target: The file of the translations.
        codes: Codes of their languages.

    Raises:
        InputError: One file has more lines, other than blank ones at its end, or a file
            cannot be read.
    """
    sides = read_lines(source, codes[:1]), read_lines(target, codes[1:])
    for count, (first, second) in enumerate(zip_longest(*sides)):
        if first is None or second is None:
            rest = (line for side in sides for _, line in side)
            if not (first or second)[1].strip() and not any(map(str.strip, rest)):
                return
            short, long = (source, target) if first is None else (target, source)
            raise InputError(
                f"`{source}` and `{target}` must have as many lines. Received: "
                f"`{short}` ends after line {count}, `{long}` goes on. Get both again, "
                "of one release."
            )
        yield first[1], second[1]


def moses_partner(source: Path, language: str) -> Path:
    """Return the file of the translations of `source`, such as `x.en`.

    Raises:
        InputError: The file does not exist.
    """
    other = _beside(source).get(language)
    if other is None:
        raise _alone(source, language)
    return other


def _beside(path: Path) -> dict[str, Path]:
    """Return the files with the stem of `path` by their language."""
    files = {}
    for file in sorted(path.parent.iterdir(), reverse=True):  # `x.en` before `x.en.gz`
        same = file.parent == path.parent and unpacked(file).stem == unpacked(path).stem
        if same and (code := _moses_language(file)):
            files[code] = file
    return dict(sorted(files.items()))


def _moses_language(path: Path) -> str | None:
    """Return the suffix of a file if it can be a language, else None."""
    suffix = unpacked(path).suffix
    if suffix in _suffixes() or suffix[1:] in NOT_LANGUAGES:
        return None
    return suffix[1:] if re.fullmatch(CODE, suffix[1:]) else None


def _alone(path: Path, language: str) -> InputError:
    other = f"{unpacked(path).stem}.{language}"
    return InputError(
        f"`{path}` needs the file `{other}` or `{other}.gz` beside it. Received: none. "
        "Put both files in one folder."
    )
