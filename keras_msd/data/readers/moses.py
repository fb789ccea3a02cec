"""Moses and OPUS: two files with as many lines, `x.en` and `x.<language>`."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.readers.lines import read_lines
from keras_msd.data.readers.names import moses_partner

Lines = Iterator[tuple[int, str]]


def read(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield (English, other language) of every line number.

    Args:
        path: The English file, `x.en` or `x.en.gz`.
        language: Code that the other file ends in.

    Raises:
        InputError: The other file is missing, one file has more lines, or a file
            cannot be read.
    """
    files = (path, moses_partner(path, language))
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
