"""The Tatoeba test set, as LASER lays it out or in our TSV files."""

import re
from collections.abc import Iterable
from pathlib import Path

from keras_msd.data.readers import moses
from keras_msd.evaluate.set_files import Layout, check_parts, find_parts, read_part
from keras_msd.evaluate.tables import read_table

NAMES = (
    "the Tatoeba test set. Its files are `tatoeba.<xxx>-eng.tsv.gz` (keras-msd data "
    "get tatoeba) or, as LASER has them, `tatoeba.<xxx>-eng.<xxx>` with "
    "`tatoeba.<xxx>-eng.eng`. Add what is missing, or leave the languages out."
)


def read_tatoeba(
    folder: str | Path, languages: Iterable[str] | None = None
) -> dict[str, list[tuple[str, str]]]:
    """Read the pairs of each language.

    Args:
        folder: Holds the files at any depth; each is known by its name.
        languages: Three-letter codes, such as `deu`, or two-letter ones; None for all
            there are, 112 in LASER's set.

    Returns:
        Three-letter code to pairs of (English, other language), in the order given.

    Raises:
        InputError: A language is missing, its two sides are not of one length, or a
            file is damaged.

    Source: Artetxe and Schwenk 2019, section 4.3.
    """
    found = find_parts(folder, LAYOUTS, lambda match: match[1])
    if languages is None:
        wanted = sorted(found) or ["every language"]
    else:
        wanted = list(_codes(languages))
    check_parts(found, wanted, NAMES, folder)
    return {code: read_part(found[code], len) for code in wanted}


def _codes(languages: Iterable[str]) -> dict[str, None]:
    from keras_msd.data.corpora import corpus

    known = corpus("tatoeba").codes
    names = known | {"zho": "cmn", "no": "nob"}  # what others call them
    return dict.fromkeys(names.get(code, code) for code in languages)


def _read_table(path: Path) -> list[tuple[str, str]]:
    return [(english, other) for _, (english, other) in read_table(path, 2)]


def _read_laser(path: Path) -> list[tuple[str, str]]:
    return list(moses.read(path, path.stem.removesuffix("-eng").rpartition(".")[2]))


LAYOUTS = (
    Layout(re.compile(r"tatoeba\.([a-z]{3})-eng\.tsv\.gz"), _read_table),
    Layout(re.compile(r"tatoeba\.([a-z]{3})-eng\.eng"), _read_laser),
)
