"""Moses and OPUS: two files with as many lines, `x.en` and `x.<language>`.

Without English the name says which they are, as in `x.de-fr.de` and `x.de-fr.fr`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.pair import CODE, ENGLISH, PairFile
from keras_msd.data.readers.lines import (
    PACKERS,
    is_english,
    languages_of,
    read_lines,
    unpacked,
)

Lines = Iterator[tuple[int, str]]
# Ends that a corpus's files may have beside those of the readers.
NOT_LANGUAGES = {"csv", "gz", "ids", "log", "md", "txt", "xml", "xz", "zip", "zst"}


def claims(
    path: Path, languages: tuple[str | None, str | None], taken: Collection[str]
) -> bool:
    """Tell whether a name ends in a language and says which the other one is.

    Any two or three letters can be a language: only a file in English beside it, a
    pair such as `de-fr` before it, or two languages that are given, of which each has
    its file, make two files a corpus.

    Args:
        path: The file.
        languages: Codes of sources and translations that were asked for, or None.
        taken: Suffixes that are no languages.
    """
    if _language(path, taken) is None:
        return False
    suffix, named = unpacked(path).suffix[1:], _first(path, ENGLISH) or _named(path)
    if named is not None:
        return True
    return suffix in languages and all(_sibling(path, str(it)) for it in languages)


def opened(
    path: Path, languages: tuple[str | None, str | None], taken: Collection[str]
) -> list[PairFile]:
    """Return the corpora that one of their files, or given languages, name.

    Args:
        path: `x.en` for every language beside it, or `x.<language>`; each also `.gz`.
        languages: In place of English, the language of the sources: by default English
            where it is there, else the first language in a stem such as `x.de-fr`. And
            of several translations beside `x.en`, the one to read.
        taken: Suffixes that are no languages.

    Raises:
        InputError: The other file is missing.
    """
    source, language = languages
    stem, suffix = unpacked(path).stem, unpacked(path).suffix[1:]
    if source is None:
        named = None if _first(path, ENGLISH) else _named(path)
        source, language = named or (ENGLISH, language)
    first, codes = _first(path, source), [suffix]
    if first == path:
        codes = [language] if language else _languages(path, source, taken)
    if first is None or not codes:
        of = "English " if source == ENGLISH else ""
        lacks = f"the {of}file `{stem}.{source}`"
        raise _alone(path, f"a file `{stem}.<language>`" if first else lacks)
    return [
        PairFile(
            f"{stem}.{source}-{code}",
            code,
            partial(read, first, code),
            (first, partner(first, code)),
            source_language=source,
        )
        for code in codes
    ]


def read(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield source and translation of every line number.

    Args:
        path: The file of the sources, such as `x.en` or `x.en.gz`.
        language: Code that the other file ends in.

    Raises:
        InputError: The other file is missing, one file has more lines, or a file
            cannot be read.
    """
    files = (path, partner(path, language))
    return aligned([read_lines(file) for file in files], [str(file) for file in files])


def aligned(sides: Sequence[Lines], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts of two sides, line by line.

    Args:
        sides: (line number, text) of the sources and of the translations.
        names: What messages call them.

    Raises:
        InputError: One side has more lines, other than blank ones at its end.
    """
    for count, (source, other) in enumerate(zip_longest(*sides)):
        if source is None or other is None:
            if not (source or other)[1].strip() and not _has_text(*sides):
                return
            short, long = names if source is None else names[::-1]
            raise InputError(
                f"`{names[0]}` and `{names[1]}` must have as many lines. Received: "
                f"`{short}` ends after line {count}, `{long}` goes on. Get both again, "
                "of one release."
            )
        yield source[1], other[1]


def _has_text(*sides: Lines) -> bool:
    return any(line.strip() for side in sides for _, line in side)


def partner(source: Path, language: str) -> Path:
    """Return the file that holds the translations of `source`, such as `x.en`.

    Raises:
        InputError: There is none.
    """
    other = _sibling(source, language)
    if other is None:
        stem = unpacked(source).stem
        names = f"`{stem}.{language}` or `{stem}.{language}.gz`"
        raise _alone(source, f"the file {names}")
    return other


def _alone(path: Path, lacks: str) -> InputError:
    return InputError(
        f"`{path}` needs {lacks} beside it. Received: none. Put both files in one "
        "folder."
    )


def _language(path: Path, taken: Collection[str]) -> str | None:
    suffix = unpacked(path).suffix
    of_another = suffix[1:] in NOT_LANGUAGES or suffix in taken
    return suffix[1:] if re.fullmatch(CODE, suffix[1:]) and not of_another else None


def _languages(first: Path, source: str, taken: Collection[str]) -> list[str]:
    """Return the codes of the files that lie beside that of the sources, sorted."""
    stem = unpacked(first).stem
    siblings = [p for p in first.parent.iterdir() if unpacked(p).stem == stem]
    codes = {code for path in siblings if (code := _language(path, taken))} - {source}
    return sorted(code for code in codes if not is_english(code))


def _first(path: Path, source: str) -> Path | None:
    """Return the file of the sources beside `x.<language>`, None if there is none."""
    suffix = unpacked(path).suffix[1:]
    if source != ENGLISH:
        return path if suffix == source else _sibling(path, source)
    names = (_sibling(path, code) for code in (ENGLISH, "eng"))
    return path if is_english(suffix) else next(filter(None, names), None)


def _named(path: Path) -> tuple[str, str] | None:
    """Return the pair without English in `x.de-fr.de` or `x.de-fr.fr`."""
    pair, suffix = languages_of(path), unpacked(path).suffix[1:]
    return pair if pair and suffix in pair and ENGLISH not in pair else None


def _sibling(path: Path, code: str) -> Path | None:
    name = f"{unpacked(path).stem}.{code}"
    places = [path.parent / f"{name}{ending}" for ending in ("", *PACKERS)]
    return next((place for place in places if place.is_file()), None)
