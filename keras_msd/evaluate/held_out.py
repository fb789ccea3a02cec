"""Pairs held out of training, as a set: parallel files of one's own, any languages."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.data.pair import PairFile, language_pair, pair_code
from keras_msd.data.readers.discover import read_pairs
from keras_msd.evaluate.halves import WHOLE
from keras_msd.evaluate.translations import TEXT, retrieval_languages
from keras_msd.evaluate.vectors import SentenceEncoder


def score_held_out(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str] | None = None,
    part: str = WHOLE,
) -> dict[str, Any]:
    r"""Score parallel files of a folder, as `retrieval_languages` by text.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        folder: Holds parallel files, as `read_pairs` takes them.
        languages: Codes such as `de`, of pairs without English `de-fr`; None for all.
        part: "all", or a half, "choose" or "report".

    Raises:
        InputError: A language has no file, or no pair in that half.

    Example:
        >>> from pathlib import Path
        >>> from keras_msd.evaluate.held_out import score_held_out
        >>> _ = Path("own.en-de.tsv").write_text("Tea.\tTee.\nWind.\tWind.\n")
        >>> scores = score_held_out(msd.testing.tiny_encoder(), ".")
        >>> list(scores["tracks"]), scores["pairs"]
        (['de'], 2)
    """
    return retrieval_languages(encoder, read_held_out(folder, languages), part, TEXT)


def read_held_out(
    folder: str | Path, languages: Iterable[str] | None = None
) -> dict[str, list[tuple[str, str]]]:
    """Return code to pairs of (source, translation), languages as `score_held_out`."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for file in _files(folder, languages):
        pairs.setdefault(pair_code(*file.languages), []).extend(file.iterate())
    return pairs


def held_out_files(folder: Path, languages: list[str] | None) -> list[Path]:
    """Return the files; raise `InputError` for a language that has none."""
    return [path for file in _files(folder, languages) for path in file.paths]


def _files(folder: str | Path, languages: Iterable[str] | None) -> list[PairFile]:
    there = read_pairs(folder).files
    if languages is None:
        return list(there)
    asked = {language_pair(code): code for code in languages}
    if absent := asked.keys() - {file.languages for file in there}:
        names = ", ".join(sorted(f"`{asked[both]}`" for both in absent))
        raise InputError(
            f"`{folder}` must hold pairs held out of training, in each language. "
            f"Received: no file for {names}. Put <corpus>.en-<xx>.tsv.gz there."
        )
    return [file for file in there if file.languages in asked]
