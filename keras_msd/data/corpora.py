"""Corpora for a data folder: public ones, and the example sentences.

The examples are an excerpt of Tatoeba in eight languages, `examples.tsv.gz`, which
`examples.md` describes. They serve the demo, smoke runs and tests.
"""

import gzip
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.checks import InputError, at_least, one_of
from keras_msd.choices import CLASSES
from keras_msd.data.pair import ENGLISH, GradedPair, Pair, normalize
from keras_msd.data.readers import expanded
from keras_msd.data.readers.tables import parquet_rows
from keras_msd.io.files import atomic_path

ONE_IN = 200  # English sentences, of which one is held out
LARGEST = 1000  # sentences of a development set
NOT_WORDS = re.compile(r"[\W_]+")
LOW, HIGH = 0, 5  # similarity scores
COLUMNS = {
    "parallel": ("english", "non_english"),
    "sts": ("score", "sentence1", "sentence2"),
    "tatoeba": ("sentence2", "sentence1"),
}
# Licences of public corpora, as the cards of exported encoders state them.
LICENCES = {
    "europarl": (
        "no known copyright restrictions; the European Parliament asks to be named"
    ),
    "news-commentary": "none stated by OPUS; WMT publishes it for research",
    "opensubtitles": "none stated by OPUS, which asks to link to opensubtitles.org",
    "tatoeba": "CC BY 2.0 FR (Tatoeba's contributors)",
    "ted2020": "CC BY-NC-ND 4.0 (TED Talks Usage Policy): no commercial use",
    "wikimatrix": "CC BY-SA (Wikipedia)",
}
FILE = Path(__file__).with_name("examples.tsv.gz")
LANGUAGES = ("de", "es", "fr", "ja", "nl", "tr", "zh")
LICENCE = "CC BY 2.0 FR (Tatoeba's contributors, https://tatoeba.org)"
SPLITS = ("train", "dev")
SAME, RELATED = 4.0, 2.0  # lowest grades of "entailment" and "neutral"


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
    rows, folder = _rows(source, chosen, layout == "sts"), Path(folder)
    if layout == "parallel":
        return _write_parallel(rows, folder, f"{name}.en-{language}.tsv.gz")
    path = f"tatoeba/tatoeba.{language}-eng.tsv.gz"
    if layout == "sts":
        path = f"sts/{name}.{split}.{language}.tsv.gz"
    return {path: write_rows(folder / path, _some(rows))}


def _write_parallel(
    pairs: Iterable[list[str]], folder: Path, name: str
) -> dict[str, int]:
    """Write training and development pairs; a hash of the English sentence decides.

    The hash leaves out case, punctuation and spaces. So the same sentence is held out
    of every corpus and language, and the order of the rows does not count. Of the pairs
    held out, those with the smallest hashes are the development set, each English
    sentence once.
    """
    held: dict[int, list[str]] = {}

    def training() -> Iterator[list[str]]:
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


def _rows(
    source: str | Path | Iterable[Any], columns: Sequence[str], scored: bool
) -> Iterator[list[str]]:
    """Yield the texts of each row, normalised, behind the score if there is one."""
    rows: Iterable[tuple[str, Any]]
    if isinstance(source, str | Path):
        rows = (
            (f"`{path}`, row {number}", row)
            for path in expanded(source)
            for number, row in enumerate(parquet_rows(path), 1)
        )
    else:
        rows = ((f"`source`, row {n}", row) for n, row in enumerate(source, 1))
    rule = f"a score from {LOW} to {HIGH} and two texts" if scored else "two texts"
    for where, row in rows:
        if isinstance(row, Mapping):
            if missing := [name for name in columns if name not in row]:
                raise InputError(
                    f"{where}: the column `{missing[0]}` is missing. Received: "
                    f"{', '.join(map(str, row))}. Give the names in `columns`."
                )
            row = [row[name] for name in columns]
        fields = list(row[: len(columns)]) if isinstance(row, list | tuple) else []
        scores, texts = fields[:-2], fields[-2:]
        whole = len(fields) == len(columns) and all(map(_is_score, scores))
        if not whole or not all(isinstance(text, str) for text in texts):
            raise InputError(
                f"{where}: a row must have {rule}. Received: {row!r:.120}."
            )
        texts = list(map(normalize, texts))
        if scored or all(texts):
            yield [*(f"{float(score):.6g}" for score in scores), *texts]


def _is_score(value: Any) -> bool:
    try:
        return LOW <= float(value) <= HIGH
    except (TypeError, ValueError):
        return False


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
    codes = _checked(languages, split, count)
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
) -> dict[str, list[GradedPair]]:
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
    codes = _checked(languages, split, count)
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


def _checked(
    languages: Sequence[str], split: str = "train", count: int | None = None
) -> list[str]:
    codes = list(dict.fromkeys(languages))
    at_least(1, languages=len(codes), count=count)
    one_of(SPLITS, split=split)
    for code in codes:
        one_of(LANGUAGES, languages=code)
    return codes
