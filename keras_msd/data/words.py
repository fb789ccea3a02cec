"""Text of a language from its word frequencies, where you have no sentences.

The lists are those of wordfreq (Speer 2022), a package on PyPI. Only its files are
read, none of its code is imported.
"""

import gzip
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError, require
from keras_msd.data.languages import code_of

PACKAGE, VERSION = "wordfreq", "3.1.1"
INSTALL = f"Install it with: pip install --no-deps {PACKAGE}=={VERSION} msgpack"
SIZES = ("large", "small")  # a language has one or both
LISTED_AS = {"bs": "sh", "hr": "sh", "no": "nb", "tl": "fil"}
WITHOUT_BLANKS = ("ja", "zh")
MORPHEMES = ("ko",)  # two of a list's entries make a word
WORDS, CAPITALIZED = 12, 0.15  # words in a sentence, share of capitals in it
ENDS = (".", ".", ".", "?", "!")


def word_languages() -> list[str]:
    """Return the codes of the languages with a list; none if it is not installed."""
    files = _files()
    return sorted({*files, *(code for code, of in LISTED_AS.items() if of in files)})


def has_words(language: str) -> bool:
    """Tell whether there is a list of a language, whatever country its code names."""
    return _listed_as(language) in _files()


def check_listed(languages: Iterable[str]) -> None:
    """Raise `InputError` unless there is a list of each language."""
    known = word_languages()
    if not known:
        raise InputError(
            f"Word frequencies come from the package `{PACKAGE}`, which is not "
            f"installed. {INSTALL}, or give texts (`texts`, `--text`)."
        )
    if others := sorted(code for code in set(languages) if not has_words(code)):
        raise InputError(
            f"There are no word frequencies of these languages: {', '.join(others)}. "
            "Give sentences of your own (`texts`, `--text`). Languages with a list: "
            f"{', '.join(known)}."
        )


def drawn_sentences(language: str, count: int, seed: int = 0) -> list[str]:
    """Return sentences without meaning, of words drawn by their frequency.

    Args:
        language: Code of a language that `has_words`.
        count: Number of sentences, of twelve words each.
        seed: Seed of the draw.

    Raises:
        InputError: As `check_listed`.

    Source: the method is ours; the lists are those of Speer 2022
    (https://doi.org/10.5281/zenodo.7199437).
    """
    check_listed([language])
    words, shares = _read(_files()[_listed_as(language)])
    draw = np.random.default_rng(seed)
    drawn = draw.choice(len(words), (count, WORDS), p=shares)
    capitals = draw.random(drawn.shape) < CAPITALIZED
    capitals[:, 0] = True
    ends = draw.choice(ENDS, count)
    listed, sentences = _listed_as(language), []
    for row, large, end in zip(drawn, capitals, ends, strict=True):
        parts = [words[at] for at in row]
        if listed in MORPHEMES:
            parts = ["".join(parts[at : at + 2]) for at in range(0, WORDS, 2)]
        parts = [
            part[:1].upper() + part[1:] if capital else part
            for part, capital in zip(parts, large, strict=False)
        ]
        blank = "" if listed in WITHOUT_BLANKS else " "
        sentences.append(blank.join(parts) + end)
    return sentences


def _listed_as(language: str) -> str:
    """Return the name of a language's list, if it has one."""
    code, *rest = re.split("[-_]", language)
    # The lists do not say their script; that of Chinese is simplified.
    if rest and (code == "zh" or any(len(part) == 4 for part in rest)):
        return language
    base = code_of(code) or code
    return LISTED_AS.get(base, base)


def _files() -> dict[str, Path]:
    """Return the list of each language, the largest that there is."""
    spec = find_spec(PACKAGE)
    found: dict[str, Path] = {}
    for folder in (spec and spec.submodule_search_locations) or ():
        for size in reversed(SIZES):
            for path in Path(folder, "data").glob(f"{size}_*.msgpack.gz"):
                found[path.name.split(".")[0].removeprefix(f"{size}_")] = path
    return found


def _read(path: Path) -> tuple[list[str], np.ndarray]:
    """Return words and their shares of all words.

    After a header come lists of words: the word at index n has the frequency
    10 ** (-n / 100).
    """
    msgpack = require("msgpack", "backbones", "Reading word frequencies")
    with gzip.open(path, "rb") as file:
        header, *lists = msgpack.load(file)
    expected: dict[str, Any] = {"format": "cB", "version": 1}
    if header != expected:
        raise InputError(
            f"`{path}` must be a list of `{PACKAGE}` {VERSION}. Received the header: "
            f"{header!r:.80}. {INSTALL}"
        )
    rows = [(word, at) for at, words in enumerate(lists) for word in words]
    frequencies = 10.0 ** (-np.array([at for _, at in rows]) / 100)
    return [word for word, _ in rows], frequencies / frequencies.sum()
