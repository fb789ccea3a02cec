"""What a plan knows of a recipe's pairs: how many, how long, how they are padded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_msd.arrays import padded_length
from keras_msd.checks import InputError, at_least
from keras_msd.data.cleaning import Cleaning, normalize
from keras_msd.data.order import MULTIPLE, WINDOW_BATCHES, BatchStream
from keras_msd.data.pair import PairFile, Pairs, pair_code
from keras_msd.data.readers.lines import DirtyRows
from keras_msd.data.text_table import SIDES, FileRange
from keras_msd.plan.memory import Batch
from keras_msd.recipes.runs.parallel_files import corpus_of, training_pairs
from keras_msd.recipes.schema.recipe import Recipe

PER_FILE = 2000  # pairs of a file that are looked at
# Of sentences that are not there to look at: tokens of an English line and of a
# translation, start and end included, spread as those of news and talks are.
TOKENS, SPREAD, ROWS = (24.0, 28.0), 0.5, 4096
BYTES_A_TOKEN = 4.0


class Corpus(NamedTuple):
    """The pairs of a recipe, as far as a plan needs them.

    Attributes:
        pairs: How many there are after cleaning.
        languages: Share of each pair of languages.
        files: Ranges of the pairs that were looked at.
        lengths: Their tokens, `(n, 2)`, source and target.
        teacher_lengths: The same in the teacher's tokens.
        sizes: UTF-8 bytes of a source line and of a translation, on average.
        distinct: Share of the source lines, and of both sides' lines, that are left
            without repetitions.
        notes: What is assumed.
    """

    pairs: float
    languages: dict[str, float]
    files: tuple[FileRange, ...]
    lengths: np.ndarray
    teacher_lengths: np.ndarray
    sizes: tuple[float, float]
    distinct: tuple[float, float]
    notes: tuple[str, ...]

    def limited(self, per_language: int | None) -> float:
        """Return the pairs of a stage that takes so many of each pair of languages."""
        counts = (self.pairs * share for share in self.languages.values())
        return sum(min(count, per_language or count) for count in counts)

    def batches(self, recipe: Recipe, settings: Any) -> list[Batch]:
        """Return shapes of batches that a stage draws, in the order of training.

        Args:
            recipe: Has the temperature, the weights and the longest sentence.
            settings: The stage's.
        """
        size = settings.batch_size
        table = _Table(self, recipe.data.max_length, WINDOW_BATCHES * size)
        names = {file.name for file in self.files}
        factors = recipe.data.weights or {}
        weights = {
            it: factors[corpus_of(it)] for it in names if corpus_of(it) in factors
        }
        stream = BatchStream(
            table,
            size,
            settings.token_budget,
            temperature=recipe.data.temperature,
            weights=weights or None,
        )
        count = min(WINDOW_BATCHES, stream.steps(1))
        return [table.shape(stream.rows(position)) for position in range(count)]


class _Table:
    """The pairs that were looked at, repeated until a window of batches is full."""

    def __init__(self, corpus: Corpus, max_length: int, least: int) -> None:
        self.max_length = max_length
        times = -(-min(least, max(corpus.pairs, 1)) // len(corpus.lengths))
        each = [corpus.lengths[file.start : file.stop] for file in corpus.files]
        repeated = [np.tile(part, (int(times), 1)) for part in each]
        self._lengths = np.concatenate(repeated)
        ends = np.cumsum([len(part) for part in repeated]).tolist()
        self.files = [
            replace(file, start=end - len(part), stop=end)
            for file, part, end in zip(corpus.files, repeated, ends, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._lengths)

    def lengths(self, side: str, rows: np.ndarray) -> np.ndarray:
        return self._lengths[rows, SIDES.index(side)]

    def shape(self, rows: np.ndarray) -> Batch:
        """Return the shape of a batch of these rows."""
        longest = self._lengths[rows].max(axis=0).tolist()
        return Batch(len(rows), *(padded_length(it, self.max_length) for it in longest))


def assumed_corpus(recipe: Recipe, pairs: float | None, tokens: float | None) -> Corpus:
    """Return a corpus of which nothing is there to look at.

    Args:
        recipe: Names the languages, and perhaps limits.
        pairs: How many pairs, None for what the recipe is limited to.
        tokens: Tokens of a sentence, None for those assumed.

    Raises:
        InputError: Neither says how many pairs there are.
    """
    at_least(4, tokens=tokens)
    limit = recipe.data.pairs_per_language
    codes = recipe.data.languages
    notes: list[str] = []
    if pairs is None:
        if limit is None:
            raise InputError(
                f"The recipe `{recipe.recipe.name}` at scale {recipe.scale} has no "
                "limit of pairs. Received: neither pairs nor data. Give --pairs 50M, "
                "or --data with the folder."
            )
        pairs = limit * len(codes)
        notes.append(f"{limit:,} pairs in each of {len(codes)} languages")
    means = (tokens, tokens) if tokens else TOKENS
    notes.append(f"sentences of {means[0]:g} and {means[1]:g} tokens on average")
    notes.append("no sentence twice")
    drawn = np.random.default_rng(0).normal(size=(ROWS, 1))
    spread = np.exp(SPREAD * drawn - SPREAD**2 / 2)  # of mean 1
    lengths = np.clip(spread * means, 3, recipe.data.max_length).round().astype(int)
    source, target = (BYTES_A_TOKEN * mean for mean in means)
    return Corpus(
        pairs,
        {code: 1 / len(codes) for code in codes},
        (FileRange("assumed", codes[0], 0, ROWS),),
        lengths,
        lengths,
        (source, target),
        (1.0, 2.0),
        tuple(notes),
    )


def sampled_corpus(
    recipe: Recipe, data_dirs: Sequence[Path], pairs: float | None
) -> Corpus:
    """Return a corpus from a look at the first pairs of each of its files.

    Args:
        recipe: Names the corpora.
        data_dirs: The data folders; none for a recipe that makes its pairs.
        pairs: How many pairs, None for what the files and the recipe's limits give.

    Raises:
        InputError: A file cannot be read, or more has to be known of how many pairs
            there are.
    """
    rows, files, whole = _look(recipe, data_dirs)
    if not rows:
        raise InputError(
            "There must be pairs that pass the filters. Received: none in the first "
            f"{PER_FILE} of each file. Give other files."
        )
    counts: dict[str, float] = {}
    for file in files:
        code = pair_code(file.source_language, file.language)
        counts[code] = counts.get(code, 0) + file.stop - file.start
    limit = recipe.data.pairs_per_language
    notes: list[str] = []
    if whole:
        counts = {code: min(it, limit or it) for code, it in counts.items()}
    else:
        notes.append(f"the first {PER_FILE:,} pairs of each file are like the others")
        if pairs is None and limit is None:
            raise InputError(
                f"Of longer files the first {PER_FILE:,} pairs are looked at, which "
                "does not say how many there are. Received: no number of pairs. Give "
                "--pairs 50M."
            )
        counts = {code: float(limit or 1) for code in counts}
        if pairs is None:
            notes.append(f"{limit:,} pairs in each pair of languages")
    total = sum(counts.values())
    lengths, of_teacher, more = _lengths(recipe, rows)
    sides = [[row[side].encode() for row in rows] for side in range(2)]
    sizes = [sum(map(len, side)) / len(rows) for side in sides]
    distinct = len(set(sides[0])) / len(rows), len({*sides[0], *sides[1]}) / len(rows)
    return Corpus(
        total if pairs is None else pairs,
        {code: it / total for code, it in counts.items()},
        tuple(files),
        lengths,
        of_teacher,
        (sizes[0], sizes[1]),
        distinct,
        (*notes, *more),
    )


def _look(
    recipe: Recipe, data_dirs: Sequence[Path]
) -> tuple[list[tuple[str, str]], list[FileRange], bool]:
    """Return pairs, whose they are, and whether these are all that there are."""
    settings = recipe.data
    rows: list[tuple[str, str]] = []
    files: list[FileRange] = []
    whole = True
    seen: set[tuple[str, ...]] = set()
    most = min(PER_FILE, settings.pairs_per_file or PER_FILE)
    for file in _files(recipe, data_dirs):
        start, stream = len(rows), _clean(file, settings)
        found = list(islice(stream, most))
        limited = settings.pairs_per_file == len(found)
        whole = whole and (limited or next(stream, None) is None)
        for row in found:
            if (key := (*file.languages, *row)) not in seen:
                seen.add(key)
                rows.append(row)
        if len(rows) > start:
            of = FileRange(
                file.name, file.language, start, len(rows), file.source_language
            )
            files.append(of)
    return rows, files, whole


def _files(recipe: Recipe, data_dirs: Sequence[Path]) -> Sequence[PairFile]:
    settings = recipe.data
    if settings.kind != "made":
        return training_pairs(recipe, *data_dirs)
    from keras_msd.data.made.corpus import made_pairs

    each = min(settings.pairs_per_language or 1000, PER_FILE + 1)
    count = each * len(settings.languages)
    made = made_pairs(count, settings.languages, settings.seed)
    return Pairs.from_list(made).files


def _clean(file: PairFile, settings: Any) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a file that pass the filters."""
    cleaning = Cleaning(max_chars=settings.max_characters)
    dirty = DirtyRows(settings.dirty_rows or 0)
    rows = file.skipping(dirty=dirty) if file.skipping else file.iterate()
    for source, target in rows:
        row = normalize(source), normalize(target)
        if cleaning.reason(*row) is None:
            yield row


def _lengths(
    recipe: Recipe, rows: Sequence[tuple[str, str]]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return tokens of rows for the models and for the teacher, and what is assumed."""
    texts = [[row[side] for row in rows] for side in range(2)]
    longest, source = recipe.data.max_length, recipe.tokenizer.source
    teacher = recipe.teacher.source
    notes: list[str] = []
    own: Any = None
    if source in ("train", "extended"):
        from keras_msd.tokenizers.sentencepiece import train_unigram

        settings = recipe.tokenizer
        size = settings.vocabulary_size or 0  # the schema asks for one
        both = [*texts[0], *texts[1]]
        fold = settings.case_fold
        own = train_unigram(both, size, at_most=True, case_fold=fold)
    else:
        owner = teacher if source == "teacher" else recipe.assistant.source
        own = _tokenizer(owner)
    reads = _tokenizer(teacher)
    if own is None:
        notes.append(f"{BYTES_A_TOKEN:g} bytes a token: the tokenizer was not fetched")
    found = _counted(own, texts, longest)
    return found, found if reads is None else _counted(reads, texts, longest), notes


def _tokenizer(source: str) -> Any | None:
    """Return an encoder's tokenizer, None of one on a hub and of what is no encoder."""
    if source.startswith("hf://"):
        return None
    from keras_msd.teachers.teacher import teacher_encoder

    encoder = teacher_encoder(source)
    return None if encoder is None else encoder.tokenizer


def _counted(tokenizer: Any, texts: Sequence[list[str]], longest: int) -> np.ndarray:
    """Return the tokens of both sides, `(n, 2)`."""
    if tokenizer is None:
        sizes = [
            [len(text.encode()) / BYTES_A_TOKEN + 2 for text in it] for it in texts
        ]
        return np.clip(np.array(sizes).T, 3, longest).round().astype(int)
    ids = [tokenizer.encode(side, longest) for side in texts]
    return np.array([[len(one) for one in side] for side in ids]).T


def padded_to_multiple(lengths: np.ndarray) -> np.ndarray:
    """Return lengths as encoders pad them, which go through texts by length."""
    return -(-lengths // MULTIPLE) * MULTIPLE
