"""STS 2017 and its extension: three tracks in one language, seven across two."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.data.readers.lines import read_lines
from keras_msd.evaluate.set_files import (
    Layout,
    check_parts,
    find_parts,
    mean_scores,
    read_part,
    sorted_gold,
)
from keras_msd.evaluate.sts import Row, read_sts, sts_tracks
from keras_msd.evaluate.tables import finite_number
from keras_msd.evaluate.vectors import SentenceEncoder

MONOLINGUAL = ("ar-ar", "es-es", "en-en")
CROSS_LINGUAL = ("en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")
TRACKS = MONOLINGUAL + CROSS_LINGUAL
SEMEVAL_TRACKS = ("ar-ar", "es-es", "en-en", "en-ar", "en-tr", "en-es")
PAIRS = 250  # of every track

PAIR = re.compile(r"([a-z]{2})-([a-z]{2})")
NAMES = (
    "STS 2017. Its files are `sts2017.test.<xx>-<yy>.tsv.gz` (keras-msd data get "
    "sts2017-extended), `STS.<xx>-<yy>.txt` (STS2017-extended.zip) or "
    "`STS.input.track<n>.<xx>-<yy>.txt` with `STS.gs.track<n>.<xx>-<yy>.txt` (SemEval, "
    "six tracks); the two codes may stand in either order. Add what is missing, or "
    "give `tracks`."
)


def sts2017(
    encoder: SentenceEncoder,
    folder: str | Path,
    tracks: Iterable[str] = TRACKS,
    pairs: int | None = PAIRS,
) -> dict[str, Any]:
    """Score STS 2017 from a folder, as downloaded or as `keras-msd data get` wrote it.

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
    """
    rows = read_sts2017(folder, tracks, pairs)
    scores = sts_tracks(encoder, rows)
    within = {name: score for name, score in scores.items() if name[:2] == name[3:]}
    across = {name: score for name, score in scores.items() if name not in within}
    result: dict[str, Any] = {
        "pairs": sum(map(len, rows.values())),
        "tracks": scores,
        "primary": "cross_lingual" if across else "monolingual",
    }
    if across:
        result["cross_lingual"] = mean_scores(across)
    if within:
        result["monolingual"] = mean_scores(within)
    return result


def read_sts2017(
    folder: str | Path, tracks: Iterable[str] = TRACKS, pairs: int | None = PAIRS
) -> dict[str, list[Row]]:
    """Read what `sts2017` scores: rows of `(gold, sentence 1, sentence 2)` by track."""
    wanted = list(dict.fromkeys(map(_given_track, tracks)))
    found = find_parts(folder, LAYOUTS, lambda match: _track(match[1], match[2]))
    check_parts(found, wanted, NAMES, folder)
    return {name: read_part(found[name], sorted_gold, pairs) for name in wanted}


def tracks_of(languages: Iterable[str], tracks: Iterable[str] = TRACKS) -> list[str]:
    """Return those of `tracks` that need English and the given languages alone."""
    known = {"en", *languages}
    return [track for track in tracks if set(track.split("-")) <= known]


def _track(one: str, two: str) -> str:
    """Return a track's name: English first, else in alphabetical order."""
    return "-".join(sorted((one, two), key=lambda code: (code != "en", code)))


def _given_track(name: str) -> str:
    match = PAIR.fullmatch(name)
    if not match:
        raise InputError(
            "A track must be two language codes such as `en-de`. Received: "
            f"{name!r:.40}. The tracks: {', '.join(TRACKS)}."
        )
    return _track(match[1], match[2])


def _read_extended(path: Path) -> list[Row]:
    return [_row(path, number, *line.split("\t")) for number, line in read_lines(path)]


def _read_semeval(path: Path) -> list[Row]:
    name = path.name.replace(".input.", ".gs.")
    beside = sorted(path.resolve().parent.parent.glob(f"*/{name}"))
    gold = next((one for one in (path.with_name(name), *beside) if one.is_file()), None)
    if gold is None:
        raise InputError(
            f"`{path}` needs its gold scores, `{name}`, in its folder or one beside "
            "it. Unpack sts2017.gs.zip where sts2017.eval.v1.1.zip was unpacked."
        )
    scores = [line for _, line in read_lines(gold)]
    texts = [line for _, line in read_lines(path)]
    if len(scores) != len(texts):
        raise InputError(
            f"`{path}` and `{gold}` must have as many lines. Received: {len(texts)} "
            f"and {len(scores)}. Get both again."
        )
    # Beyond the two sentences the lines name their sources.
    return [
        _row(path, number, *text.split("\t")[:2], score)
        for number, (text, score) in enumerate(zip(texts, scores, strict=True), 1)
    ]


def _row(path: Path, number: int, *fields: str) -> Row:
    where = f"`{path}`, line {number}"
    if len(fields) != 3:
        raise InputError(
            f"{where}: a line must have two sentences and a score, tabs between. "
            f"Received: {len(fields)} of the three. Get the file again."
        )
    return finite_number(fields[2], where), fields[0], fields[1]


# Track 4b judges machine translation; the published tables use 4a.
LAYOUTS = (
    Layout(re.compile(r"sts2017\.test\.([a-z]{2})-([a-z]{2})\.tsv\.gz"), read_sts),
    Layout(re.compile(r"STS\.([a-z]{2})-([a-z]{2})\.txt(?:\.gz)?"), _read_extended),
    Layout(
        re.compile(r"STS\.input\.track(?!4b)\w+\.([a-z]{2})-([a-z]{2})\.txt"),
        _read_semeval,
    ),
)
