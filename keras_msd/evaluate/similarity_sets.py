"""Readers of published similarity sets, in their own layout or ours.

STS 2017 and its extension have three tracks in one language and seven across two; the
multilingual STS benchmark is row-aligned.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, one_of
from keras_msd.data.readers import moses
from keras_msd.data.readers.lines import csv_rows, read_lines
from keras_msd.evaluate.halves import WHOLE
from keras_msd.evaluate.set_files import (
    Layout,
    SetFile,
    check_parts,
    find_parts,
    paths_of,
    read_part,
    tabbed,
)
from keras_msd.evaluate.similarity import (
    PIVOT,
    Row,
    both_means,
    graded,
    read_sts,
    spread,
    sts_aligned,
    sts_tracks,
)
from keras_msd.evaluate.vectors import SentenceEncoder

MONOLINGUAL = ("ar-ar", "es-es", "en-en")
CROSS_LINGUAL = ("en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")
TRACKS = MONOLINGUAL + CROSS_LINGUAL
SEMEVAL_TRACKS = ("ar-ar", "es-es", "en-en", "en-ar", "en-tr", "en-es")
PAIRS = 250  # of every track

PAIR = re.compile(r"([a-z]{2})-([a-z]{2})")
STS2017_NAMES = (
    "STS 2017. Its files are `sts2017.test.<xx>-<yy>.tsv.gz` (see "
    "docs/corpora.md), `STS.<xx>-<yy>.txt` (STS2017-extended.zip) or "
    "`STS.input.track<n>.<xx>-<yy>.txt` with `STS.gs.track<n>.<xx>-<yy>.txt` (SemEval, "
    "six tracks); the two codes may stand in either order. Add what is missing, or "
    "give `tracks`."
)

STSB_PAIRS = {"train": 5749, "dev": 1500, "test": 1379}
COLUMNS = ("sentence1", "sentence2", "score")
STSB_NAMES = (
    "the multilingual STS benchmark, part {split}. Its files are "
    "`stsb-<xx>-{split}.csv` (or .tsv) as published, or `stsb.{split}.<xx>.tsv.gz` "
    "(see docs/corpora.md). Add what is missing, or give `languages`"
)


def sts2017(
    encoder: SentenceEncoder,
    folder: str | Path,
    tracks: Iterable[str] = TRACKS,
    pairs: int | None = PAIRS,
) -> dict[str, Any]:
    r"""Score STS 2017 from a folder, as published or as `write_corpus` wrote it.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence of all tracks once.
        folder: Holds the files at any depth; each is known by its name.
        tracks: Pairs of codes in either order, such as `en-de` or `de-en`; by default
            all ten, `SEMEVAL_TRACKS` for those of SemEval alone.
        pairs: What every track must have; None for any number.

    Returns:
        `{"cross_lingual", "monolingual", "pairs", "tracks", "primary"}`: Spearman x100
        of each track by its name, English first, and the mean of both kinds as far as
        there are tracks of them; `pairs` is the sum. Sentences of two languages are
        compared with each other, `cross_lingual` where a track has two.

    Raises:
        InputError: A track is missing, damaged, incomplete, or there twice with
            differing scores.

    Source: Cer et al. 2017; the extension, Reimers and Gurevych 2020, section 4.1.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("STS.en-de.txt").write_text(
        ...     "A cat.\tA cat.\t5.0\nA cat.\tRegen.\t0.5\n"
        ... )
        >>> encoder = msd.testing.tiny_encoder()
        >>> scores = msd.evaluate.sts2017(encoder, ".", ["en-de"], pairs=None)
        >>> scores["tracks"], scores["pairs"]
        ({'en-de': 100.0}, 2)
    """
    return _sts2017(encoder, read_sts2017(folder, tracks, pairs))


def _sts2017(
    encoder: SentenceEncoder,
    rows: dict[str, list[Row]],
    rows_at_most: int | None = None,
) -> dict[str, Any]:
    tracks = {name: spread(own, rows_at_most) for name, own in rows.items()}
    return both_means(sts_tracks(encoder, tracks), sum(map(len, tracks.values())))


def read_sts2017(
    folder: str | Path, tracks: Iterable[str] = TRACKS, pairs: int | None = PAIRS
) -> dict[str, list[Row]]:
    r"""Read what `sts2017` scores: rows of `(gold, sentence 1, sentence 2)` by track.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("STS.en-de.txt").write_text(
        ...     "A cat.\tA cat.\t5.0\nA cat.\tRegen.\t0.5\n"
        ... )
        >>> msd.evaluate.read_sts2017(".", ["de-en"], pairs=None)
        {'en-de': [(5.0, 'A cat.', 'A cat.'), (0.5, 'A cat.', 'Regen.')]}
    """
    return _track_rows(_track_files(folder, tracks), pairs)


def tracks_of(languages: Iterable[str], tracks: Iterable[str] = TRACKS) -> list[str]:
    """Return the tracks that use only English and the given languages.

    Raises:
        InputError: No track has one of the languages.
    """
    languages, tracks = list(languages), list(tracks)
    known = {code for track in tracks for code in track.split("-")}
    if unknown := [code for code in languages if code not in known]:
        raise InputError(
            f"STS 2017 has the languages {', '.join(sorted(known))}. Received: "
            f"{', '.join(unknown)}. Choose among them, or take another set."
        )
    return [track for track in tracks if {"en", *languages} >= set(track.split("-"))]


def score_sts2017(
    encoder: SentenceEncoder,
    folder: Path,
    languages: list[str] | None,
    extended: bool,
    within: bool = True,
    rows_at_most: int | None = None,
) -> dict[str, Any]:
    """Score STS 2017 as `EvaluationSet` says, the extension's tracks too or not."""
    tracks = _tracks(languages, extended)
    if not within:
        tracks = [track for track in tracks if track in CROSS_LINGUAL]
    return _sts2017(encoder, read_sts2017(folder, tracks), rows_at_most)


def sts2017_files(folder: Path, languages: list[str], extended: bool) -> list[Path]:
    """Return the files of the tracks, once they are known to be whole."""
    files = _track_files(folder, _tracks(languages, extended))
    _track_rows(files, PAIRS)
    return paths_of(files)


def _tracks(languages: Iterable[str] | None, extended: bool) -> list[str]:
    tracks = TRACKS if extended else SEMEVAL_TRACKS
    return list(tracks) if languages is None else tracks_of(languages, tracks)


def _track_files(folder: str | Path, tracks: Iterable[str]) -> dict[str, list[SetFile]]:
    needed = list(dict.fromkeys(map(_given_track, tracks)))
    there = find_parts(folder, STS2017, lambda match: _track(match[1], match[2]))
    return check_parts(there, needed, STS2017_NAMES, folder, "sts2017.test.{}.tsv.gz")


def _track_rows(
    files: dict[str, list[SetFile]], pairs: int | None
) -> dict[str, list[Row]]:
    return {name: read_part(track, _gold, pairs) for name, track in files.items()}


def _track(left: str, right: str) -> str:
    """Return a track's name: English first, else in alphabetical order."""
    return "-".join(sorted((left, right), key=lambda code: (code != "en", code)))


def _given_track(name: str) -> str:
    match = PAIR.fullmatch(name)
    if not match:
        raise InputError(
            "A track must be two language codes such as `en-de`. Received: "
            f"{name!r:.40}. The tracks: {', '.join(TRACKS)}."
        )
    return _track(match[1], match[2])


def _gold(rows: Sequence[Row]) -> list[float]:
    """Return what two files of one track have in common."""
    return sorted(row[0] for row in rows)


def _read_extended(path: Path) -> list[Row]:
    return graded(tabbed(path))


def _semeval_files(path: Path) -> list[Path]:
    """Return a track's sentences and, in that folder or one beside it, its scores."""
    name = path.name.replace(".input.", ".gs.")
    beside = sorted(path.resolve().parent.parent.glob(f"*/{name}"))
    places = (path.with_name(name), *beside)
    gold = next((place for place in places if place.is_file()), None)
    if gold is None:
        raise InputError(
            f"`{path}` needs its gold scores, `{name}`, in its folder or one beside "
            "it. Unpack sts2017.gs.zip where sts2017.eval.v1.1.zip was unpacked."
        )
    return [path, gold]


def _read_semeval(path: Path) -> list[Row]:
    files = _semeval_files(path)
    both = moses.aligned([read_lines(file) for file in files], list(map(str, files)))
    # Beyond the two sentences the lines name their sources.
    return graded(
        (f"`{path}`, line {number}", [*text.split("\t")[:2], score])
        for number, (text, score) in enumerate(both, 1)
    )


def sts_folder(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str],
    split: str = "dev",
    dataset: str = "stsb",
    part: str = WHOLE,
) -> dict[str, Any]:
    r"""Score the files `<dataset>.<split>.<xx>.tsv.gz` of a folder, as `sts_aligned`.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        folder: Holds the files at any depth: score TAB sentence 1 TAB sentence 2,
            row-aligned.
        languages: Two-letter codes; English is always read.
        split: The part of the set, such as `dev` or `test`.
        dataset: The set, such as `stsb` or `sick`.
        part: "all", or a half, "choose" or "report", as `sts_aligned` takes it.

    Raises:
        InputError: A file is missing or broken, or the files are not row-aligned.

    Example:
        >>> import gzip
        >>> with gzip.open("stsb.dev.en.tsv.gz", "wt") as file:
        ...     _ = file.write("5.0\tA cat.\tA cat.\n0.5\tA cat.\tIt rains.\n")
        >>> encoder = msd.testing.tiny_encoder()
        >>> msd.evaluate.sts_folder(encoder, ".", languages=[])["monolingual"]
        100.0
    """
    rows = read_sts_folder(folder, languages, split, dataset)
    return sts_aligned(encoder, rows, part=part)


def read_sts_folder(
    folder: str | Path,
    languages: Iterable[str],
    split: str = "dev",
    dataset: str = "stsb",
) -> dict[str, list[Row]]:
    r"""Read what `sts_folder` scores: rows by language code, English first.

    Example:
        >>> import gzip
        >>> with gzip.open("sick.test.en.tsv.gz", "wt") as file:
        ...     _ = file.write("5.0\tA cat.\tA cat!\n")
        >>> msd.evaluate.read_sts_folder(".", [], "test", "sick")
        {'en': [(5.0, 'A cat.', 'A cat!')]}
    """
    return _aligned_rows(_aligned_files(folder, languages, split, dataset), split)


def stsb_multilingual(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str = "test",
    pairs: bool = True,
    part: str = WHOLE,
) -> dict[str, Any]:
    r"""Score the multilingual STS benchmark, within and across languages.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence of all languages once.
        folder: Holds the files at any depth; each is known by its name.
        languages: Two-letter codes; English is always read. None for all there are.
        split: "train", "dev" or "test".
        pairs: Refuse files that have not the split's number of pairs (`STSB_PAIRS`).
        part: "all", or a half, "choose" or "report", as `sts_aligned` takes it.

    Returns:
        As `sts_aligned`.

    Raises:
        InputError: A language is missing, damaged, incomplete, not aligned with
            English, or there twice with differing scores.

    Source: Cer et al. 2017; translations by May 2021 (stsb-multi-mt).

    Example:
        >>> from pathlib import Path
        >>> _ = Path("stsb-en-test.csv").write_text(
        ...     "A cat.,A cat.,5.0\nA cat.,It rains.,0.5\n"
        ... )
        >>> encoder = msd.testing.tiny_encoder()
        >>> msd.evaluate.stsb_multilingual(encoder, ".", pairs=False)["tracks"]
        {'en': 100.0}
    """
    rows = read_stsb_multilingual(folder, languages, split, pairs)
    return sts_aligned(encoder, rows, part=part)


def read_stsb_multilingual(
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str = "test",
    pairs: bool | None = True,
) -> dict[str, list[Row]]:
    r"""Read what `stsb_multilingual` scores: rows by language code, English first.

    With `pairs=None` only files in the published layouts must be whole.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("stsb-en-dev.csv").write_text("A cat.,It rains.,0.5\n")
        >>> msd.evaluate.read_stsb_multilingual(".", split="dev", pairs=False)
        {'en': [(0.5, 'A cat.', 'It rains.')]}
    """
    files = _aligned_files(folder, languages, split, "stsb")
    return _aligned_rows(files, split, pairs)


def score_aligned(
    encoder: SentenceEncoder,
    folder: Path,
    languages: list[str] | None,
    split: str,
    dataset: str,
    hint: str = "",
    within: bool = True,
    part: str = WHOLE,
    rows_at_most: int | None = None,
) -> dict[str, Any]:
    """Score a set as `EvaluationSet` says; files in our layout may be of any size."""
    files = _aligned_files(folder, languages, split, dataset, hint)
    return sts_aligned(encoder, _aligned_rows(files, split), within, part, rows_at_most)


def aligned_files(
    folder: Path, languages: list[str], split: str, dataset: str, hint: str = ""
) -> list[Path]:
    """Return the files of English and other languages."""
    return paths_of(_aligned_files(folder, languages, split, dataset, hint))


def _aligned_rows(
    files_of: dict[str, list[SetFile]], split: str, pairs: bool | None = None
) -> dict[str, list[Row]]:
    rows = {}
    for code, files in files_of.items():
        published = files[0].layout.read is read_delimited
        whole = published if pairs is None else pairs
        rows[code] = read_part(files, _gold, STSB_PAIRS[split] if whole else None)
    return rows


def _aligned_files(
    folder: str | Path,
    languages: Iterable[str] | None,
    split: str,
    dataset: str,
    hint: str = "",
) -> dict[str, list[SetFile]]:
    name = f"{dataset}.{split}.{{}}.tsv.gz"
    pattern = re.escape(name).replace(r"\{\}", r"(\w+)")
    layouts = [Layout(re.compile(pattern), read_sts)]
    words = f"the set `{dataset}`, part {split}. Its files are `{name.format('<xx>')}`"
    if dataset == "stsb":
        one_of(STSB_PAIRS, split=split)
        published = rf"stsb-([a-z]{{2}})-{split}\.(?:csv|tsv)(?:\.gz)?"
        layouts.append(Layout(re.compile(published), read_delimited))
        words = STSB_NAMES.format(split=split)
    there = find_parts(folder, layouts)
    others = sorted(there) if languages is None else languages
    needed = list(dict.fromkeys([PIVOT, *others]))
    return check_parts(there, needed, f"{words}. {hint}".rstrip(), folder, name)


def read_delimited(path: Path) -> list[Row]:
    """Read `sentence1`, `sentence2`, `score` of a CSV or TSV file, plain or gzip.

    A first row with these names (or `similarity_score`) may give them in any order.
    Only CSV has quotes.

    Returns:
        Rows of `(gold, sentence 1, sentence 2)`.

    Raises:
        InputError: A row has not three fields, or its score is no finite number.
    """
    records = tabbed(path) if ".tsv" in path.suffixes else csv_rows(path)
    head = next(records)
    names = [name.replace("similarity_score", "score") for name in head[1]]
    if sorted(names) == sorted(COLUMNS):
        first, second, score = map(names.index, COLUMNS)
        return graded(records, (first, second, score))
    return graded(chain([head], records))


# Track 4b judges machine translation; the published tables use 4a.
STS2017 = (
    Layout(re.compile(r"sts2017\.test\.([a-z]{2})-([a-z]{2})\.tsv\.gz"), read_sts),
    Layout(re.compile(r"STS\.([a-z]{2})-([a-z]{2})\.txt(?:\.gz)?"), _read_extended),
    Layout(
        re.compile(r"STS\.input\.track(?!4b)\w+\.([a-z]{2})-([a-z]{2})\.txt"),
        _read_semeval,
        _semeval_files,
    ),
)
