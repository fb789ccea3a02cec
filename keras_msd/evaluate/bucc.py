"""BUCC 2018: pairs of translations hidden in two corpora, found by mining."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError, existing_folder
from keras_msd.evaluate.mining import NEIGHBOURS, MinedPair, best_f1, f1_at, mine
from keras_msd.evaluate.tables import read_table
from keras_msd.evaluate.vectors import SentenceEncoder

SPLITS = {"sample": "sample", "train": "training", "test": "test"}
MEANS, SUMS = ("f1", "precision", "recall"), ("pairs", "gold")


class BuccPart(NamedTuple):
    """One split of one language: sentences of it and of English, and known pairs."""

    sources: list[str]
    targets: list[str]
    gold: list[tuple[int, int]]


def bucc_folder(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str],
    tuned_on: str = "train",
    reported_on: str = "train",
    margin: str = "ratio",
    k: int = NEIGHBOURS,
    engine: str = "numpy",
) -> dict[str, Any]:
    """Mine each language against English and score what was found.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        folder: Holds `<xx>-en.<part>.<xx>`, `.en` and `.gold`, with `training` for the
            split "train", or a folder `<xx>-en` or `bucc2018/<xx>-en` with them, as the
            archives unpack.
        languages: Codes beside English, such as `de`.
        tuned_on: Split whose best F1 sets the threshold: "sample", "train" or "test".
        reported_on: Split that is scored with this threshold. The same one gives the
            best F1 that any threshold can give, as the shared task's training scores
            are reported; another one shows what is to be expected of new text.
        margin: As `mine` takes it.
        k: As `mine` takes it.
        engine: Of the exact search: "numpy" or "faiss".

    Returns:
        `{"f1", "precision", "recall"}` x100, means over languages; `pairs` and `gold`,
        sums; `tracks` and `thresholds`: F1 and threshold by `de-en`; `tuned_on`,
        `reported_on`, `margin`, `k`, and `primary`: "f1". No sentence is left out, nor
        any copy of one.

    Raises:
        InputError: A file is missing or broken, a language is missing, or an argument
            is not known.

    Source: Zweigenbaum et al. 2018 (the set); Artetxe and Schwenk 2019 (margins).
    """
    checks.one_of(SPLITS, tuned_on=tuned_on, reported_on=reported_on)
    parts = {
        f"{code}-en": {
            split: read_bucc(folder, code, split)
            for split in dict.fromkeys([tuned_on, reported_on])
        }
        for code in dict.fromkeys(languages)
    }
    if not parts:
        raise InputError("Give at least one language. Received: none.")
    single = {}
    for name, splits in parts.items():
        found: dict[str, list[MinedPair]] = {
            split: mine(encoder, part.sources, part.targets, margin, k, None, engine)
            for split, part in splits.items()
        }
        score = best_f1(found[tuned_on], splits[tuned_on].gold)
        if reported_on != tuned_on:
            gold = splits[reported_on].gold
            score = f1_at(found[reported_on], gold, score["threshold"])
        single[name] = score
    scores = list(single.values())
    return {
        **{key: round(float(np.mean([s[key] for s in scores])), 4) for key in MEANS},
        **{key: sum(score[key] for score in scores) for key in SUMS},
        "tracks": {name: score["f1"] for name, score in single.items()},
        "thresholds": {name: score["threshold"] for name, score in single.items()},
        "tuned_on": tuned_on,
        "reported_on": reported_on,
        "margin": margin,
        "k": k,
        "primary": "f1",
    }


def read_bucc(folder: str | Path, language: str, split: str = "train") -> BuccPart:
    """Read one split of one language.

    Raises:
        InputError: As `bucc_folder`.
    """
    checks.one_of(SPLITS, split=split)
    sources, targets, gold = _files(folder, language, split)
    left, right = _sentences(sources), _sentences(targets)
    rows = [{name: row for row, name in enumerate(side)} for side in (left, right)]
    pairs = []
    for number, fields in read_table(gold, 2):
        for side, name, file in zip(rows, fields, (sources, targets), strict=True):
            if name not in side:
                raise InputError(
                    f"{gold}, line {number}: the sentence must be in `{file.name}`. "
                    f"Received: {name!r:.40}. Take all three files from one release."
                )
        pairs.append((rows[0][fields[0]], rows[1][fields[1]]))
    return BuccPart(list(left.values()), list(right.values()), pairs)


def _files(folder: str | Path, language: str, split: str) -> tuple[Path, ...]:
    """Return the files of both languages and of the gold standard."""
    folder, pair = existing_folder(folder, "BUCC folder"), f"{language}-en"
    stem = f"{pair}.{SPLITS[split]}"
    names = [f"{stem}.{ending}" for ending in (language, "en", "gold")]
    places = (folder, folder / pair, folder / "bucc2018" / pair)
    found = max(places, key=lambda place: sum((place / n).is_file() for n in names))
    missing = [name for name in names if not (found / name).is_file()]
    if not missing:
        return tuple(found / name for name in names)
    repair = f"Get them with: keras-msd data get bucc2018 --languages {language}"
    if split == "test":
        repair = "The public archives have no gold standard for `test`; add it by hand."
    place = found if len(missing) < len(names) else f"{folder}, {pair}/ or bucc2018/"
    raise InputError(
        f"BUCC {pair}, split {split!r}, needs {', '.join(names)}. Missing in "
        f"{place}: {', '.join(missing)}. {repair}"
    )


def _sentences(path: Path) -> dict[str, str]:
    """Return the sentences by name, in the order of the file."""
    sentences: dict[str, str] = {}
    for number, (name, text) in read_table(path, 2):
        if name in sentences:
            raise InputError(
                f"{path}, line {number}: a name must occur once. Received: {name!r:.40}"
                " again. Take a whole copy of the file."
            )
        sentences[name] = text
    return sentences
