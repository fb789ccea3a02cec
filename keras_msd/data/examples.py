"""Real sentences in eight languages, an excerpt of Tatoeba: `examples.tsv.gz`.

They serve the demo, smoke runs and tests. `examples.md` describes the excerpt.
"""

import gzip
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from keras_msd.checks import at_least, one_of
from keras_msd.data.pair import ENGLISH, Pair
from keras_msd.data.readers.inference import CLASSES
from keras_msd.data.write import write_rows

FILE = Path(__file__).with_name("examples.tsv.gz")
LANGUAGES = ("de", "es", "fr", "ja", "nl", "tr", "zh")
LICENCE = "CC BY 2.0 FR (Tatoeba's contributors, https://tatoeba.org)"
SPLITS = ("train", "dev")
SAME, RELATED = 4.0, 2.0  # lowest grades of "entailment" and "neutral"

Row = tuple[float, str, str]


class _Examples(NamedTuple):
    """English sentences with their translations, and graded pairs of them."""

    sentences: list[dict[str, str]]
    graded: list[tuple[int, int, float]]


def example_pairs(
    languages: Sequence[str] = LANGUAGES, split: str = "train", count: int | None = None
) -> list[Pair]:
    """Return sentences of Tatoeba with their translations.

    The order is that of the English sentences, each with all its translations, so a
    smaller `count` gives the beginning of a larger one.

    Args:
        languages: Codes out of de, es, fr, ja, nl, tr, zh.
        split: "train", or "dev" for held-out sentences.
        count: Most pairs of each language; None for all.

    Raises:
        InputError: A language or a split is unknown, or `count` is not positive.

    Example:
        >>> for pair in msd.data.example_pairs(["de", "fr"], "dev", count=1):
        ...     print(pair.source, pair.target)
        Tom shut his eyes. Tom schloss seine Augen.
        Tom shut his eyes. Tom ferma les yeux.
    """
    codes = _checked(languages)
    one_of(SPLITS, split=split)
    at_least(1, count=count)
    taken = dict.fromkeys(codes, 0)
    pairs = []
    for texts in _read()[split].sentences:
        for code in codes:
            if code in texts and taken[code] != count:
                pairs.append(Pair(texts[ENGLISH], texts[code], code))
                taken[code] += 1
    return pairs


def example_similarity(
    languages: Sequence[str] = LANGUAGES, split: str = "dev", count: int | None = None
) -> dict[str, list[Row]]:
    """Return graded pairs of held-out sentences, aligned over languages.

    The grades are no human judgements: a grade is five times the cosine that the
    default teacher, all-MiniLM-L6-v2, gives to the two English sentences. A score on
    these rows therefore measures agreement with that teacher, in English and in
    translations. In one row of six both sentences are the same, so that across
    languages they are translations.

    Args:
        languages: As for `example_pairs`; English is always there.
        split: "dev", or "train" for pairs of training sentences.
        count: Most rows of each language; None for all.

    Returns:
        Rows `(grade, sentence 1, sentence 2)` by language, grades from 0 to 5. Row i
        has the same grade and the same two sentences in every language.

    Raises:
        InputError: A language or a split is unknown, or `count` is not positive.

    Example:
        >>> rows = msd.data.example_similarity(["de"], count=100)
        >>> [len(rows[code]) for code in ("en", "de")]
        [100, 100]
    """
    codes = _checked(languages)
    one_of(SPLITS, split=split)
    at_least(1, count=count)
    sentences, graded = _read()[split]
    return {
        code: [
            (grade, sentences[first][code], sentences[second][code])
            for first, second, grade in graded[:count]
        ]
        for code in (ENGLISH, *codes)
    }


def write_examples(
    folder: str | Path,
    languages: Sequence[str] = LANGUAGES,
    pairs: int | None = None,
    rows: int | None = None,
    train_rows: int = 0,
    inference_rows: int = 0,
) -> Path:
    """Write the sentences in the layout of a data folder.

    The files are `parallel/{train,dev}/examples.en-<xx>.tsv.gz`,
    `sts/examples.{dev,train}.<xx>.tsv.gz` and `nli/examples.train.<xx>.tsv.gz`. The
    same arguments give the same bytes.

    Args:
        folder: Made if it is not there.
        languages: As for `example_pairs`.
        pairs: Most pairs of each language and split; None for all.
        rows: Most graded rows to score on; None for all.
        train_rows: Most graded rows to train on; none by default.
        inference_rows: Most rows of inference; none by default. Their labels follow
            from the grades and are not judgements of inference: they only show that a
            stage runs.

    Returns:
        The folder.

    Raises:
        InputError: A language is unknown, or a number is not positive.

    Example:
        >>> folder = msd.data.write_examples("DATA", ["de"], pairs=20)
        >>> len(list(msd.data.read_pairs(folder / "parallel" / "train")))
        20
    """
    folder, codes = Path(folder), _checked(languages)
    for split in SPLITS:
        for code in codes:
            found = (pair[:2] for pair in example_pairs([code], split, pairs))
            write_rows(folder / f"parallel/{split}/examples.en-{code}.tsv.gz", found)
    for split, most in (("dev", rows), ("train", train_rows)):
        if most == 0:
            continue
        for code, scored in example_similarity(codes, split, most).items():
            texts = ((f"{grade:g}", *both) for grade, *both in scored)
            write_rows(folder / f"sts/examples.{split}.{code}.tsv.gz", texts)
    if inference_rows:
        inference = example_similarity(codes, "train", inference_rows)
        for code, scored in inference.items():
            table: list[tuple[str, ...]] = [("premise", "hypothesis", "label")]
            table += [(*both, CLASSES[_label(grade)]) for grade, *both in scored]
            write_rows(folder / f"nli/examples.train.{code}.tsv.gz", table)
    return folder


def _label(grade: float) -> int:
    return 0 if grade >= SAME else 1 if grade >= RELATED else 2


@cache
def _read() -> dict[str, _Examples]:
    text = gzip.decompress(FILE.read_bytes()).decode("utf-8")
    (_, *codes), *rows = (line.split("\t") for line in text.splitlines())
    found = {split: _Examples([], []) for split in SPLITS}
    for part, *fields in rows:
        if part in SPLITS:
            texts = zip(codes, fields, strict=True)
            found[part].sentences.append({code: text for code, text in texts if text})
        else:
            first, second, grade = fields
            row = int(first), int(second), float(grade)
            found[part.removeprefix("graded-")].graded.append(row)
    return found


def _checked(languages: Sequence[str]) -> list[str]:
    codes = list(dict.fromkeys(languages))
    at_least(1, languages=len(codes))
    for code in codes:
        one_of(LANGUAGES, languages=code)
    return codes
