"""Similarity sets: row-aligned files, and STS 2017 in its own layout or ours.

STS 2017 and its extension have three tracks in one language and seven across two.
"""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.data.readers.lines import tabbed
from keras_msd.evaluate.set_files import (
    SetFile,
    check_parts,
    exactly,
    find_parts,
    read_parts,
)
from keras_msd.evaluate.similarity import (
    PIVOT,
    Row,
    both_means,
    graded,
    read_sts,
    sts_tracks,
)
from keras_msd.evaluate.vectors import SentenceEncoder

TRACKS = (
    *("ar-ar", "es-es", "en-en", "en-ar", "en-de", "en-tr", "en-es"),
    *("en-fr", "en-it", "en-nl"),
)
PAIRS = 250  # of every track
STS2017_NAMES = (
    "STS 2017. Its files are `sts2017.test.<xx>-<yy>.tsv.gz` (see docs/corpora.md) or "
    "`STS.<xx>-<yy>.txt` (STS2017-extended.zip), with the two codes in either order. "
    "Add the missing files, or give `languages`."
)


def score_sts2017(
    encoder: SentenceEncoder, rows: Mapping[str, list[Row]], within: bool = True
) -> dict[str, Any]:
    """Score STS 2017.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`. Each distinct sentence
            of all tracks is encoded once.
        rows: Rows by track, such as `en-de`.
        within: Whether to score tracks in one language as well.

    Returns:
        `{"cross_lingual", "monolingual", "pairs", "tracks", "primary"}`. `tracks` is
        Spearman x100 by track, such as `en-de`. `cross_lingual` is the mean over tracks
        with two languages, `monolingual` the mean over tracks with one. `pairs` is the
        total number of pairs.

    Source: Cer et al. 2017; the extension, Reimers and Gurevych 2020, section 4.1.
    """
    chosen = {
        name: track
        for name, track in rows.items()
        if within or len({*name.split("-")}) == 2
    }
    return both_means(sts_tracks(encoder, chosen), sum(map(len, chosen.values())))


def find_sts2017(
    folder: Path, languages: list[str] | None, split: str = "test"
) -> dict[str, SetFile]:
    """Return the file of each track that uses only English and the given languages.

    Raises:
        InputError: A track is missing, or the set does not have a language.
    """
    layouts = {name: partial(exactly, PAIRS, read) for name, read in STS2017.items()}
    there = find_parts(folder, layouts, lambda match: _track(match[1], match[2]))
    tracks = _tracks(languages)
    return check_parts(there, tracks, STS2017_NAMES, folder, "sts2017.test.{}.tsv.gz")


def _tracks(languages: list[str] | None) -> list[str]:
    """Return the tracks that use only English and the given languages."""
    if languages is None:
        return list(TRACKS)
    known = {code for track in TRACKS for code in track.split("-")}
    if unknown := [code for code in languages if code not in known]:
        raise InputError(
            f"STS 2017 has the languages {', '.join(sorted(known))}. Received: "
            f"{', '.join(unknown)}. Use one of these, or another set."
        )
    return [track for track in TRACKS if {"en", *languages} >= {*track.split("-")}]


def _track(left: str, right: str) -> str:
    """Return a track's name: English first, otherwise in alphabetical order."""
    return "-".join(sorted((left, right), key=lambda code: (code != "en", code)))


def _read_extended(path: Path) -> list[Row]:
    return graded(tabbed(path))


def read_sts_folder(
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str = "dev",
    dataset: str = "stsb",
) -> dict[str, list[Row]]:
    r"""Read row-aligned similarity files: rows by language code, English first.

    Args:
        folder: Folder with `<dataset>.<split>.<xx>.tsv.gz` at any depth, with the
            columns score, sentence 1, sentence 2.
        languages: Two-letter codes; None for all languages in the folder. English is
            always read.
        split: Such as `dev` or `test`.
        dataset: Name of the set, such as `stsb` or `sick`.

    Raises:
        InputError: A file is missing, damaged or incomplete.

    Example:
        >>> import gzip
        >>> with gzip.open("sick.test.en.tsv.gz", "wt") as file:
        ...     _ = file.write("5.0\tA cat.\tA cat!\n")
        >>> msd.evaluate.read_sts_folder(".", [], "test", "sick")
        {'en': [(5.0, 'A cat.', 'A cat!')]}
    """
    return read_parts(find_aligned(folder, languages, split, dataset))


def find_aligned(
    folder: str | Path, languages: Iterable[str] | None, split: str, dataset: str
) -> dict[str, SetFile]:
    """Return the files of English and other languages; see `read_sts_folder`."""
    from keras_msd.evaluate.sets import SETS, unknown_set  # which names this module

    hint = "" if dataset in SETS else unknown_set(dataset)
    name = f"{dataset}.{split}.{{}}.tsv.gz"
    pattern = re.escape(name).replace(r"\{\}", r"(\w+)")
    there = find_parts(folder, {pattern: read_sts})
    words = f"the set `{dataset}`, part {split}. Its files are `{name.format('<xx>')}`"
    others = sorted(there) if languages is None else languages
    needed = list(dict.fromkeys([PIVOT, *others]))
    return check_parts(there, needed, f"{words}. {hint}".rstrip(), folder, name)


STS2017 = {
    r"sts2017\.test\.([a-z]{2})-([a-z]{2})\.tsv\.gz": read_sts,
    r"STS\.([a-z]{2})-([a-z]{2})\.txt(?:\.gz)?": _read_extended,
}
