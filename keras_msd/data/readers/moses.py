"""Moses and OPUS: two files with as many lines, `x.en` and `x.<language>`."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.pair import PairFile
from keras_msd.data.readers import READERS
from keras_msd.data.readers.lines import CODE, is_english, read_lines, unpacked

Lines = Iterator[tuple[int, str]]
# Ends that a corpus's files may have beside those of the readers.
NOT_LANGUAGES = {"csv", "gz", "ids", "log", "md", "txt", "xml", "zip"}


def claims(path: Path) -> bool:
    """Tell whether a name ends in a language and a file in English is beside it.

    Any two or three letters can be a language: only the English file makes two files a
    corpus.
    """
    return _language(path) is not None and _english(path) is not None


def opened(path: Path, language: str | None) -> list[PairFile]:
    """Return the corpora that one of their files, or a given language, names.

    Args:
        path: `x.en` for every language beside it, or `x.<language>`; each also `.gz`.
        language: Of several translations beside `x.en`, the one to read.

    Raises:
        InputError: The other file is missing.
    """
    english, stem = _english(path), unpacked(path).stem
    if english == path:
        codes = [language] if language else _languages(english)
    else:
        codes = [unpacked(path).suffix[1:]]
    if english is None or not codes:
        english_file = f"the English file `{stem}.en`"
        raise _alone(path, f"a file `{stem}.<language>`" if english else english_file)
    return [
        PairFile(
            f"{stem}.en-{code}",
            code,
            partial(read, english, code),
            (english, partner(english, code)),
        )
        for code in codes
    ]


def read(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield (English, other language) of every line number.

    Args:
        path: The English file, `x.en` or `x.en.gz`.
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
        sides: (line number, text) of English and of the other language.
        names: What messages call them.

    Raises:
        InputError: One side has more lines.
    """
    for count, (english, other) in enumerate(zip_longest(*sides)):
        if english is None or other is None:
            short, long = names if english is None else names[::-1]
            raise InputError(
                f"`{names[0]}` and `{names[1]}` must have as many lines. Received: "
                f"`{short}` ends after line {count}, `{long}` goes on. Get both again, "
                "of one release."
            )
        yield english[1], other[1]


def partner(english: Path, language: str) -> Path:
    """Return the file that holds the translations of `x.en`.

    Raises:
        InputError: There is none.
    """
    other = _sibling(english, language)
    if other is None:
        stem = unpacked(english).stem
        names = f"`{stem}.{language}` or `{stem}.{language}.gz`"
        raise _alone(english, f"the file {names}")
    return other


def _alone(path: Path, lacks: str) -> InputError:
    return InputError(
        f"`{path}` needs {lacks} beside it. Received: none. Put both files in one "
        "folder."
    )


def _language(path: Path) -> str | None:
    suffix = unpacked(path).suffix
    known = READERS.of_suffix(suffix)
    of_another = suffix[1:] in NOT_LANGUAGES or (known and known.opens is None)
    return suffix[1:] if re.fullmatch(CODE, suffix[1:]) and not of_another else None


def _languages(english: Path) -> list[str]:
    """Return the codes of the files that lie beside `x.en`, sorted."""
    stem = unpacked(english).stem
    siblings = [p for p in english.parent.iterdir() if unpacked(p).stem == stem]
    codes = {code for path in siblings if (code := _language(path))}
    return sorted(code for code in codes if not is_english(code))


def _english(path: Path) -> Path | None:
    """Return the English file beside `x.<language>`, None if there is none."""
    return path if is_english(unpacked(path).suffix[1:]) else _sibling(path, "en")


def _sibling(path: Path, code: str) -> Path | None:
    name = f"{unpacked(path).stem}.{code}"
    places = [path.parent / name, path.parent / f"{name}.gz"]
    return next((place for place in places if place.is_file()), None)
