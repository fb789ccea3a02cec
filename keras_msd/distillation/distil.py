"""Make a small encoder for your languages and your size: the function `distil`."""

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_msd import checks
from keras_msd.checks import InputError
from keras_msd.choices import MIN_PAIRS, PASSAGE_LENGTH, WEIGHT_DECAY
from keras_msd.comparison import files_of
from keras_msd.data.batches import check_reads
from keras_msd.data.corpora import LANGUAGES, example_pairs, write_rows
from keras_msd.data.pair import ENGLISH, Pair, languages_of_pairs, pair_code
from keras_msd.data.readers import check_pairs, read_pairs
from keras_msd.data.store import GuideStore
from keras_msd.data.words import check_listed, drawn_sentences, has_words
from keras_msd.distillation import report as scoring
from keras_msd.distillation.plan import SCHEME, Plan, encoder_bytes
from keras_msd.distillation.split import (
    NO_LANGUAGE,
    SETTINGS,
    check_new,
    draw_pairs,
    open_pairs,
    own_entries,
    read_held_texts,
    split,
    split_texts,
)
from keras_msd.distillation.start import (
    DEFAULT_MB,
    PAIRS,
    Start,
    cut_to_shape,
    default_start,
    extended_table,
    fitting_shape,
    named_start,
    ridge_baseline,
    whole_start,
)
from keras_msd.evaluate.parts import CHOOSE, REPORT
from keras_msd.evaluate.translations import read_held_out
from keras_msd.export.artefact import export, load_artefact
from keras_msd.export.card import add_scores
from keras_msd.export.formats import FORMATS
from keras_msd.io.files import atomic_path, digest, read_json, remove, write_json
from keras_msd.load import load_teacher
from keras_msd.models.encoder import Encoder, load_saved
from keras_msd.recipes.load import recipe_from
from keras_msd.recipes.outputs import teacher_licence
from keras_msd.recipes.resources import default_store_dir
from keras_msd.recipes.runner import run
from keras_msd.recipes.settings import OF_TARGET, Recipe
from keras_msd.teachers.teacher import HASHED_WORDS, Teacher

FORMAT, ENCODER, ROUNDED = "litert", "encoder", "rounded"  # folders
PLAN, REPORT_FILE = "plan.json", "report.json"
START, TRAINED, CLOSED_FORM = "start", "trained", "closed_form"  # values of `kept`
NAMES = {
    START: "before training",
    TRAINED: "trained",
    CLOSED_FORM: "ridge baseline",
}
NO_TEXT = (
    "Nothing was trained or scored. That needs pairs or, without a teacher of yours, "
    f"texts of which at least {MIN_PAIRS} are left after one in eight is held out."
)
HASHED_DIM = 64  # dimension of "hashed-words", a teacher for tests
UNCUT = "uncut"  # the guide whose vectors sentences learn: the start before it is cut
DRAWN_SENTENCES = 6000  # of words drawn by frequency, in each language that has a list
DRAWN = "drawn"  # folder of the pairs that are trained on
GENERAL = "general"  # corpus of general sentences
GENERAL_SHARE = 0.25  # share of general pairs in the training of a known table
GENERAL_PAIRS = 1000  # general training pairs per language
LAYERS_BATCH, TABLE_BATCH = 64, 1024
RATE, PRUNED_RATE, TABLE_RATE = 2e-4, 1e-4, 7e-4
PASSES = 2.5  # a training step takes as long as so many forward passes of its batch
PROOF_TEXTS = 200  # that the file and the encoder are compared on
NO_LIMIT = 1_000_000  # of characters and words; the encoder cuts long texts
BUCKETS = 3  # batch shapes, each compiled once


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
    max_length: int = PASSAGE_LENGTH,
    teacher: Any = None,
    multilingual: bool = False,
    align: bool = False,
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
    and neurons go. Then it is trained, with weights rounded to 4 bits as in the file:
    every sentence, of the pairs or of `texts`, learns the vector that the encoder gave
    it before it was cut to size. The result is written as a LiteRT file with its
    tokenizer.

    With `align`, or with a teacher of yours, both sides of a pair learn the teacher's
    vector of the source side instead, as in stage 1 of Ding et al. 2022.

    Without a backbone (small12 or e5-small installed), for another teacher, or below 8
    MB the encoder is a token embedding table: tiny12, or the ridge baseline that is
    fitted on your pairs ("pairs").

    One source sentence in eight is held out with its translation; a hash of the text
    decides which. The tuning half of these pairs chooses between the encoder before and
    after training: by how well its vectors agree with those that were learnt; after
    `align` or with a teacher of yours by mean reciprocal rank and margin. The reporting
    half is used only for the scores of the report.

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
        texts: Sentences in any of the languages. They help to choose the vocabulary,
            and without pairs they are trained on if at least 100 are left after one in
            eight is held out. Word frequencies help with the vocabulary, too, for each
            language of which wordfreq, of the extra `backbones`, has a list; with both,
            `languages` is enough.
        languages: Codes of the languages that no pairs name.
        max_mb: Maximum size of the LiteRT file in megabytes (10^6 bytes). Default: 16
            for a start with layers.
        max_length: Longest text in tokens that a start with layers reads; the rest of
            longer ones is ignored.
        teacher: A `Teacher`, or the `source` of `load_teacher`. Default: a start with
            layers before it is cut to size; for a table, all-MiniLM-L6-v2.
        multilingual: Whether your own teacher reads more than English.
        align: Whether translations learn the vectors of their sources, though the
            teacher is the start. It finds more translations of a language that the
            start aligns badly, and searches passages worse.
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
        - `texts`: without pairs, the same numbers of sentences.
        - `pairs`: for each language pair, the numbers of pairs in "train", "choose"
          (tuning half) and "report" (reporting half). `dropped`: those that are not
          used, by reason: "empty" side, "ratio" of the lengths, "duplicate", or
          "held_out", which share a sentence with the held-out pairs.
        - `kept`: the result: "trained", "start" or "closed_form".
        - `verdict`: sentences about the result.
        - `encoders`: scores on the reporting half, the result's first, see
          `distillation.report.score`; and `bytes`.
        - `tuning`: scores on the tuning half, by encoder.
        - `encoder`, `file`, `report`: paths. `bytes`: size of the file.
        - `seconds`.

    Raises:
        InputError: A package is missing, the pairs cannot be read or are too few,
            `align` has no pairs or a start that is a table, `max_mb` is too small,
            `out_dir` belongs to a run with other pairs or settings, or `start` is not
            suitable.

    Source: the loss is that of stage 3 of Ding et al. 2022 (equation 4), with `align`
    that of stage 1; pruned vocabularies as in Abdaoui et al. 2020. The choice of tokens
    and of what fits is ours.

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
    checks.at_least(4, max_length=max_length)
    checks.at_least(1, updates=updates)
    checks.at_least(16, vocabulary_size=vocabulary_size)
    checks.a_list(texts=texts, languages=languages)
    extra = checks.sentences(list(texts or ()))
    if pairs is None and not languages:
        raise InputError(
            "`distil` needs pairs, or the codes of languages. Received: neither. Give "
            "`pairs`, or `languages` (`--languages`)."
        )
    checks.require("ai_edge_litert", "litert", "The LiteRT file of `distil`")
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
    own = not (begin.table or begin.teacher or align)
    if align and (begin.table or corpus is None):
        raise InputError(
            "`align` needs pairs and a start with layers; a table always learns the "
            f"vectors of the sources. Received: the start `{begin.source}`"
            f"{', no pairs' if corpus is None else ''}. Leave `align` out."
        )
    words = [code for code in known if not begin.table and has_words(code)]
    english = all(file.source_language == ENGLISH for file in files)
    whole = None if begin.table else whole_start(begin, max_length)
    guide, named = _teacher(begin, whole, multilingual or own or not english)
    for file in files:
        check_reads(guide, "source", file)
    options = {
        "start": str(begin.source),
        "max_mb": max_mb,
        "max_length": max_length,
        "align": align,
        "guard": guard,
        "minutes": minutes,
        "updates": updates,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "vocabulary_size": vocabulary_size,
        "seed": seed,
    }
    inputs = {
        "pairs": None if corpus is None else corpus.digest(),
        "texts": digest(*extra),
        "languages": known,
        "teacher": guide.fingerprint,
        "words": words,
    }
    _check_folder(out, inputs, options)
    if (out / REPORT_FILE).is_file():
        return dict(read_json(out / REPORT_FILE))
    there, begun = out.exists(), (out / SETTINGS).is_file()
    stores = Path(store_dir or default_store_dir())
    chosen = Texts(extra, known, words)
    job = Job(out, begin, whole, guide, named, own, chosen, options, stores, say)
    try:
        if not begun:
            write_json(out / SETTINGS, {"inputs": inputs, "options": options})
        counts, dropped, sentences = dict[str, Any](), dict[str, Any](), {}
        if corpus is not None:
            counts, dropped = split(corpus, out / "data")
        elif own:
            sentences = split_texts(extra, out / "data")
        plan = make_plan(job)
    except InputError:
        if not begun:  # nothing that took long is lost
            for path in own_entries(out) if there else [out]:
                remove(path)
        raise
    for line in plan.lines():
        say(line)
    if plan.steps:
        train(job, plan)
    report = make_result(job, plan, counts, dropped, sentences)
    report["seconds"] = round(time.monotonic() - began, 1)
    scoring.write_html(out / "report.html", report, out / "run")
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


def _teacher(
    begin: Start, whole: Encoder | None, multilingual: bool
) -> tuple[Any, dict[str, Any]]:
    """Load the teacher of a start; `whole` is the start before it is cut.

    Returns:
        The teacher, and `[teacher]` of a recipe; without `source` if it has no name.
    """
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
    guide = load_teacher(source, name, dim=values.get("dim"), languages=languages)
    return guide, values


class Texts(NamedTuple):
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


@dataclass
class Job:
    """What the parts of one call of `distil` share.

    Attributes:
        out: The folder.
        begin: Where it starts.
        whole: A start with layers, before it is cut to size.
        guide: The teacher.
        teacher: `[teacher]` of a recipe.
        own: Whether sentences learn their own vectors, and translations too.
        texts: What the vocabulary is chosen by.
        options: What was asked for.
        stores: Parent of the caches of teachers' vectors.
        say: Prints a line.
    """

    out: Path
    begin: Start
    whole: Encoder | None
    guide: Any
    teacher: dict[str, Any]
    own: bool
    texts: Texts
    options: Mapping[str, Any]
    stores: Path
    say: Callable[[str], None]

    @property
    def languages(self) -> list[str]:
        """Codes of all languages."""
        return self.texts.languages

    @cached_property
    def store(self) -> GuideStore:
        """The teacher's vectors."""
        return GuideStore(self.guide, self.stores / self.guide.fingerprint)

    @cached_property
    def pairs(self) -> list[Pair]:
        """The training pairs."""
        folder = self.out / "data/parallel/train"
        return list(read_pairs(folder)) if folder.is_dir() else []

    @cached_property
    def held(self) -> dict[str, list[tuple[str, str]]]:
        """The held-out pairs by code."""
        folder = self.out / "data/parallel/dev"
        return read_held_out(folder) if folder.is_dir() else {}

    @cached_property
    def held_texts(self) -> list[str]:
        """The held-out sentences, where there are no pairs."""
        return read_held_texts(self.out / "data")

    def held_out(self, part: str) -> scoring.HeldOut:
        """Return one half of what is held out."""
        goals = self.store.targets if self.own else None
        return scoring.HeldOut(part, self.held, self.languages, goals, self.held_texts)

    @property
    def table(self) -> bool:
        """Whether a token embedding table that exists is trained further."""
        return self.begin.table and self.begin.source != PAIRS

    @property
    def batch_size(self) -> int:
        """Pairs in a batch."""
        usual = TABLE_BATCH if self.begin.table else LAYERS_BATCH
        size = self.options["batch_size"] or usual
        return int(min(size, len(self.pairs) // 2))

    def made(self, name: str, make: Callable[[], Encoder]) -> Encoder:
        """Return the encoder in a folder; make and save it if it is not there."""
        if not (self.out / name).is_dir():
            make().save(self.out / name)
        # Before loading: Keras draws the dropout seeds when it creates layers.
        keras.utils.set_random_seed(self.options["seed"])
        return load_saved(self.out / name)

    def rounded(self, name: str, place: Path) -> Encoder:
        """Return an encoder with the weights that its file will have."""
        folder = self.out / ROUNDED / name
        if not folder.is_dir():
            load_saved(place).save(folder, quantize=SCHEME)
        return load_saved(folder)


# The start.


def make_plan(job: Job) -> Plan:
    """Make the encoder at the start, and return the plan, the same when resumed."""
    if (job.out / PLAN).is_file():
        return Plan(**read_json(job.out / PLAN))
    job.say(f"Preparing the start: {job.begin.source}")
    whole, shape, options = job.whole, None, job.options
    if whole is None:
        start = job.made(START, lambda: _table(job))
    else:
        if whole.dim != job.guide.dim:
            raise InputError(
                f"`start` must have the teacher's dimension, {job.guide.dim}. "
                f"Received: `{job.begin.source}` with dimension {whole.dim}. Choose "
                "another start or another teacher."
            )
        lines = job.texts.lines(job.pairs if job.held else ())
        max_bytes = 1e6 * (options["max_mb"] or DEFAULT_MB)
        shape = fitting_shape(whole, lines, max_bytes, options["vocabulary_size"])
        given = whole, shape, lines, options["seed"]
        start = job.made(START, lambda: cut_to_shape(*given))
    steps, minutes = _steps(job, start)
    config = start.config
    plan = Plan(
        start=str(job.begin.source),
        teacher=job.guide.name,
        reason=job.begin.reason,
        languages=job.languages,
        words=job.texts.words,
        tokens=start.tokenizer.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        intermediate_dim=config.intermediate_dim,
        pruned=bool(shape and shape.pruned),
        coverage=shape and shape.coverage,
        loss=shape and shape.loss,
        expected_bytes=encoder_bytes(start),
        max_mb=options["max_mb"],
        steps=steps,
        minutes=minutes,
    )
    write_json(job.out / PLAN, plan.values())
    return plan


def _table(job: Job) -> Encoder:
    """Return the token embedding table at the start."""
    usual = min(16_000, 6_000 + 2_000 * len(job.held))
    size = job.options["vocabulary_size"] or usual
    given = job.pairs, job.store, size, job.options["max_mb"]
    baseline = job.made(CLOSED_FORM, lambda: ridge_baseline(*given))
    return extended_table(job.begin.source, baseline) if job.table else baseline


def _steps(job: Job, encoder: Encoder) -> tuple[int, float]:
    """Return the number of training steps, and the minutes that they will take."""
    if not job.pairs:
        return 0, 0.0
    rows = list(islice(cycle(job.pairs), job.batch_size))
    texts = [text for pair in rows for text in (pair.source, pair.target)]
    times = []
    for _ in range(2):  # the first time, a network is compiled
        began = time.perf_counter()
        encoder.encode(texts, progress=False)
        times.append(time.perf_counter() - began)
    each = PASSES * min(times) / 60
    steps = job.options["updates"]
    if steps is None:
        steps = int(job.options["minutes"] / each)
    return steps, round(steps * each, 1)


# Training.


def train(job: Job, plan: Plan) -> None:
    """Train the encoder at the start: a run of a recipe."""
    start, held = job.rounded(START, job.out / START), job.held_out(CHOOSE)
    before, _ = held.score(start)
    columns = scoring.shown_columns(before).items()
    scores = ", ".join(f"{said} {before[it]:{form}}" for it, (said, form) in columns)
    unit = "pairs" if job.held else "sentences"
    job.say(f"Before training: {scores} on the tuning half, {held.size} {unit}")
    if not job.own and before["precision"] == 100:
        job.say(
            "So P@1 on these pairs cannot rise, only the margin can. To keep the "
            "encoder as it is, stop (Ctrl-C) and give --minutes 0 and a new folder"
        )
    job.say("Training")
    general = _general(job) if job.table else {}
    drawn = draw_pairs(job.out / "data", job.out / DRAWN, plan.steps * job.batch_size)
    folders = [drawn, *([job.out / GENERAL] if general else [])]
    recipe = _recipe(job, plan, _vectors(job, folders), general, start.max_length)
    run(recipe, job.out / "run", data_dir=folders, store_dir=job.stores)


def _recipe(
    job: Job,
    plan: Plan,
    source: str | None,
    general: Mapping[str, float],
    max_length: int,
) -> Recipe:
    """Return the recipe that trains the encoder at the start: one stage.

    Args:
        job: The call.
        plan: Its plan.
        source: File with the teacher's vectors, if it has no name.
        general: Sampling weight of the corpus "general" by language; empty without one.
        max_length: Longest text in tokens.
    """
    table, seed = job.begin.table, job.options["seed"]
    codes = [*job.held] or [NO_LANGUAGE]
    rate = PRUNED_RATE if plan.pruned else RATE
    # Each squared error is then a mean of 1 - cosine. A table cannot meet the teacher's
    # vectors; it is trained for retrieval alone.
    weight = 0.0 if table else job.guide.dim / 2
    temperature = 0.1 if table else 0.02
    similarities = {
        "loss": "multilingual_contrastive",
        "goals": "teacher",
        "grouped": True,
        "arguments": {"target": "softmax", "temperature": temperature},
    }
    losses: dict[str, Any] = {"similarities": similarities}
    guides: dict[str, Any] = {}
    if job.own:
        weight = 0.0
        guides = {UNCUT: {"sources": [source], "multilingual": True}}
        losses = {
            "vectors": {
                "loss": "feature_distillation",
                "goals": [UNCUT, UNCUT + OF_TARGET],
                "arguments": {"dims": "sum"},
            }
        }
    elif not table:  # as small12 was trained, see recipes/msd_backbone.toml
        losses["others"] = {
            "loss": "similarity_distribution",
            "goals": "teacher",
            "arguments": {"temperature": temperature, "across": True},
        }
    data = {
        "kind": "folder",
        "languages": [*codes, *(code for code in general if code not in codes)],
        "max_characters": NO_LIMIT,
        "max_words": NO_LIMIT,
        "max_length": max_length,
        "seed": seed,
    }
    if general:
        data["weights"] = {GENERAL: min(general.values())}
    values = {
        "recipe": {
            "name": "distil",
            "title": f"{', '.join(plan.languages)} from {plan.start}",
            "seed": seed,
            "scales": ["backbone"],
            "default_scale": "backbone",
        },
        "teacher": {"source": source, **job.teacher},
        "guides": guides,
        "data": data,
        "assistant": {"source": str(job.out / START), "dropout": 0.0},
        "student": {"kind": "none"},
        "stages": {
            "teach_assistant": {
                "skip": False,
                "steps": plan.steps,
                "batch_size": job.batch_size,
                "learning_rate": job.options["learning_rate"]
                or (TABLE_RATE if table else rate),
                "weight_decay": 0.0 if table else WEIGHT_DECAY,
                "quantize": SCHEME,
                "buckets": BUCKETS,
                "weights": {"source_mse": weight, "target_mse": weight},
                "losses": losses,
            }
        },
        "evaluate": {
            "sets": ["held-out"] if job.held else [],
            "languages": {"held-out": codes} if job.held else {},
            "intermediate": "full" if job.held else "none",
            "part": "report",
            "artefacts": False,
        },
    }
    return recipe_from(values, "distil")


def _vectors(job: Job, folders: Iterable[Path]) -> str | None:
    """Return a file with the vectors of a teacher; None if the teacher has a name.

    Args:
        job: The call.
        folders: Those of the training pairs.
    """
    if "source" in job.teacher:
        return None
    path = job.out / "teacher.npz"
    if not path.is_file():
        multilingual = job.teacher["multilingual"]
        trained = read_pairs([folder / "parallel" / "train" for folder in folders])
        pairs = [(pair.source, pair.target) for pair in trained]
        if multilingual:
            pairs += [pair for of in job.held.values() for pair in of]
        sides = 2 if multilingual else 1
        texts = list(dict.fromkeys(text for pair in pairs for text in pair[:sides]))
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, sentences=texts, vectors=job.store.targets(texts))
    return str(path)


def _general(job: Job) -> dict[str, float]:
    """Write general training pairs; return their languages with their weight."""
    by_code: dict[str, list[tuple[str, str]]] = {}
    for pair in example_pairs(count=GENERAL_PAIRS):
        by_code.setdefault(pair.language, []).append((pair.source, pair.target))
    for code, rows in by_code.items():
        name = f"{GENERAL}.{ENGLISH}-{code}.tsv.gz"
        path = job.out / GENERAL / "parallel" / "train" / name
        if not path.is_file():
            write_rows(path, rows)
    # Files are drawn equally often; this weight scales them to their share.
    factor = len(job.held) / len(by_code) * GENERAL_SHARE / (1 - GENERAL_SHARE)
    return dict.fromkeys(by_code, factor)


# The result.


def make_result(
    job: Job,
    plan: Plan,
    counts: Mapping[str, Any],
    dropped: Mapping[str, Any],
    sentences: Mapping[str, int],
) -> dict[str, Any]:
    """Choose the result, export it, and return the report."""
    job.say("Scoring and exporting the result")
    places = {START: job.out / START}
    if plan.steps:
        places[TRAINED] = job.out / "run" / "assistant"
    if job.table:
        places[CLOSED_FORM] = job.out / CLOSED_FORM
    encoders = {name: job.rounded(name, place) for name, place in places.items()}
    kept, tuning = START, dict[str, Any]()
    something = bool(job.held or job.held_texts)
    if something:
        # The ridge baseline knows no general text that it could lose.
        guard = None if job.begin.source == PAIRS else job.options["guard"]
        kept, tuning = scoring.choose(encoders, job.held_out(CHOOSE), guard)
    if not (job.out / ENCODER).is_dir():
        with atomic_path(job.out / ENCODER) as temporary:
            shutil.copytree(job.out / ROUNDED / kept, temporary, dirs_exist_ok=True)
    result = load_saved(job.out / ENCODER)
    file = _exported(job, result)
    size = read_json(file / "card.json")["bytes"]
    scored: dict[str, Any] = {NAMES[kept]: load_artefact(file)}
    scored |= {NAMES[name]: it for name, it in encoders.items() if name != kept}
    if not job.begin.table:
        scored[scoring.teacher_row(job.guide.name)] = job.guide
    rows, held = [], job.held_out(REPORT)
    if something:
        rows = scoring.score(scored, held)
        add_scores(file, FORMATS[FORMAT], scoring.for_card(rows[0], held.size))
    for row in rows:
        row["bytes"] = _bytes(job, scored[row["name"]], result, size)
    said = scoring.words(rows, held.size, job.guide.name) if rows else [NO_TEXT]
    if plan.max_mb is not None and size > 1e6 * plan.max_mb:
        said.append(
            f"The file has {size / 1e6:.2f} MB, more than the "
            f"{plan.max_mb:g} MB that you asked for. Ask for a little less."
        )
    return {
        "plan": plan.values(),
        "pairs": counts,
        "dropped": dropped,
        "texts": dict(sentences),
        "kept": kept,
        "verdict": said,
        "encoders": rows,
        "tuning": tuning,
        "encoder": str(job.out / ENCODER),
        "file": str(file),
        "bytes": size,
        "report": str(job.out / "report.html"),
    }


def _bytes(job: Job, encoder: Any, result: Encoder, size: int) -> int | None:
    """Return the bytes of an encoder's file; `size` are those of the result's."""
    if encoder is job.guide:
        if job.whole is not None and job.begin.teacher is None:
            return encoder_bytes(job.whole)
        files = files_of(job.teacher.get("source"))
        return sum(path.stat().st_size for path in files) or None
    if not isinstance(encoder, Encoder):  # the file
        return size
    expected = encoder_bytes(encoder)
    return size if expected == encoder_bytes(result) else expected


def _exported(job: Job, encoder: Encoder) -> Path:
    """Export the result, and return the artefact's folder."""
    folder = job.out / FORMAT
    if not (folder / "card.json").is_file():
        texts = [text for of in job.held.values() for pair in of for text in pair]
        # The teacher may be the start.
        start = str(job.begin.source) if job.begin.teacher is None else None
        teacher = start or job.teacher.get("source")
        export(
            encoder,
            folder,
            FORMAT,
            SCHEME,
            languages=job.languages,
            sentences=texts[:PROOF_TEXTS] or job.texts.sample(PROOF_TEXTS),
            teacher_license=teacher_licence(teacher) if teacher else None,
        )
    return folder
