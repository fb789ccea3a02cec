"""Moses and OPUS: two files with equally many lines, `x.en` and `x.<language>`.

Without English, the names contain the pair, as in `x.de-fr.de` and `x.de-fr.fr`.
"""

import re
from collections.abc import Collection, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.pair import CODE, ENGLISH, PairFile
from keras_msd.data.readers.lines import is_english, languages_of, read_lines, unpacked

# Other suffixes beside a corpus that look like languages.
NOT_LANGUAGES = {"csv", "gz", "ids", "log", "md", "txt", "xml", "xz", "zip", "zst"}


def source_of(
    path: Path, languages: tuple[str | None, str | None], taken: Collection[str]
) -> str | None:
    """Return the language of the sources of the corpus that a file belongs to.

    Any two or three letters can be a language. So a file belongs to a corpus only if it
    or a file beside it is English or in the requested source language, or if its name
    has a pair such as `de-fr` before the language.

    Args:
        path: The file.
        languages: Requested codes of sources and translations, or None.
        taken: Suffixes that are not languages.

    Returns:
        The suffix of the file of the sources; None if `path` belongs to no corpus.
    """
    code, (source, language) = _language(path, taken), languages
    if code is None:
        return None
    beside = _beside(path, taken)
    if source:
        asked = language in (None, code) or code == source
        return source if source in beside and asked else None
    english, named = next(filter(is_english, beside), None), languages_of(path)
    return english or (named[0] if named and code in named else None)


def opened(
    path: Path, languages: tuple[str | None, str | None], taken: Collection[str]
) -> list[PairFile]:
    """Return the corpora of a file.

    Args:
        path: `x.en` for every language beside it, or `x.<language>`; each also `.gz`.
        languages: The language of the sources: by default English if there is such a
            file, else the first language in a stem such as `x.de-fr`. And, if there are
            several translations beside `x.en`, the one to read.
        taken: Suffixes that are not languages.

    Raises:
        InputError: The other file is missing.
    """
    stem, code = unpacked(path).stem, unpacked(path).suffix[1:]
    source, beside = source_of(path, languages, taken), _beside(path, taken)
    if source is None:
        raise _alone(path, f"the English file `{stem}.{ENGLISH}`")
    if source not in beside:
        raise _alone(path, f"the file `{stem}.{source}`")
    codes = [code]
    if code == source:
        others = sorted(it for it in beside if it != source and not is_english(it))
        named = None if is_english(source) else languages_of(path)
        asked = languages[1] or (named[1] if named else None)
        codes = [asked] if asked else others
    if not codes:
        raise _alone(path, f"a file `{stem}.<language>`")
    first = beside[source]
    source = ENGLISH if is_english(source) else source
    files = []
    for code in codes:
        paths, name = (first, partner(first, code)), f"{stem}.{source}-{code}"
        rows = partial(read, *paths, (source, code))
        files.append(PairFile(name, code, rows, paths, source_language=source))
    return files


def read(
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


def partner(source: Path, language: str) -> Path:
    """Return the file of the translations of `source`, such as `x.en`.

    Raises:
        InputError: The file does not exist.
    """
    other = _beside(source, ()).get(language)
    if other is None:
        stem = unpacked(source).stem
        names = f"`{stem}.{language}` or `{stem}.{language}.gz`"
        raise _alone(source, f"the file {names}")
    return other


def _beside(path: Path, taken: Collection[str]) -> dict[str, Path]:
    """Return the files with the stem of `path` by their language."""
    files = {}
    for file in sorted(path.parent.iterdir(), reverse=True):  # `x.en` before `x.en.gz`
        same = file.parent == path.parent and unpacked(file).stem == unpacked(path).stem
        if same and (code := _language(file, taken)):
            files[code] = file
    return dict(sorted(files.items()))


def _language(path: Path, taken: Collection[str]) -> str | None:
    """Return the suffix of a file if it can be a language, else None."""
    suffix = unpacked(path).suffix
    if suffix in taken or suffix[1:] in NOT_LANGUAGES:
        return None
    return suffix[1:] if re.fullmatch(CODE, suffix[1:]) else None


def _alone(path: Path, lacks: str) -> InputError:
    return InputError(
        f"`{path}` needs {lacks} beside it. Received: none. Put both files in one "
        "folder."
    )
