"""STS scores of a recipe: of row-aligned translations, or of STS 2017's tracks."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.recipes.schema.recipe import STS2017, Recipe

KEPT = ("cross_lingual", "monolingual", "tracks")
# The names of all layouts of the set, gold scores included.
STS2017_FILES = re.compile(r"(?:sts2017|STS)\..+")


def sts_languages(recipe: Recipe) -> list[str]:
    """Return the languages of the STS set, without English."""
    return list(recipe.evaluate.languages or recipe.data.languages)


def sts_files(recipe: Recipe, data_dir: Path) -> list[Path]:
    """Return the files of the STS set, of STS 2017 those that are there."""
    from keras_msd.evaluate.set_files import Layout, find_parts
    from keras_msd.evaluate.sts import read_sts

    ours, folder = recipe.evaluate, data_dir / "sts"
    if ours.sts != STS2017:
        return [
            folder / f"{ours.sts}.{ours.split}.{language}.tsv.gz"
            for language in ["en", *sts_languages(recipe)]
        ]
    layouts = [Layout(STS2017_FILES, read_sts)]
    found = find_parts(folder, layouts, lambda match: match[0])
    return sorted(one.path for files in found.values() for one in files)


def check_sts2017(recipe: Recipe, data_dir: Path) -> None:
    """Raise `InputError` unless all tracks of STS 2017 that are scored are there."""
    from keras_msd.evaluate.sts2017 import read_sts2017

    if recipe.evaluate.sts == STS2017:
        read_sts2017(data_dir / "sts", _tracks(sts_languages(recipe)))


def score_sts(
    recipe: Recipe,
    data_dir: Path,
    encoder: Any,
    languages: Iterable[str],
    full: bool = True,
) -> dict[str, Any]:
    """Return the scores of one encoder.

    Args:
        recipe: Says which set is read.
        data_dir: Holds `sts/`.
        encoder: Has `encode`.
        languages: The languages besides English.
        full: All scores; otherwise the cross-lingual one alone.

    Returns:
        `cross_lingual`, `monolingual` and `tracks`, such as `en-de` and `de`, x100, as
        far as they were asked for.
    """
    score = _sts2017 if recipe.evaluate.sts == STS2017 else _aligned
    scores = score(recipe, data_dir / "sts", encoder, list(languages), full)
    kept = KEPT if full else ("cross_lingual", "tracks")
    return {key: scores[key] for key in kept if key in scores}


def _sts2017(
    recipe: Recipe, folder: Path, encoder: Any, languages: list[str], full: bool
) -> dict[str, Any]:
    from keras_msd.evaluate.sts2017 import CROSS_LINGUAL, sts2017

    wanted = _tracks(languages)
    if not full:
        wanted = [track for track in wanted if track in CROSS_LINGUAL]
    scores = sts2017(encoder, folder, wanted)
    # As in other sets, the track of one language is called by it.
    tracks = {_short(name): value for name, value in scores["tracks"].items()}
    return scores | {"tracks": tracks}


def _short(track: str) -> str:
    one, two = track.split("-")
    return one if one == two else track


def _tracks(languages: list[str]) -> list[str]:
    from keras_msd.evaluate.sts2017 import TRACKS, tracks_of

    known = {code for track in TRACKS for code in track.split("-")}
    if unknown := [code for code in languages if code not in known]:
        raise InputError(
            f"STS 2017 has the languages {', '.join(sorted(known))}. Received: "
            f"{', '.join(unknown)}. Choose among them with `evaluate.languages`, or "
            "another set with `evaluate.sts`."
        )
    return tracks_of(languages)


def _aligned(
    recipe: Recipe, folder: Path, encoder: Any, languages: list[str], full: bool
) -> dict[str, Any]:
    from keras_msd.evaluate.sts import read_sts_folder, sts_aligned

    ours = recipe.evaluate
    rows = read_sts_folder(folder, languages, ours.split, ours.sts)
    if full:
        return sts_aligned(encoder, rows)
    # English first sentences everywhere: no language is scored within itself.
    english = [row[1] for row in rows["en"]]
    rows = {
        language: [
            (gold, first, second)
            for (gold, _, second), first in zip(own, english, strict=True)
        ]
        for language, own in rows.items()
    }
    scores = sts_aligned(encoder, rows)
    tracks = scores["tracks"].items()
    across = {name: v for name, v in tracks if "-" in name or name == "en"}
    return scores | {"tracks": across}
