"""Moses and OPUS: two files with as many lines, `x.en` and `x.<language>`."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.readers.lines import read_lines
from keras_msd.data.readers.names import moses_partner


def read(path: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield (English, other language) of every line number.

    Args:
        path: The English file, `x.en` or `x.en.gz`.
        language: Code that the other file ends in.

    Raises:
        InputError: The other file is missing, one file has more lines, or a file
            cannot be read.
    """
    other = moses_partner(path, language)
    both = zip_longest(read_lines(path), read_lines(other))
    for count, (english, translation) in enumerate(both):
        if english is None or translation is None:
            short, long = (path, other) if english is None else (other, path)
            raise InputError(
                f"`{path.name}` and `{other.name}` must have as many lines. Received: "
                f"`{short}` ends after line {count}, `{long}` goes on. Download both "
                "files of the same release again."
            )
        yield english[1], translation[1]
