"""Write public corpora into a data folder, in the layout that recipes read."""

import gzip
import hashlib
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, one_of
from keras_msd.data.cleaning import normalize
from keras_msd.data.readers.discover import expanded
from keras_msd.data.readers.tables import parquet_rows
from keras_msd.files import atomic_path

Pair = tuple[str, str]

ONE_IN = 200
LARGEST = 1000
NOT_WORDS = re.compile(r"[\W_]+")
LOW, HIGH = 0, 5
COLUMNS = {
    "parallel": ("english", "non_english"),
    "sts": ("score", "sentence1", "sentence2"),
    "tatoeba": ("sentence2", "sentence1"),
}


def write_corpus(
    source: str | Path | Iterable[Any],
    folder: str | Path,
    name: str,
    language: str,
    layout: str = "parallel",
    split: str = "test",
    columns: Sequence[str] | None = None,
) -> dict[str, int]:
    """Write a public corpus into a data folder, as recipes and evaluations read it.

    Texts are normalised, and pairs with an empty side are left out.

    Args:
        source: Parquet files: a path, a pattern, or a place that fsspec reaches, such
            as `hf://datasets/.../en-de/*.parquet`. Or rows in memory: mappings, or
            tuples in the order of `columns`, such as the pairs of `read_pairs`.
        folder: The data folder.
        name: Name of the corpus, as recipes call it.
        language: Code of the language other than English. For "sts" also a pair such
            as `en-de`; for "tatoeba" the three-letter code.
        layout: "parallel" writes `parallel/train/<name>.en-<language>.tsv.gz` and holds
            out one English sentence in 200 for `parallel/dev/`, at most 1,000. "sts"
            writes `sts/<name>.<split>.<language>.tsv.gz`, with scores from 0 to 5.
            "tatoeba" writes `tatoeba/tatoeba.<language>-eng.tsv.gz`.
        split: The split that "sts" puts into the file's name.
        columns: Columns to read. By default `english` and `non_english` for "parallel",
            `score`, `sentence1` and `sentence2` for "sts", and `sentence2` (English)
            and `sentence1` for "tatoeba".

    Returns:
        Number of rows by path in the folder.

    Raises:
        InputError: A file is missing or damaged, a column is missing, a score is out of
            range, or no row is left.

    Example:
        >>> rows = [{"english": "A house.", "non_english": "Ein Haus."}]
        >>> msd.data.write_corpus(rows, "DATA", "talks", "de")
        {'parallel/train/talks.en-de.tsv.gz': 1}
    """
    one_of(COLUMNS, layout=layout)
    chosen = tuple(columns or COLUMNS[layout])
    if len(chosen) != len(COLUMNS[layout]):
        raise InputError(
            f"`columns` must be as many as {COLUMNS[layout]} for the layout {layout!r}."
            f" Received: {chosen}. Give their names in that order."
        )
    rows, folder = _fields(source, chosen), Path(folder)
    if layout == "parallel":
        return _write_parallel(_full(rows), folder, f"{name}.en-{language}.tsv.gz")
    path = f"tatoeba/tatoeba.{language}-eng.tsv.gz"
    fields: Iterable[Sequence[str]] = _full(rows)
    if layout == "sts":
        path, fields = f"sts/{name}.{split}.{language}.tsv.gz", _scored(rows)
    return {path: write_rows(folder / path, _some(fields))}


def _write_parallel(pairs: Iterable[Pair], folder: Path, name: str) -> dict[str, int]:
    """Write training and development pairs; a hash of the English sentence decides.

    The hash leaves out case, punctuation and spaces. So the same sentence is held out
    of every corpus and language, and the order of the rows does not count. Of the pairs
    held out, those with the smallest hashes are the development set, each English
    sentence once.
    """
    held: dict[int, Pair] = {}

    def training() -> Iterator[Pair]:
        for pair in pairs:
            key = NOT_WORDS.sub("", pair[0].casefold()).encode()
            number = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
            if number < 2**64 // ONE_IN:
                held.setdefault(number, pair)
            else:
                yield pair

    train, dev = (f"parallel/{part}/{name}" for part in ("train", "dev"))
    written = {train: write_rows(folder / train, _some(training()))}
    if held:
        kept = (held[number] for number in sorted(held)[:LARGEST])
        written[dev] = write_rows(folder / dev, kept)
    return written


def _fields(
    source: str | Path | Iterable[Any], columns: Sequence[str]
) -> Iterator[tuple[str, list[Any]]]:
    """Yield (where, the fields of a row in the order of `columns`)."""
    rows: Iterable[tuple[str, Any]]
    if isinstance(source, str | Path):
        rows = (
            (f"`{path}`, row {number}", row)
            for path in expanded(source)
            for number, row in enumerate(parquet_rows(path), 1)
        )
    else:
        rows = ((f"`source`, row {n}", row) for n, row in enumerate(source, 1))
    for where, row in rows:
        if isinstance(row, Mapping):
            missing = [name for name in columns if name not in row]
            if missing:
                raise InputError(
                    f"{where}: the column `{missing[0]}` is missing. Received: "
                    f"{', '.join(map(str, row))}. Give the names in `columns`."
                )
            yield where, [row[name] for name in columns]
        elif isinstance(row, Sequence) and not isinstance(row, str):
            yield where, list(row[: len(columns)])
        else:
            raise InputError(
                f"{where}: a row must be a mapping or a tuple. Received: {row!r:.80}."
            )


def _full(rows: Iterable[tuple[str, list[Any]]]) -> Iterator[Pair]:
    for where, fields in rows:
        if len(fields) != 2 or not all(isinstance(text, str) for text in fields):
            raise InputError(
                f"{where}: a row must have two texts. Received: {fields!r:.80}."
            )
        first, second = map(normalize, fields)
        if first and second:
            yield first, second


def _scored(rows: Iterable[tuple[str, list[Any]]]) -> Iterator[tuple[str, str, str]]:
    for where, fields in rows:
        try:
            score, first, second = fields
            fits = LOW <= float(score) <= HIGH and math.isfinite(float(score))
        except (TypeError, ValueError):
            fits = False
        if not fits or not isinstance(first, str) or not isinstance(second, str):
            raise InputError(
                f"{where}: a row must have a score from {LOW} to {HIGH} and two texts. "
                f"Received: {fields!r:.120}."
            )
        yield f"{float(score):.6g}", first, second


def _some(rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        raise InputError(
            "`source` must hold a row with text on both sides. Received: none. Look "
            "at the files and at `columns`."
        )
    return chain([first], rows)


def write_rows(path: Path, rows: Iterable[Sequence[str]]) -> int:
    """Write rows as gzip-compressed TSV and return their number.

    Equal rows give equal bytes. The fields are normalised, so that none holds a tab or
    an end of line.
    """
    count = 0
    with (
        atomic_path(path) as temporary,
        open(temporary, "wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        io.TextIOWrapper(packed, "utf-8", newline="\n") as text,
    ):
        for fields in rows:
            text.write("\t".join(map(normalize, fields)) + "\n")
            count += 1
    return count
