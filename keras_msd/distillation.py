"""Distil a teacher into a small encoder, using your own sentence pairs."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import compress, product
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_msd import checks
from keras_msd.checkpoints.packaged import is_installed
from keras_msd.checks import InputError
from keras_msd.choices import MAX_LENGTH, MIN_PAIRS
from keras_msd.data.batches import PairBatches, check_reads
from keras_msd.data.cleaning import Cleaning, normalize
from keras_msd.data.examples import example_pairs, example_similarity
from keras_msd.data.pair import Pair, PairFile, Pairs, pair_code
from keras_msd.data.readers.discover import check_pairs, read_pairs
from keras_msd.data.readers.tables import pairs_of_rows
from keras_msd.data.store import GuideStore
from keras_msd.data.text_table import TextTable
from keras_msd.data.write import write_rows
from keras_msd.distribute.devices import device_settings
from keras_msd.evaluate.callbacks import ScoreCallback
from keras_msd.evaluate.similarity import sts, sts_tracks
from keras_msd.evaluate.splits import CHOOSE, REPORT, half_of
from keras_msd.evaluate.translations import TEXT, read_held_out, retrieval_languages
from keras_msd.evaluate.vectors import mean_score
from keras_msd.io.files import atomic_path, read_json, remove, text_hash, write_json
from keras_msd.load import check_source, load_encoder, load_teacher
from keras_msd.models.encoder import load_saved
from keras_msd.progress import Progress
from keras_msd.stages.contrastive_learning import ContrastiveLearning
from keras_msd.starts.ridge import (
    BothSides,
    closed_form_encoder,
    extend_vocabulary,
    fit_ridge,
)
from keras_msd.teachers.teacher import Teacher
from keras_msd.teachers.vectors import HASHED_WORDS
from keras_msd.tokenizers.sentencepiece import extend_unigram, train_unigram
from keras_msd.training.optimizer import make_optimizer
from keras_msd.training.resume import fit

PAIRS, KNOWN = "pairs", "tiny12"  # values of `start`
START, TRAINED, CLOSED_FORM = "start", "trained", "closed_form"  # values of `kept`
HELD_OUT_SHARE = 1 / 8  # share of source sentences, chosen by hash
MAX_HELD_OUT = 2000  # held-out pairs per language
CLEANING = Cleaning(max_chars=None, max_words=None)  # the encoder cuts long texts
SHIFTS = 5  # graded pairs per held-out sentence
RIDGE = 0.3  # penalty of the ridge baseline
# Chosen in trials with German, Turkish and Korean pairs.
TEMPERATURE, PATIENCE = 0.1, 10
SCORE_EVERY = 20  # training steps
CHECKPOINT_MINUTES = 1.0
HASHED_DIM = 64  # dimension of "hashed-words", a teacher for tests
GENERAL_SHARE = 0.25  # share of general pairs, if training starts from an encoder
GENERAL_PAIRS = 1000  # general training pairs per language
GENERAL_ROWS = 600  # graded general pairs per language, for evaluation


Counts = dict[str, dict[str, int]]  # by language, by use or reason


def distil(
    pairs: Any,
    out_dir: str | Path,
    language: str | None = None,
    source_language: str | None = None,
    format: str | None = None,
    columns: Sequence[str | int] | None = None,
    teacher: Any = "default",
    multilingual: bool = False,
    start: str | Path | None = None,
    guard: float | None = 0.5,
    minutes: float = 5.0,
    updates: int = 20_000,
    batch_size: int = 1024,
    learning_rate: float = 7e-4,
    vocabulary_size: int | None = None,
    store_dir: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """Distil a teacher into a small encoder, using your own sentence pairs.

    One source sentence in eight is held out with its translations; a hash of the text
    decides which. The tuning half of these pairs selects the checkpoint and the final
    encoder. The reporting half is used only for the scores of the report.

    Training starts from tiny12 or from the ridge baseline. tiny12 first gets new rows
    for the tokens of your pairs that it lacks. The ridge baseline ("closed form") is a
    token embedding table, fitted by ridge regression of the teacher's vectors on the
    token counts of your sentences. The encoder is trained to retrieve translations.
    Training stops when the score on the tuning half stops improving, or after
    `minutes`.

    If training starts from tiny12 or another encoder, that encoder should not forget
    what it knows. So a quarter of the training pairs are general ones: sentences of
    Tatoeba in eight languages, which ship with the library. A checkpoint is rejected if
    a score on held-out general pairs falls by more than `guard` points.

    The result is the trained encoder if it retrieves more pairs of the tuning half than
    the encoder at the start of training. Otherwise it is the encoder at the start. If
    `guard` is None, it is the ridge baseline if that is better than both.

    `out_dir` then contains:

    - `encoder/`: the result, for `load_encoder`.
    - `report.json`: the scores.
    - `data/`: the pairs after the split.
    - `start/`, `closed_form/`: the encoders that the result is compared with.

    Repeat the same call to resume an interrupted one.

    Args:
        pairs: Paths of files that `read_pairs` accepts, or rows in memory: a pandas
            `DataFrame`, rows of Hugging Face datasets, `(source, target)` tuples,
            `Pair`s.
        out_dir: Folder for the encoder and the report.
        language: Code of the translations' language, see `read_pairs`.
        source_language: Code of the sources' language, if it is not English.
        format: Name of the files' format, if the suffix does not show it.
        columns: Names or numbers of the columns of source and translation.
        teacher: A `Teacher`, or the `source` of `load_teacher`: "default", a folder,
            `hf://org/name`, ...
        multilingual: Whether the teacher reads more than English. Required if a pair
            has no English side.
        start: Where training starts: "pairs" (the ridge baseline), "tiny12", or
            anything that `load_encoder` accepts. That encoder must have the teacher's
            dimension, no transformer layers, and a unigram tokenizer. Default: tiny12
            if its package is installed and the teacher is the default one, else
            "pairs".
        guard: Maximum drop, in points, of either general score. None turns the guard
            off: training uses only your pairs, and the result is the encoder with the
            best retrieval.
        minutes: Maximum training time. The other steps add about a minute for a few
            thousand pairs.
        updates: Maximum number of training steps. To reproduce a run, use the number in
            its report, and `minutes` high enough.
        batch_size: Pairs in a batch; at most half of the training pairs.
        learning_rate: Constant learning rate of AdamW.
        vocabulary_size: Maximum vocabulary of the ridge baseline; default 8,000 for one
            language and 2,000 for each further one, at most 16,000.
        store_dir: Folder where the teacher's vectors are cached. Runs can share it.
            Default: `store` inside `out_dir`.
        seed: Seed for the order of the pairs.
        progress: Print progress to stderr.

    Returns:
        The content of `report.json`, and `encoder`, the path of the result:

        - `pairs`: for each language, the numbers of pairs in "train", "choose" (tuning
          half) and "report" (reporting half).
        - `dropped`: for each language, the numbers of pairs that are not used, by
          reason: "empty" side, "ratio" of the lengths, "duplicate", or "held_out",
          which share a sentence with the held-out pairs.
        - `start`: the encoder that training started from.
        - `kept`: which encoder is the result: "start", "trained" or "closed_form".
        - `verdict`: a sentence about the result.
        - `scores`: scores on the reporting half of "start", "closed_form" and "end"
          (the result). For each: `precision`, precision at 1 x 100; `tracks`, the same
          by language; `general`, see `general_scores`; and `similarities`, Spearman
          x 100 between the encoder's and the teacher's cosines. `similarities` has
          `within` (both sentences in the source language) and `across`.
        - `updates`: number of training steps.
        - `best_update`: step of the selected checkpoint.
        - `ended`: why training ended: "updates", "minutes" or "patience".
        - `weights_refused`: number of checkpoints that the guard rejected.
        - `scores_on_the_way`: scores of the tuning halves during training.
        - `parameters`, `seconds`, `settings`.

    Raises:
        InputError: The teacher is not installed, the pairs cannot be read or are too
            few, `out_dir` belongs to a run with other pairs or settings, or `start` is
            not a suitable encoder.

    Source: in-batch ranking as in Feng et al. 2022, but with the teacher's similarities
    as soft targets (ours). The guard is ours.

    Example:
        >>> pairs = msd.testing.tiny_pairs()
        >>> teacher = msd.load_teacher("hashed-words", dim=8)
        >>> msd.distil(pairs, "model", teacher=teacher, progress=False)
        Traceback (most recent call last):
            ...
        keras_msd.checks.InputError: `pairs` needs at least 100 training pairs after ...
    """
    settings = {
        **{"start": start, "guard": guard, "minutes": minutes, "updates": updates},
        **{"batch_size": batch_size, "learning_rate": learning_rate},
        **{"vocabulary_size": vocabulary_size, "seed": seed},
    }
    checks.above(0, minutes=minutes, learning_rate=learning_rate)
    checks.at_least(16, vocabulary_size=vocabulary_size)
    checks.at_least(0, guard=guard)
    checks.at_least(2, batch_size=batch_size)
    checks.at_least(1, updates=updates)
    out, say, began = Path(out_dir), _printer(progress), time.monotonic()
    if start not in (None, PAIRS):
        check_source(start, "start")
    say("Loading the teacher")
    guide = _teacher(teacher, multilingual)
    if start is None:
        known = teacher == "default" and is_installed(KNOWN)
        start = KNOWN if known else PAIRS
    settings |= {"teacher": guide.fingerprint, "start": str(start)}
    say("Reading the pairs")
    codes = {"language": language, "source_language": source_language}
    corpus = _opened(pairs, columns, format, **codes)
    check_pairs(corpus)
    for file in corpus.files:
        check_reads(guide, "source", file)
    counts, dropped = _split(corpus, settings, out / "data")
    if (out / "report.json").is_file():
        return read_json(out / "report.json") | {"encoder": str(out / "encoder")}
    train = read_pairs(out / "data" / "parallel" / "train")
    held = read_held_out(out / "data" / "parallel" / "dev")

    store = GuideStore(guide, Path(store_dir or out / "store") / guide.fingerprint[:16])
    size = vocabulary_size or min(16_000, 6_000 + 2_000 * len(counts))
    say("Embedding the sentences with the teacher and fitting the ridge baseline")
    first = closed = _made(
        out / CLOSED_FORM, partial(_closed_form, train, store, size), seed
    )
    say(f"Preparing the start: {_named(start)}")
    if start != PAIRS:
        extended = partial(_extended, start, closed.tokenizer, guide.dim)
        first = _made(out / START, extended, seed)
    mixed = guard is not None and first is not closed
    if mixed:
        _write_general(out / "data" / "general")
        train = Pairs([*train.files, *read_pairs(out / "data" / "general").files])
    watch = _Watch(first, held, guard if mixed else None, minutes, progress, say)
    size = min(batch_size, sum(count["train"] for count in counts.values()) // 2)
    facts = _trained(
        out, first, train, len(counts), store, watch, settings | {"batch_size": size}
    )
    say("Scoring the result")
    report = _reported(out, held, guide, start, mixed, facts)
    seconds = round(time.monotonic() - began, 1)
    report |= {"pairs": counts, "dropped": dropped}
    report |= {"settings": settings, "seconds": seconds}
    write_json(out / "report.json", report)
    remove(out / "unfinished")
    return report | {"encoder": str(out / "encoder")}


def _printer(shown: bool) -> Callable[[str], None]:
    """Return a function that prints lines to stderr, with the time since this call."""
    began = time.monotonic()

    def say(words: str) -> None:
        if shown:
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            print(f"{minutes}:{seconds:02}  {words}", file=sys.stderr, flush=True)

    return say


def _named(start: Any) -> str:
    return "the ridge baseline" if start == PAIRS else str(start)


def _teacher(source: Any, multilingual: bool) -> Any:
    known = isinstance(source, Teacher) and source.languages
    languages = None if known or multilingual else ["en"]
    dim = HASHED_DIM if source == HASHED_WORDS else None
    return load_teacher(source, dim=dim, languages=languages)


def _opened(pairs: Any, columns: Any, format: str | None, **codes: Any) -> Pairs:
    if isinstance(pairs, Pairs):
        return pairs
    listed = [pairs] if isinstance(pairs, str | Path) else pairs
    paths = isinstance(listed, list | tuple) and listed
    if paths and isinstance(listed[0], str | Path):
        return read_pairs(listed, format, columns=columns, **codes)
    names = None if columns is None else [str(column) for column in columns]
    return pairs_of_rows(pairs, columns=names, **codes)


def _split(
    corpus: Pairs, settings: Mapping[str, Any], folder: Path
) -> tuple[Counts, Counts]:
    """Split into training and held-out files.

    Returns:
        For each language, the numbers of pairs in each part, and those of dropped pairs
        by reason.

    Raises:
        InputError: The folder belongs to other pairs or settings, or there are too few
            pairs.
    """
    began = {"content": corpus.digest(), "settings": dict(settings)}
    facts = folder / "pairs.json"
    if facts.is_file():
        known = read_json(facts)
        for key, what in (("content", "pairs"), ("settings", "settings")):
            if known.get(key) != began[key]:
                raise InputError(
                    f"`{folder.parent}` belongs to a run with other {what}. Use "
                    f"another folder, or the original {what}."
                )
        return known["pairs"], known["dropped"]
    by_code: dict[str, list[PairFile]] = {}
    for file in corpus.files:
        by_code.setdefault(pair_code(*file.languages), []).append(file)
    with atomic_path(folder) as temporary:
        counts: Counts = {}
        dropped: Counts = {}
        for code, files in by_code.items():
            made = _split_one(files, temporary / "parallel")
            counts[code], dropped[code] = made
        _check_counts(counts, dropped)
        numbers = {"pairs": counts, "dropped": dropped}
        write_json(temporary / "pairs.json", began | numbers)
    return counts, dropped


def _check_counts(counts: Counts, dropped: Counts) -> None:
    total = sum(count["train"] for count in counts.values())
    if total < MIN_PAIRS:
        lost = sum(map(Counter[str], dropped.values()), Counter[str]())
        reasons = ", ".join(f"{number} {reason}" for reason, number in lost.items())
        raise InputError(
            f"`pairs` needs at least {MIN_PAIRS} training pairs after one in "
            f"eight is held out. Received: {total}"
            f"{f' (dropped: {reasons})' if lost else ''}. Add pairs."
        )
    for code, count in counts.items():
        if not min(count.values()):
            said = ", ".join(f"{number} to {use}" for use, number in count.items())
            raise InputError(
                f"`pairs` in `{code}` has too few pairs. Received: {said}. Add more, "
                "or leave that language out."
            )


def _split_one(
    files: Iterable[PairFile], folder: Path
) -> tuple[dict[str, int], dict[str, int]]:
    """Split the pairs of one language pair.

    Returns:
        The number of pairs in each part, and of dropped pairs by reason.
    """
    files, dropped = list(files), Counter[str]()
    name = f"own.{'-'.join(files[0].languages)}.tsv.gz"
    held: dict[str, tuple[float, str]] = {}
    # Held-out translations; training pairs with one of them are dropped.
    seen: set[str] = set()
    for source, target in _clean(files, Counter()):
        if (place := _place(source)) < HELD_OUT_SHARE:
            if source not in held and target not in seen:
                held[source] = place, target
            seen.add(target)
    chosen = sorted(held, key=lambda source: held[source])[:MAX_HELD_OUT]
    write_rows(folder / "dev" / name, ((it, held[it][1]) for it in chosen))
    dev = {(source, held[source][1]) for source in chosen}

    def training() -> Iterator[tuple[str, str]]:
        known = set[bytes]()
        for row in _clean(files, dropped):
            if (key := text_hash(*row)) in known:
                dropped["duplicate"] += 1
                continue
            known.add(key)
            if _place(row[0]) >= HELD_OUT_SHARE and row[1] not in seen:
                yield row
            elif row not in dev:
                dropped["held_out"] += 1

    trained = write_rows(folder / "train" / name, training())
    of = [half_of(source) for source in chosen]
    counts = {"train": trained, CHOOSE: of.count(CHOOSE), REPORT: of.count(REPORT)}
    return counts, dict(dropped)


def _clean(
    files: Iterable[PairFile], dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs that pass the filters; count the others by reason."""
    for file in files:
        for pair in file.rows():
            source, target = map(normalize, pair)
            if reason := CLEANING.reason(source, target):
                dropped[reason] += 1
            else:
                yield source, target


def _place(source: str) -> float:
    """Map a text to a number in [0, 1) by its hash."""
    return int.from_bytes(text_hash(source)[:6]) / 2**48


def _made(folder: Path, make: Any, seed: int) -> Any:
    """Return the encoder of a folder; make and save it if it is not there."""
    if not folder.is_dir():
        make().save(folder)
    # Before loading: Keras draws the dropout seeds when it creates layers.
    keras.utils.set_random_seed(seed)
    return load_saved(folder)


def _closed_form(train: Pairs, store: Any, size: int) -> Any:
    """Fit the ridge baseline ("closed form") and return it as an encoder."""
    sides = [[pair[side] for pair in train] for side in (0, 1)]
    texts = [*sides[0], *sides[1]]
    tokenizer = train_unigram(texts, size, at_most=True, case_fold=True)
    vectors = store.targets(sides[0])
    rows, tokens = tokenizer.vocabulary_size, tokenizer.encode_plain(texts)
    goals = BothSides(lambda start, stop: vectors[start:stop], *vectors.shape)
    table = fit_ridge(tokens, goals, rows, RIDGE)
    return closed_form_encoder(tokenizer, table, max_length=MAX_LENGTH)


def _extended(start: str | Path, own: Any, dim: int) -> Any:
    """Load the encoder to start from and add the missing tokens of your pairs."""
    known = load_encoder(start)
    if not hasattr(known, "tokenizer") or known.dim != dim:
        raise InputError(
            f"`start` must be an encoder with the teacher's dimension, {dim}. "
            f"Received: {type(known).__name__} `{start}` with dimension {known.dim}. "
            "Choose another encoder or another teacher."
        )
    return extend_vocabulary(known, extend_unigram(known.tokenizer, own))


def _by_language(pairs: Iterable[Pair]) -> dict[str, list[tuple[str, str]]]:
    rows: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        rows.setdefault(pair.language, []).append((pair.source, pair.target))
    return rows


def _write_general(folder: Path) -> None:
    """Write the general training pairs, one file per language."""
    for code, texts in _by_language(example_pairs(count=GENERAL_PAIRS)).items():
        path = folder / f"general.en-{code}.tsv.gz"
        if not path.is_file():
            write_rows(path, texts)


@cache
def _general() -> tuple[dict[str, Any], dict[str, dict[str, list[Any]]]]:
    """Return held-out general pairs by language, and graded rows by half and language.

    Neither is used for training.
    """
    pairs = _by_language(example_pairs(split="dev"))
    rows = example_similarity(count=GENERAL_ROWS)
    # Drop rows whose two sentences are in different halves.
    of = [{half_of(first), half_of(second)} for _, first, second in rows["en"]]
    parts = {
        part: {
            code: list(compress(graded, (halves == {part} for halves in of)))
            for code, graded in rows.items()
        }
        for part in (CHOOSE, REPORT)
    }
    return pairs, parts


def general_scores(encoder: Any, part: str = REPORT) -> dict[str, float]:
    """Score an encoder on the general set that comes with the library.

    Args:
        encoder: Anything with `encode(list[str]) -> (n, dim)`.
        part: "choose" for the tuning half, "report" for the reporting half.

    Returns:
        Means over languages. `translations`: precision at 1 x 100, both directions.
        `similarity`: Spearman x 100 between the cosines within each language and the
        default teacher's cosines of the English sentences.
    """
    pairs, rows = _general()
    found = retrieval_languages(encoder, pairs, part, TEXT)["precision"]
    similar = sts_tracks(encoder, rows[part]).values()
    return {"translations": found, "similarity": mean_score(similar)}


class _Watch(ScoreCallback):
    """Select the best checkpoint, apply the guard, and stop when the time is up."""

    def __init__(
        self,
        encoder: Any,
        held: Any,
        guard: float | None,
        minutes: float,
        shown: bool,
        say: Callable[[str], None],
    ) -> None:
        options: Any = {"best_weights": True, "patience": PATIENCE}
        super().__init__(encoder, self._scores, every=SCORE_EVERY, **options)
        self._held, self._guard, self._shown, self._say = held, guard, shown, say
        self._most, self._spent_before = 60 * minutes, 0.0
        self._first: dict[str, float] = {}
        self._notes: dict[str, float] = {}
        self.ended, self.refused = "updates", 0

    def _scores(self, encoder: Any) -> dict[str, Any]:
        own = retrieval_languages(encoder, self._held, CHOOSE, TEXT)["precision"]
        selection_score, general = own, {}
        if self._guard is not None:
            general = general_scores(encoder, CHOOSE)
            self._first = self._first or general
            losses = {self._first[key] - general[key]: key for key in general}
            if (loss := max(losses)) > self._guard:
                selection_score = -1.0  # never the best
                self.refused += 1
                if self.refused == 1:
                    self._say(
                        f"Guard: rejected a checkpoint because general {losses[loss]} "
                        f"fell by {loss:.2f}, more than {self._guard}"
                    )
        self._notes = {"P@1": own, **general}
        scores = {"precision": own, **general, "selection_score": selection_score}
        return scores | {"primary": "selection_score"}

    def get_state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        own = {"first": self._first, "refused": self.refused, "spent": self._spent()}
        return super().get_state() | own

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        super().set_state(state)
        self._first, self.refused = state["first"], state["refused"]
        self._spent_before = state["spent"]

    def on_train_begin(self, logs: Any = None) -> None:
        """Score the start, then start the clock."""
        self._began = time.monotonic()
        super().on_train_begin(logs)
        self._began = time.monotonic()  # that score does not count as training time
        what, most = "Training, seconds", round(self._most)
        self._bar = Progress(what, most, done=round(self._spent_before))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Score every `SCORE_EVERY` steps; stop when the time is up."""
        super().on_train_batch_end(batch, logs)
        if self.model.stop_training:
            self.ended = "patience"
        spent = self._spent()
        if self._shown:
            self._bar.advance(round(spent) - self._bar.n, self._notes)
        if spent > self._most:
            self.ended, self.model.stop_training = "minutes", True

    def on_train_end(self, logs: Any = None) -> None:
        """Close the progress bar and restore the best weights."""
        self._bar.close()
        super().on_train_end(logs)

    def _spent(self) -> float:
        return self._spent_before + time.monotonic() - self._began


def _trained(
    out: Path,
    encoder: Any,
    train: Pairs,
    own: int,
    store: Any,
    watch: _Watch,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Train on translation retrieval, save `trained/`, and return the statistics.

    The first `own` files of `train` are the user's, the others general pairs.
    """
    if (out / TRAINED / "training.json").is_file():
        return dict(read_json(out / TRAINED / "training.json"))
    if keras.backend.backend() == "tensorflow" and device_settings().deterministic:
        from keras_msd.distribute.devices import make_deterministic

        make_deterministic()  # a resumed run is byte-identical
    updates = settings["updates"]
    general = [file.name for file in train.files][own:]
    # Files are sampled equally often; this factor scales the general ones to
    # `GENERAL_SHARE`.
    factor = own / max(len(general), 1) * GENERAL_SHARE / (1 - GENERAL_SHARE)
    texts = TextTable.build(train, out / "table" / "texts", cleaning=CLEANING)
    batches = PairBatches(
        texts,
        encoder,
        guides={"teacher": (store, "source")},
        batch_size=settings["batch_size"],
        max_length=encoder.max_length,
        epochs=updates,  # an upper bound: each epoch has at least one step
        steps=updates,
        seed=settings["seed"],
        weights=dict.fromkeys(general, factor) or None,
        folder=out / "table",
    )
    stage = ContrastiveLearning(encoder, "softmax", TEMPERATURE, kd_weight=0.0)
    constant: Any = {"warmup": 0.0, "weight_decay": 0.0, "schedule": "constant"}
    stage.compile(make_optimizer(settings["learning_rate"], updates, **constant))
    checkpoints, minutes = out / "unfinished", CHECKPOINT_MINUTES
    fit(stage, batches, checkpoints, minutes, updates, callbacks=[watch], verbose=0)
    facts = {
        "updates": watch.step,
        "best_update": watch.best_step,
        "ended": watch.ended,
        "weights_refused": watch.refused,
        "scores_on_the_way": watch.record,
    }
    with atomic_path(out / TRAINED) as folder:
        stage.trained_encoder().save(folder)
        write_json(folder / "training.json", facts)
    return facts


def _reported(
    out: Path,
    held: Mapping[str, list[tuple[str, str]]],
    guide: Any,
    start: Any,
    guarded: bool,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Choose the final encoder, copy it to `encoder/`, and return the report."""
    begin = CLOSED_FORM if start == PAIRS else START
    places = {START: begin, CLOSED_FORM: CLOSED_FORM, TRAINED: TRAINED}
    encoders = {name: load_saved(out / place) for name, place in places.items()}
    chosen = {
        name: retrieval_languages(encoder, held, CHOOSE, TEXT)["precision"]
        for name, encoder in encoders.items()
    }
    graded = _graded(guide, held)
    scores = {name: _scored(it, held, graded) for name, it in encoders.items()}
    kept = TRAINED if chosen[TRAINED] > chosen[START] else START
    if not guarded and chosen[CLOSED_FORM] > chosen[kept]:
        kept = CLOSED_FORM
    name = _named(start)
    gain = scores[kept]["precision"] - scores[START]["precision"]
    verdict = f"no better than {name}: kept {name}"
    if kept != START:
        what = "the trained encoder" if kept == TRAINED else "the ridge baseline"
        verdict = f"{gain:+.1f} points of P@1 over {name}: kept {what}"
        if gain <= 0:
            verdict += ", which is better on the tuning half only"
    encoder = encoders[kept]
    if kept == START and start != PAIRS:  # the original, without the added tokens
        encoder = load_encoder(start)
    encoder.save(out / "encoder")
    return {
        "start": str(start),
        "kept": kept,
        "verdict": verdict,
        "scores": {
            "start": scores[START],
            "end": scores[kept],
            "closed_form": scores[CLOSED_FORM],
        },
        "parameters": encoder.num_parameters,
        **facts,
    }


def _scored(
    encoder: Any, held: Mapping[str, list[tuple[str, str]]], graded: Any
) -> dict[str, Any]:
    """Return the scores of an encoder on the reporting halves."""
    own = retrieval_languages(encoder, held, REPORT, TEXT)
    similar = {name: sts(encoder, rows)["spearman"] for name, rows in graded.items()}
    return {
        "precision": own["precision"],
        "tracks": own["tracks"],
        "similarities": similar,
        "general": general_scores(encoder),
    }


def _graded(guide: Any, held: Mapping[str, list[tuple[str, str]]]) -> dict[str, Any]:
    """Build sentence pairs from the reporting half, graded with the teacher's cosines.

    Returns:
        Rows as for `sts`. In `within`, both sentences are in the source language. In
        `across`, the second sentence is a translation.
    """
    pairs = [pair for of in held.values() for pair in of if half_of(pair[0]) == REPORT]
    units = guide.encode([source for source, _ in pairs])
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    shifts = product(range(len(pairs)), range(1, 1 + SHIFTS))
    places = [(row, (row + shift) % len(pairs)) for row, shift in shifts]
    return {
        name: [
            (float(units[one] @ units[other]), pairs[one][0], pairs[other][side])
            for one, other in places
        ]
        for side, name in ((0, "within"), (1, "across"))
    }
