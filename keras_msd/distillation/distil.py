"""Make a small encoder for your languages and your size: the function `distil`."""

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.choices import MAX_LENGTH
from keras_msd.comparison import Prompted, files_of
from keras_msd.data.batches import check_reads
from keras_msd.data.corpora import LANGUAGES, example_pairs, write_rows
from keras_msd.data.pair import ENGLISH, Pair, languages_of_pairs, pair_code
from keras_msd.data.readers import check_pairs, read_pairs
from keras_msd.data.store import GuideStore
from keras_msd.data.words import check_listed, drawn_sentences, word_languages
from keras_msd.distillation import verdict
from keras_msd.distillation.page import write_page
from keras_msd.distillation.plan import (
    BACKBONE,
    DEFAULT_MB,
    PAIRS,
    SMALL,
    TABLE,
    Plan,
    Start,
    default_start,
    named_start,
)
from keras_msd.distillation.recipe import GENERAL, recipe_of
from keras_msd.distillation.size import (
    SCHEME,
    Description,
    Shape,
    encoder_bytes,
    shape_of,
    table_tokens,
)
from keras_msd.distillation.split import SETTINGS, check_new, open_pairs, split
from keras_msd.distillation.tokens import expected_counts
from keras_msd.evaluate.parts import CHOOSE, REPORT
from keras_msd.evaluate.translations import read_held_out
from keras_msd.export.artefact import export, load_artefact
from keras_msd.export.card import add_scores
from keras_msd.export.formats import FORMATS
from keras_msd.io.files import atomic_path, digest, read_json, remove, write_json
from keras_msd.load import load_encoder, load_teacher
from keras_msd.models.encoder import Encoder, load_saved
from keras_msd.models.network import WORD
from keras_msd.models.trim import (
    cut_positions,
    keep_tokens,
    needed_tokens,
    restore_vocabulary,
)
from keras_msd.recipes.outputs import teacher_licence
from keras_msd.recipes.resources import default_store_dir
from keras_msd.recipes.runner import run
from keras_msd.starts.ridge import (
    BothSides,
    closed_form_encoder,
    extend_vocabulary,
    fit_ridge,
)
from keras_msd.starts.svd import token_frequencies
from keras_msd.starts.width import prune_width
from keras_msd.teachers.teacher import HASHED_WORDS, Teacher
from keras_msd.tokenizers.sentencepiece import extend_unigram, train_unigram

FORMAT, ENCODER, ROUNDED = "litert", "encoder", "rounded"  # folders
PLAN, REPORT_FILE = "plan.json", "report.json"
START, TRAINED, CLOSED_FORM = "start", "trained", "closed_form"  # values of `kept`
NAMES = {
    START: "before training",
    TRAINED: "trained",
    CLOSED_FORM: "ridge baseline",
}
NO_PAIRS = "No pairs were given, so nothing was trained and nothing is scored."
HASHED_DIM = 64  # dimension of "hashed-words", a teacher for tests
RIDGE = 0.3  # penalty of the ridge baseline
PRUNING_TEXTS = 960
DRAWN_SENTENCES = 6000  # of words drawn by frequency, in each language that has a list
GENERAL_SHARE = 0.25  # share of general pairs in the training of a known table
GENERAL_PAIRS = 1000  # general training pairs per language
LAYERS_BATCH, TABLE_BATCH = 64, 1024
RATE, PRUNED_RATE, TABLE_RATE = 2e-4, 1e-4, 7e-4
PASSES = 2.5  # a training step takes as long as so many forward passes of its batch
PROOF_TEXTS = 200  # that the file and the encoder are compared on


def distil(
    pairs: Any = None,
    out_dir: str | Path = "model",
    language: str | None = None,
    source_language: str | None = None,
    format: str | None = None,
    columns: Sequence[str | int] | None = None,
    texts: Iterable[str] | None = None,
    languages: Sequence[str] = (),
    max_mb: float | None = None,
    teacher: Any = None,
    multilingual: bool = False,
    start: str | Path | None = None,
    guard: float | None = 1.0,
    minutes: float = 10.0,
    updates: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    vocabulary_size: int | None = None,
    store_dir: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """Make a small encoder for your languages and your size, with or without pairs.

    Where it starts, unless you say it: the layers of small12, with tokens of e5-small
    for languages that small12 does not know. Its vocabulary is cut to the tokens that
    your languages are expected to need, and if `max_mb` asks for it, attention heads
    and neurons go. Without pairs that is all. With pairs the encoder is then
    trained: both sides learn the teacher's vector of the source side, with weights
    rounded to 4 bits as in the file. The result is written as a LiteRT file with its
    tokenizer.

    The teacher, unless you say it, is the same encoder before it was cut to size.

    Without a backbone (small12 or e5-small installed), for another teacher, or below 8
    MB the encoder is a token embedding table: tiny12, or the ridge baseline that is
    fitted on your pairs ("pairs").

    One source sentence in eight is held out with its translation; a hash of the text
    decides which. The tuning half of these pairs chooses between the encoder before and
    after training, by mean reciprocal rank and margin. The reporting half is used only
    for the scores of the report.

    `out_dir` then contains `encoder/`, for `load_encoder`; `litert/`, the file with its
    card; `report.html` and `report.json`; `plan.json`; `data/`, the pairs after the
    split; `start/`, the encoder before training; and `run/`, the training as `run` of
    recipes leaves it. Repeat the same call to resume an interrupted one.

    Args:
        pairs: Paths of files that `read_pairs` accepts, or rows in memory: a pandas
            `DataFrame`, rows of Hugging Face datasets, `(source, target)` tuples,
            `Pair`s. None if there are only `texts`.
        out_dir: Folder for the encoder and the report.
        language: Code of the translations' language, see `read_pairs`.
        source_language: Code of the sources' language, if it is not English.
        format: Name of the files' format, if the suffix does not show it.
        columns: Names or numbers of the columns of source and translation.
        texts: Sentences in any of the languages. They help to choose the vocabulary.
            Word frequencies help too, for each language of which wordfreq, of the
            extra `backbones`, has a list; with both, `languages` is enough.
        languages: Codes of the languages that no pairs name.
        max_mb: Maximum size of the LiteRT file in megabytes (10^6 bytes). Default: 16
            for a start with layers.
        teacher: A `Teacher`, or the `source` of `load_teacher`. Default: a start with
            layers before it is cut to size; for a table, all-MiniLM-L6-v2.
        multilingual: Whether your own teacher reads more than English.
        start: Where training starts: "e5-small", "small12", "tiny12", "pairs", or
            anything else that `load_encoder` accepts.
        guard: Most points that a score on general text may lose by training, else the
            encoder before training is kept. None allows any loss. The ridge baseline is
            not guarded.
        minutes: Expected minutes of training; the speed is measured once, before
            training. 0 trains nothing.
        updates: Number of training steps, in place of `minutes`.
        batch_size: Pairs in a batch. Default: 64, and 1,024 for a table; at most half
            of the training pairs.
        learning_rate: Highest learning rate. Default: 2e-4, 1e-4 if heads and neurons
            went, 7e-4 for a table.
        vocabulary_size: Maximum vocabulary; the default follows `max_mb`. Of the ridge
            baseline: 8,000 for one language pair and 2,000 for each further one, at
            most 16,000.
        store_dir: Folder where the teacher's vectors are cached. Runs share it.
            Default: as for `run` of recipes.
        seed: Seed for the order of the pairs.
        progress: Print progress to stderr.

    Returns:
        The content of `report.json`:

        - `plan`: see `distillation.plan.Plan`.
        - `pairs`: for each language pair, the numbers of pairs in "train", "choose"
          (tuning half) and "report" (reporting half). `dropped`: those that are not
          used, by reason: "empty" side, "ratio" of the lengths, "duplicate", or
          "held_out", which share a sentence with the held-out pairs.
        - `kept`: the result: "trained", "start" or "closed_form".
        - `verdict`: sentences about the result.
        - `encoders`: scores on the reporting half, the result's first, see
          `distillation.verdict.report`; and `bytes`.
        - `tuning`: scores on the tuning half, by encoder.
        - `encoder`, `file`, `report`: paths. `bytes`: size of the file.
        - `seconds`.

    Raises:
        InputError: A package is missing, the pairs cannot be read or are too few,
            `max_mb` is too small, `out_dir` belongs to a run with other pairs or
            settings, or `start` is not suitable.

    Source: stage 1 of Ding et al. 2022; pruned vocabularies as in Abdaoui et al. 2020.
    The choice of tokens and of what fits is ours.

    Example:
        >>> pairs = msd.testing.tiny_pairs()
        >>> teacher = msd.load_teacher("hashed-words", dim=8)
        >>> msd.distil(pairs, "model", teacher=teacher, progress=False)
        Traceback (most recent call last):
            ...
        keras_msd.checks.InputError: `pairs` needs at least 100 training pairs after ...
    """
    checks.above(0, learning_rate=learning_rate, max_mb=max_mb)
    checks.at_least(0, minutes=minutes, guard=guard)
    checks.at_least(2, batch_size=batch_size)
    checks.at_least(1, updates=updates)
    checks.at_least(16, vocabulary_size=vocabulary_size)
    checks.a_list(texts=texts, languages=languages)
    extra = checks.sentences(list(texts or ()))
    if pairs is None and not languages:
        raise InputError(
            "`distil` needs pairs, or the codes of languages. Received: neither. Give "
            "`pairs`, or `languages` (`--languages`)."
        )
    out, began, say = Path(out_dir), time.monotonic(), _printer(progress)
    say("Reading the pairs")
    codes = {"language": language, "source_language": source_language}
    corpus = None
    if pairs is not None:
        corpus = open_pairs(pairs, columns, format, **codes)
        check_pairs(corpus)
    files = [] if corpus is None else corpus.files
    of_pairs = [pair_code(*file.languages) for file in files]
    known = [*dict.fromkeys([*languages_of_pairs(of_pairs), *languages])]
    begin = (
        default_start(known, max_mb, teacher)
        if start is None
        else named_start(start, teacher)
    )
    if begin.table and corpus is None:
        raise InputError(
            "Without pairs, `distil` needs a start with layers. Received: the start "
            f"`{begin.source}` ({begin.reason}). Give `pairs`, or install a backbone "
            "(README)."
        )
    if corpus is None and not extra:
        check_listed(known)
    listed = [] if begin.table else word_languages()
    words = [code for code in known if code in listed]
    english = all(file.source_language == ENGLISH for file in files)
    whole = None if begin.table else _whole(begin)
    teaching = _Teaching.of(begin, whole, multilingual or not english)
    for file in files:
        check_reads(teaching.guide, "source", file)
    options = {
        "start": str(begin.source),
        "max_mb": max_mb,
        "guard": guard,
        "minutes": minutes,
        "updates": updates,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "vocabulary_size": vocabulary_size,
        "seed": seed,
    }
    content = None if corpus is None else corpus.digest()
    inputs = {"pairs": content, "texts": digest(*extra), "languages": known}
    inputs |= {"teacher": teaching.guide.fingerprint, "words": words}
    _check_folder(out, inputs, options)
    if (out / REPORT_FILE).is_file():
        return dict(read_json(out / REPORT_FILE))
    there, begun = out.exists(), (out / SETTINGS).is_file()
    try:
        if not begun:
            write_json(out / SETTINGS, {"inputs": inputs, "options": options})
        counts, dropped = ({}, {}) if corpus is None else split(corpus, out / "data")
        chosen = _Texts(extra, known, words)
        job = _Job(out, begin, whole, teaching, chosen, options, store_dir, say)
        plan = job.plan()
    except InputError:
        if not begun:  # nothing that took long is lost
            remove(out / SETTINGS if there else out)
        raise
    for line in plan.lines():
        say(line)
    if plan.steps:
        job.train(plan)
    report = job.report(plan, counts, dropped)
    report["seconds"] = round(time.monotonic() - began, 1)
    write_page(out / "report.html", report, out / "run")
    write_json(out / REPORT_FILE, report)
    return report


def _printer(shown: bool) -> Callable[[str], None]:
    """Return a function that prints lines to stderr, with the time since this call."""
    began = time.monotonic()

    def say(words: str) -> None:
        if shown:
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            print(f"{minutes}:{seconds:02}  {words}", file=sys.stderr, flush=True)

    return say


def _check_folder(
    out: Path, inputs: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Raise `InputError` if the folder belongs to another run, or to something else."""
    if (out / SETTINGS).is_file():
        known = read_json(out / SETTINGS)
        for name, own in (("inputs", inputs), ("options", options)):
            before = known[name]
            differ = [key for key, value in own.items() if before.get(key) != value]
            if differ:
                raise InputError(
                    f"`{out}` belongs to a run with other {', '.join(differ)}. Use "
                    "another folder, or the original values."
                )
    check_new(out)


def _whole(begin: Start) -> Encoder:
    """Load a start with layers, not cut to size yet."""
    whole = load_encoder(begin.source)
    if not isinstance(whole, Encoder) or whole.config.num_layers == 0:
        raise InputError(
            "A start with layers must be an encoder that can be trained. Received: "
            f"`{begin.source}`. Give the folder of a checkpoint or of an "
            f'encoder, or one of "{SMALL}", "{BACKBONE}", "{TABLE}", "{PAIRS}".'
        )
    if begin.vocabulary:
        whole = restore_vocabulary(whole, load_encoder(begin.vocabulary))
    return cut_positions(whole, MAX_LENGTH)


class _Teaching(NamedTuple):
    """A teacher, and how a recipe names it.

    Attributes:
        guide: What gives its vectors.
        values: `[teacher]` of a recipe; without `source` where it has no name.
    """

    guide: Any
    values: dict[str, Any]

    @classmethod
    def of(cls, begin: Start, whole: Encoder | None, multilingual: bool) -> "_Teaching":
        """Load the teacher of a start; `whole` is the start before it is cut."""
        source, name = begin.teacher, None
        if source is None:
            source, name = whole, f"{Path(begin.source).name} with all tokens"
        values: dict[str, Any] = {"multilingual": multilingual}
        known = isinstance(source, Teacher) and source.languages
        languages = None if known or multilingual else [ENGLISH]
        if source == HASHED_WORDS:
            values["dim"] = HASHED_DIM
        if isinstance(source, str | Path):
            values["source"] = str(source)
        return cls(
            load_teacher(source, name, dim=values.get("dim"), languages=languages),
            values,
        )


class _Texts(NamedTuple):
    """What the vocabulary is chosen by, beside the pairs.

    Attributes:
        own: Sentences of the user.
        languages: Codes of all languages.
        words: Those of them whose word frequencies are used.
    """

    own: list[str]
    languages: list[str]
    words: list[str]

    def lines(self, pairs: Iterable[Pair]) -> list[str]:
        """Return the texts that decide the vocabulary."""
        found = [text for pair in pairs for text in (pair.source, pair.target)]
        found += self.own
        for code in self.words:
            found += drawn_sentences(code, DRAWN_SENTENCES)
        rest = [code for code in self.languages if code not in self.words]
        codes = [code for code in LANGUAGES if code in rest]
        for pair in example_pairs(codes or LANGUAGES[:1]):
            if ENGLISH in rest:
                found.append(pair.source)
            if codes:
                found.append(pair.target)
        return found

    def sample(self, count: int) -> list[str]:
        """Return some of the texts, of every language that has any."""
        lines = self.own or self.lines([])
        return lines[:: max(1, len(lines) // count)][:count]


class _Job:
    """The work of one call of `distil` in its folder."""

    def __init__(
        self,
        out: Path,
        begin: Start,
        whole: Encoder | None,
        teaching: _Teaching,
        texts: "_Texts",
        options: Mapping[str, Any],
        store_dir: str | Path | None,
        say: Callable[[str], None],
    ) -> None:
        self.out, self.begin, self.texts, self.say = out, begin, texts, say
        self.whole, (self.guide, self.teacher) = whole, teaching
        self.languages, self.options = texts.languages, options
        self.stores = Path(store_dir or default_store_dir())
        self.store = GuideStore(self.guide, self.stores / self.guide.fingerprint)
        parallel = out / "data" / "parallel"
        trained = parallel.is_dir()
        self.train_pairs = list(read_pairs(parallel / "train")) if trained else []
        self.held = read_held_out(parallel / "dev") if trained else {}

    def made(self, name: str, make: Callable[[], Encoder]) -> Encoder:
        """Return the encoder in a folder; make and save it if it is not there."""
        if not (self.out / name).is_dir():
            make().save(self.out / name)
        # Before loading: Keras draws the dropout seeds when it creates layers.
        keras.utils.set_random_seed(self.options["seed"])
        return load_saved(self.out / name)

    # ------------------------------------------------------------------ the start

    def plan(self) -> Plan:
        """Make the encoder at the start, and return the plan, the same when resumed."""
        if (self.out / PLAN).is_file():
            return Plan(**read_json(self.out / PLAN))
        self.say(f"Preparing the start: {self.begin.source}")
        shape = None
        if self.whole is None:
            start = self.made(START, self._table)
        else:
            start, shape = self._layers(self.whole)
        steps, minutes = self._steps(start)
        config = start.config
        plan = Plan(
            start=str(self.begin.source),
            teacher=self.guide.name,
            reason=self.begin.reason,
            languages=self.languages,
            words=self.texts.words,
            tokens=start.tokenizer.vocabulary_size,
            num_layers=config.num_layers,
            num_heads=config.num_heads,
            intermediate_dim=config.intermediate_dim,
            pruned=bool(shape and shape.pruned),
            coverage=shape and shape.coverage,
            loss=shape and shape.loss,
            expected_bytes=encoder_bytes(start),
            max_mb=self.options["max_mb"],
            steps=steps,
            minutes=minutes,
        )
        write_json(self.out / PLAN, plan.values())
        return plan

    def _layers(self, whole: Encoder) -> tuple[Encoder, Shape]:
        """Return the start with layers, and its shape."""
        if whole.dim != self.guide.dim:
            raise InputError(
                f"`start` must have the teacher's dimension, {self.guide.dim}. "
                f"Received: `{self.begin.source}` with dimension {whole.dim}. Choose "
                "another start or another teacher."
            )
        tokenizer, lines = whole.tokenizer, self.texts.lines(self.train_pairs)
        counts = token_frequencies(
            tokenizer.encode_plain(lines), tokenizer.vocabulary_size
        )
        needed = needed_tokens(tokenizer, counts)
        rows = whole.weights()[WORD][: len(counts)]
        expected = expected_counts(tokenizer, rows, counts)
        max_bytes = 1e6 * (self.options["max_mb"] or DEFAULT_MB)
        most = self.options["vocabulary_size"]
        checks.at_least(len(needed), vocabulary_size=most)
        described = Description.of(tokenizer)
        shape = shape_of(whole.config, described, expected, needed, max_bytes, most)

        def make() -> Encoder:
            encoder = keep_tokens(whole, shape.kept)
            if shape.pruned:
                draw = np.random.default_rng(self.options["seed"])
                count = min(PRUNING_TEXTS, len(lines))
                chosen = draw.choice(len(lines), count, replace=False)
                texts = [lines[row] for row in sorted(chosen)]
                kept_parts = {k: v for k, v in shape.pruned.items() if k != "head_dim"}
                encoder = prune_width(encoder, texts, **kept_parts)
            return encoder

        return self.made(START, make), shape

    def _table(self) -> Encoder:
        """Return the token embedding table at the start."""
        closed = self.made(CLOSED_FORM, self._closed_form)
        if self.begin.source == PAIRS:
            return closed
        known = load_encoder(self.begin.source)
        if not isinstance(known, Encoder) or known.dim != self.guide.dim:
            raise InputError(
                "`start` must be an encoder with the teacher's dimension, "
                f"{self.guide.dim}. Received: {type(known).__name__} "
                f"`{self.begin.source}` with dimension {known.dim}. Choose another "
                "encoder or another teacher."
            )
        extended = extend_unigram(known.tokenizer, closed.tokenizer)
        return extend_vocabulary(known, extended)

    def _closed_form(self) -> Encoder:
        """Fit the ridge baseline ("closed form") and return it as an encoder."""
        pairs = self.train_pairs
        sources = [pair.source for pair in pairs]
        texts = [*sources, *(pair.target for pair in pairs)]
        size = self.options["vocabulary_size"]
        usual = size or min(16_000, 6_000 + 2_000 * len(self.held))
        size = min(usual, table_tokens(self.guide.dim, self.options["max_mb"]) or usual)
        tokenizer = train_unigram(texts, size, at_most=True, case_fold=True)
        vectors = self.store.targets(sources)
        rows, tokens = tokenizer.vocabulary_size, tokenizer.encode_plain(texts)
        goals = BothSides(lambda start, stop: vectors[start:stop], *vectors.shape)
        table = fit_ridge(tokens, goals, rows, RIDGE)
        return closed_form_encoder(tokenizer, table, max_length=MAX_LENGTH)

    # ------------------------------------------------------------------- training

    @property
    def guard(self) -> float | None:
        """Points that general text may lose; the ridge baseline knows only yours."""
        limit: float | None = self.options["guard"]
        return None if self.begin.source == PAIRS else limit

    @property
    def batch_size(self) -> int:
        """Pairs in a batch."""
        usual = TABLE_BATCH if self.begin.table else LAYERS_BATCH
        size = self.options["batch_size"] or usual
        return int(min(size, len(self.train_pairs) // 2))

    def _steps(self, encoder: Encoder) -> tuple[int, float]:
        """Return the number of training steps, and the minutes that they will take."""
        if not self.held:
            return 0, 0.0
        rows = list(islice(cycle(self.train_pairs), self.batch_size))
        texts = [text for pair in rows for text in (pair.source, pair.target)]
        times = []
        for _ in range(2):  # the first time, a network is compiled
            began = time.perf_counter()
            encoder.encode(texts, progress=False)
            times.append(time.perf_counter() - began)
        each = PASSES * min(times) / 60
        steps = self.options["updates"]
        if steps is None:
            steps = int(self.options["minutes"] / each)
        return steps, round(steps * each, 1)

    def train(self, plan: Plan) -> None:
        """Train the encoder at the start: a run of a recipe."""
        start = self._rounded(START, self.out / START)
        asked = verdict.questions(self.held, CHOOSE)
        before = asked.score(Prompted(start, None), 0)
        self.say(
            f"Before training, P@1 is {before['precision']:.1f} and the margin "
            f"{before['margin']:.4f} on the tuning half, {len(asked.units)} pairs"
        )
        if before["precision"] == 100:
            self.say(
                "So P@1 on these pairs cannot rise, only the margin can. To keep the "
                "encoder as it is, stop (Ctrl-C) and give --minutes 0 and a new folder"
            )
        self.say("Training")
        known_table = self.begin.table and self.begin.source != PAIRS
        general = self._general() if known_table else {}
        teacher, data = dict(self.teacher), self.out / "data"
        if "source" not in teacher:
            teacher["source"] = str(self._vectors(teacher["multilingual"]))
        rate = self.options["learning_rate"]
        if rate is None:
            rate = PRUNED_RATE if plan.pruned else RATE
            rate = TABLE_RATE if self.begin.table else rate
        recipe = recipe_of(
            plan,
            self.out / START,
            teacher,
            list(self.held),
            general,
            dim=self.guide.dim,
            max_length=start.max_length,
            batch_size=self.batch_size,
            learning_rate=rate,
            table=self.begin.table,
            seed=self.options["seed"],
        )
        folders = [data, self.out / GENERAL] if general else [data]
        run(recipe, self.out / "run", data_dir=folders, store_dir=self.stores)

    def _vectors(self, multilingual: bool) -> Path:
        """Return a file with the vectors of a teacher that has no name."""
        path = self.out / "teacher.npz"
        if not path.is_file():
            # Apart from the user's pairs, which a resumed run reads again.
            general = self.out / GENERAL / "parallel" / "train"
            trained = self.train_pairs
            if general.is_dir():
                trained = [*trained, *read_pairs(general)]
            pairs = [(pair.source, pair.target) for pair in trained]
            if multilingual:
                pairs += [pair for of in self.held.values() for pair in of]
            sides = 2 if multilingual else 1
            texts = list(dict.fromkeys(text for pair in pairs for text in pair[:sides]))
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.savez(file, sentences=texts, vectors=self.store.targets(texts))
        return path

    def _general(self) -> dict[str, float]:
        """Write general training pairs; return their languages with their weight."""
        by_code: dict[str, list[tuple[str, str]]] = {}
        for pair in example_pairs(count=GENERAL_PAIRS):
            by_code.setdefault(pair.language, []).append((pair.source, pair.target))
        for code, rows in by_code.items():
            name = f"{GENERAL}.{ENGLISH}-{code}.tsv.gz"
            path = self.out / GENERAL / "parallel" / "train" / name
            if not path.is_file():
                write_rows(path, rows)
        # Files are drawn equally often; this weight scales them to their share.
        factor = len(self.held) / len(by_code) * GENERAL_SHARE / (1 - GENERAL_SHARE)
        return dict.fromkeys(by_code, factor)

    # ------------------------------------------------------------------ the result

    def report(
        self, plan: Plan, counts: Mapping[str, Any], dropped: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Choose the result, export it, and return the report."""
        self.say("Scoring and exporting the result")
        places = {START: self.out / START}
        if plan.steps:
            places[TRAINED] = self.out / "run" / "assistant"
        if self.begin.table and self.begin.source != PAIRS:
            places[CLOSED_FORM] = self.out / CLOSED_FORM
        encoders = {name: self._rounded(name, place) for name, place in places.items()}
        kept, tuning = START, dict[str, Any]()
        if self.held:
            kept, tuning = verdict.choose(
                encoders, self.held, self.languages, self.guard
            )
        if not (self.out / ENCODER).is_dir():
            with atomic_path(self.out / ENCODER) as temporary:
                shutil.copytree(
                    self.out / ROUNDED / kept, temporary, dirs_exist_ok=True
                )
        result = load_saved(self.out / ENCODER)
        file = self._exported(result)
        card = read_json(file / "card.json")
        scored: dict[str, Any] = {NAMES[kept]: load_artefact(file)}
        scored |= {NAMES[name]: it for name, it in encoders.items() if name != kept}
        if not self.begin.table:
            scored[f"teacher, {self.guide.name}"] = self.guide
        rows, pairs = [], sum(count[REPORT] for count in counts.values())
        if self.held:
            rows = verdict.report(scored, self.held, self.languages)
            add_scores(file, FORMATS[FORMAT], verdict.for_card(rows[0], pairs))
        for row in rows:
            row["bytes"] = self._bytes(scored[row["name"]], result, card["bytes"])
        said = verdict.words(rows, pairs) if rows else [NO_PAIRS]
        if plan.max_mb is not None and card["bytes"] > 1e6 * plan.max_mb:
            said.append(
                f"The file has {card['bytes'] / 1e6:.2f} MB, more than the "
                f"{plan.max_mb:g} MB that you asked for. Ask for a little less."
            )
        return {
            "plan": plan.values(),
            "pairs": counts,
            "dropped": dropped,
            "kept": kept,
            "verdict": said,
            "encoders": rows,
            "tuning": tuning,
            "encoder": str(self.out / ENCODER),
            "file": str(file),
            "bytes": card["bytes"],
            "report": str(self.out / "report.html"),
        }

    def _bytes(self, encoder: Any, result: Encoder, size: int) -> int | None:
        """Return the bytes of an encoder's file; `size` are those of the result's."""
        if encoder is self.guide:
            if self.whole is not None and self.begin.teacher is None:
                return encoder_bytes(self.whole)
            files = files_of(self.teacher.get("source"))
            return sum(path.stat().st_size for path in files) or None
        if not isinstance(encoder, Encoder):  # the file
            return size
        expected = encoder_bytes(encoder)
        return size if expected == encoder_bytes(result) else expected

    def _licence(self) -> str | None:
        """Return the licence of the teacher, which may be the start."""
        if self.begin.teacher is None:
            return teacher_licence(str(self.begin.source))
        named = self.teacher.get("source")
        return teacher_licence(named) if named else None

    def _rounded(self, name: str, place: Path) -> Encoder:
        """Return an encoder with the weights that its file will have."""
        folder = self.out / ROUNDED / name
        if not folder.is_dir():
            load_saved(place).save(folder, quantize=SCHEME)
        return load_saved(folder)

    def _exported(self, encoder: Encoder) -> Path:
        """Export the result, and return the artefact's folder."""
        folder = self.out / FORMAT
        if not (folder / "card.json").is_file():
            texts = [text for of in self.held.values() for pair in of for text in pair]
            texts = texts[:PROOF_TEXTS] or self.texts.sample(PROOF_TEXTS)
            export(
                encoder,
                folder,
                FORMAT,
                SCHEME,
                languages=self.languages,
                sentences=texts,
                teacher_license=self._licence(),
            )
        return folder
