"""Parallel corpora become `parallel/` and `tatoeba/` of a data folder."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_msd.checks import InputError
from keras_msd.data.cleaning import normalise
from keras_msd.data.corpora.archives import open_zip, zip_lines, zip_member
from keras_msd.data.corpora.catalogue import Corpus, Portion
from keras_msd.data.corpora.split import DevSplit, Row
from keras_msd.data.corpora.tables import table
from keras_msd.data.readers.lines import read_lines
from keras_msd.data.readers.moses import aligned
from keras_msd.progress import track

Rows = dict[str, int]  # rows written, by path in the data folder


def moses(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Split the two texts of an OPUS archive into training and development pairs.

    Texts are normalised and pairs with an empty side left out; see `DevSplit` for the
    development set.
    """
    (language,) = portion.languages
    name = f"{corpus.name}.en-{language}.tsv.gz"
    paths = {part: f"parallel/{part}/{name}" for part in ("train", "dev")}
    split, trained = DevSplit(), 0
    with open_zip(files[0]) as archive, table(out / paths["train"]) as write:
        ends = [zip_member(archive, f".{code}") for code in ("en", portion.code)]
        both = aligned([zip_lines(archive, end) for end in ends], ends)
        for pair in track(_full(both), what=f"{name}, pairs"):
            if not split.holds_out(*pair):
                write(*pair)
                trained += 1
        if not trained:
            raise InputError(
                f"`{files[0]}` holds no pair with text on both sides. Delete it and "
                "give the command again."
            )
        if split.kept:
            with table(out / paths["dev"]) as write_dev:
                for pair in split.rows():
                    write_dev(*pair)
    rows = {paths["train"]: trained, paths["dev"]: len(split.kept)}
    return {path: count for path, count in rows.items() if count}


def tatoeba(corpus: Corpus, portion: Portion, files: list[Path], out: Path) -> Rows:
    """Put the English and the other text side by side, in their order."""
    path = f"tatoeba/tatoeba.{portion.code}-eng.tsv.gz"
    both = aligned([read_lines(file) for file in files], [f.name for f in files])
    count = 0
    with table(out / path) as write:
        for pair in _full(both):
            write(*pair)
            count += 1
    return {path: count}


def _full(pairs: Iterable[Row]) -> Iterator[Row]:
    for source, target in pairs:
        pair = normalise(source), normalise(target)
        if all(pair):
            yield pair
