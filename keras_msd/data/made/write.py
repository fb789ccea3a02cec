"""The made corpus as a data folder."""

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_msd.checks import at_least
from keras_msd.data.made.lexicon import LANGUAGES
from keras_msd.data.made.pairs import SPLITS, check_languages, made_pairs
from keras_msd.data.made.sts import made_sts
from keras_msd.files import atomic_path

DEV_PAIRS = 500
STS_ROWS = 600


def write_made_data(
    folder: str | Path,
    languages: Sequence[str] = LANGUAGES,
    pairs: int = 5000,
    dev_pairs: int = DEV_PAIRS,
    sts_rows: int = STS_ROWS,
    seed: int = 0,
    sts_train_rows: int = 0,
) -> Path:
    """Write the corpus in the layout of a folder of real data.

    `parallel/{train,dev}/made.en-<xx>.tsv.gz` (English TAB other language) and
    `sts/made.{dev,train}.<xx>.tsv.gz` (score TAB sentence 1 TAB sentence 2), English
    among the latter. The same arguments give the same bytes. Each file appears
    complete.

    Args:
        folder: Made if it is not there.
        languages: Codes out of `LANGUAGES`.
        pairs: Training pairs for each language.
        dev_pairs: Held-out pairs for each language.
        sts_rows: Rows of each similarity file.
        seed: As in `made_pairs`.
        sts_train_rows: Rows of each similarity file to train on; none by default.

    Returns:
        The folder.

    Raises:
        InputError: A language is unknown, or a number is not positive.
    """
    folder, codes = Path(folder), check_languages(languages)
    at_least(1, pairs=pairs, dev_pairs=dev_pairs, sts_rows=sts_rows)
    for split, number in zip(SPLITS, (pairs, dev_pairs), strict=True):
        made = made_pairs(number * len(codes), codes, seed, split)
        for code in codes:
            rows = (pair[:2] for pair in made if pair.language == code)
            _write(folder / "parallel" / split / f"made.en-{code}.tsv.gz", rows)
    for code, scored in made_sts(sts_rows + sts_train_rows, codes, seed).items():
        lines = [(f"{gold:g}", first, second) for gold, first, second in scored]
        _write(folder / "sts" / f"made.dev.{code}.tsv.gz", lines[:sts_rows])
        if sts_train_rows:
            _write(folder / "sts" / f"made.train.{code}.tsv.gz", lines[sts_rows:])
    return folder


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in rows)
    # No time and no name in the header: the same rows give the same bytes.
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(text.encode(), mtime=0))
