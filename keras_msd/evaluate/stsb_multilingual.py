"""The STS benchmark in several languages, as published or in our layout."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, one_of
from keras_msd.data.readers.csv_rows import csv_rows
from keras_msd.data.readers.lines import read_lines
from keras_msd.evaluate.set_files import (
    Layout,
    check_parts,
    find_parts,
    read_part,
    sorted_gold,
)
from keras_msd.evaluate.sts import PIVOT, Row, read_sts, sts_aligned
from keras_msd.evaluate.tables import finite_number
from keras_msd.evaluate.vectors import SentenceEncoder

PAIRS = {"train": 5749, "dev": 1500, "test": 1379}
ORDER = ("sentence1", "sentence2", "score")
SCORE_NAMES = ("score", "similarity_score")
NAMES = (
    "the multilingual STS benchmark, part {split}. Its files are "
    "`stsb-<xx>-{split}.csv` (or .tsv) as published, or `stsb.{split}.<xx>.tsv.gz` "
    "(keras-msd data get stsb-multi-mt). Add what is missing, or give `languages`."
)


def stsb_multilingual(
    encoder: SentenceEncoder,
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str = "test",
    pairs: bool = True,
) -> dict[str, Any]:
    """Score the multilingual STS benchmark, within and across languages.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`; it sees each distinct
            sentence of all languages once.
        folder: Holds the files at any depth; each is known by its name.
        languages: Two-letter codes; English is always read. None for all there are.
        split: "train", "dev" or "test".
        pairs: Refuse files that have not the part's number of pairs (`PAIRS`).

    Returns:
        As `sts_aligned`.

    Raises:
        InputError: A language is missing, damaged, incomplete, not aligned with
            English, or there twice with differing scores.

    Source: Cer et al. 2017; translations by May 2021 (stsb-multi-mt).
    """
    rows = read_stsb_multilingual(folder, languages, split, pairs)
    return sts_aligned(encoder, rows)


def read_stsb_multilingual(
    folder: str | Path,
    languages: Iterable[str] | None = None,
    split: str = "test",
    pairs: bool = True,
) -> dict[str, list[Row]]:
    """Read what `stsb_multilingual` scores: rows by language code, English first."""
    one_of(PAIRS, split=split)

    def language(match: re.Match[str]) -> str | None:
        return match["language"] if match["split"] == split else None

    found = find_parts(folder, LAYOUTS, language)
    others = sorted(found) if languages is None else languages
    wanted = list(dict.fromkeys([PIVOT, *others]))
    check_parts(found, wanted, NAMES.format(split=split), folder)
    size = PAIRS[split] if pairs else None
    return {code: read_part(found[code], sorted_gold, size) for code in wanted}


def read_delimited(path: Path) -> list[Row]:
    """Read `sentence1`, `sentence2`, `score` of a CSV or TSV file, plain or gzip.

    A first row with these names (or `similarity_score`) may give them in any order.
    Only CSV has quotes.

    Returns:
        Rows of `(gold, sentence 1, sentence 2)`.

    Raises:
        InputError: A row has not three fields, or its score is no finite number.
    """
    rows: list[Row] = []
    order = (0, 1, 2)
    for index, (where, fields) in enumerate(_records(path)):
        if len(fields) != 3:
            raise InputError(
                f"{where}: a row must be {', '.join(ORDER)}. Received: {len(fields)} "
                "fields. Get the file again."
            )
        names = ["score" if name in SCORE_NAMES else name for name in fields]
        if index == 0 and sorted(names) == sorted(ORDER):
            order = (names.index(ORDER[0]), names.index(ORDER[1]), names.index("score"))
            continue
        one, two, gold = (fields[column] for column in order)
        rows.append((finite_number(gold, where), one, two))
    return rows


def _records(path: Path) -> Iterator[tuple[str, list[str]]]:
    if ".tsv" in path.suffixes:
        for number, line in read_lines(path):
            yield f"`{path}`, line {number}", line.split("\t")
    else:
        yield from csv_rows(path)


CODE, SPLIT = r"(?P<language>[a-z]{2})", r"(?P<split>train|dev|test)"
LAYOUTS = (
    Layout(re.compile(rf"stsb\.{SPLIT}\.{CODE}\.tsv\.gz"), read_sts),
    Layout(re.compile(rf"stsb-{CODE}-{SPLIT}\.(?:csv|tsv)(?:\.gz)?"), read_delimited),
)
