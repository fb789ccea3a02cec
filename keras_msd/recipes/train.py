"""One stage of a run: what it trains on and is scored on, and its training."""

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_msd.checks import InputError, explained
from keras_msd.choices import Precision
from keras_msd.data.batches import Batches, PairBatches
from keras_msd.data.pair import languages_of_pairs
from keras_msd.data.scored import (
    InferenceBatches,
    ScoredBatches,
    read_inference,
    read_scored,
)
from keras_msd.distribute import message_of_first
from keras_msd.evaluate.callbacks import ScoreCallback
from keras_msd.evaluate.parts import CHOOSE, WHOLE
from keras_msd.evaluate.rows import score_row
from keras_msd.evaluate.similarity import PIVOT, aligned_part, read_sts, sts
from keras_msd.io.files import write_json
from keras_msd.models.encoder import Encoder
from keras_msd.recipes.cache import BEFORE, UNFINISHED
from keras_msd.recipes.resources import STEP, Run, check_corpora, corpus_of
from keras_msd.stages.settings import LAST_TENTH
from keras_msd.stages.stage import TEACHER, Guide, Stage
from keras_msd.stages.table import STAGES
from keras_msd.training import resume
from keras_msd.training.callbacks import (
    CollapseMonitor,
    EventFile,
    History,
    NotFiniteError,
)
from keras_msd.training.profile import (
    UPDATES,
    computing_in,
    profile_text,
    profile_updates,
)

EVENTS = "tensorboard"  # folder of what `--tensorboard` asks for
TRAIN, DEV = "train", "dev"  # splits of labelled pairs


class PairRows:
    """Parallel text with the embeddings of the stage's guides.

    Attributes:
        made_by: Makes batches of the rows.
        unit: What a row is called in results.
        facts: What results say of the rows, too.
    """

    made_by: type[Batches] = PairBatches
    unit = "pairs"
    facts: Mapping[str, Any] = {}

    def __init__(self, run: Run, name: str, settings: Any) -> None:
        self.run, self.name, self.settings = run, name, settings

    def files(self) -> list[Path]:
        """Return the files that the stage reads besides corpora."""
        return []

    def check_files(self) -> None:
        """Raise `InputError` unless the data folders have what the stage reads."""
        files = self.run.training_pairs()
        check_corpora(f"stages.{self.name}.corpora", self.settings.corpora, files)

    @cached_property
    def rows(self) -> Any:
        """What the batches are made of."""
        return self.run.table(self.settings)

    def steps(self) -> int:
        """Return the stage's training steps.

        Raises:
            InputError: There are fewer rows than in a batch, or too few for
                `warmup_steps`.
        """
        pairs = len(self.run.texts_of(self.settings))
        return int(self.settings.training_steps(self.name, pairs))

    @property
    def order(self) -> dict[str, Any]:
        """How rows are drawn."""
        data = self.run.recipe.data
        factors = data.weights or {}
        corpora = {file.name: corpus_of(file.name) for file in self.rows.files}
        weights = {f: factors[name] for f, name in corpora.items() if name in factors}
        return {"temperature": data.temperature, "weights": weights or None}

    def options(self, guides: Any) -> dict[str, Any]:
        """Return the arguments that only these batches take."""
        stores = {to: (self.run.store(of), side) for to, (of, side) in guides.items()}
        return {"guides": stores, **self.order}

    def batches(self, encoder: Any, guides: Any, steps: int) -> Any:
        """Return the batches of so many training steps, under this backend."""
        size = self.settings.batch_size
        return self.made_by(
            self.rows,
            encoder,
            batch_size=size,
            max_length=self.run.recipe.data.max_length,
            epochs=-(-steps // (len(self.rows) // size)),
            steps=steps,
            seed=self.run.seed(self.name),
            buckets=self.settings.buckets,
            **self.options(guides),
        )

    def watch(self, encoder: Any, steps: int, history: dict[str, Any]) -> Any:
        """Return a callback that scores the encoder during the stage, or None.

        Args:
            encoder: What is scored.
            steps: Training steps of the stage.
            history: Gets the scores.
        """
        scored = getattr(self.settings, "scored", None)
        return ScoreCurve(self.run, encoder, scored, steps, history) if scored else None


class ScoreCurve(keras.callbacks.Callback):
    """Scores an encoder several times during a stage.

    Args:
        run: The run.
        encoder: What is scored.
        scored: The number of scores, the last at the end, or "last_tenth".
        steps: Training steps of the stage.
        history: Gets `scores`: `{"steps": [...], "cross_lingual": [...]}`, and a list
            of the scores of each track across languages, such as `en-de`; for
            "last_tenth" under that name.
    """

    def __init__(
        self, run: Run, encoder: Any, scored: Any, steps: int, history: dict[str, Any]
    ) -> None:
        super().__init__()
        self._run, self._encoder, self._done = run, encoder, 0
        if scored == LAST_TENTH:
            self._places, key = {round(steps * 0.9), steps}, LAST_TENTH
        else:
            count, key = min(scored, steps), "scores"
            self._places = {round(steps * part / count) for part in range(1, count + 1)}
        self._curve: dict[str, list[float]] = {"steps": [], "cross_lingual": []}
        history[key] = self._curve

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"done": self._done, "curve": self._curve}

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state."""
        self._done = state["done"]
        self._curve.update(state["curve"])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Score after the chosen training steps."""
        self._done += 1
        if self._done in self._places:
            recipe, data_dir = self._run.recipe.settings(), self._run.data_dir
            rounding = self.model.rounding
            with rounding.stored_weights() if rounding else nullcontext():
                row = score_row(recipe, data_dir, self._encoder, full=False)
            across = {name: it for name, it in row["tracks"].items() if "-" in name}
            across |= {"steps": self._done, "cross_lingual": row["cross_lingual"]}
            for name, value in across.items():
                self._curve.setdefault(name, []).append(value)

    def last(self) -> dict[str, float]:
        """Return the newest score by its name, if there is one."""
        scores = self._curve["cross_lingual"]
        return {"cross_lingual": scores[-1]} if scores else {}

    def results(self) -> dict[str, Any]:
        """Return nothing: the curve is in the history."""
        return {}


class InferenceRows(PairRows):
    """Pairs of sentences with labels: the rows of all NLI sets of the stage."""

    made_by: type[Batches] = InferenceBatches
    unit = "rows"
    folder = "nli"
    ends: tuple[str, ...] = (".tsv.gz", ".jsonl.gz", ".tsv", ".jsonl")

    def sets(self) -> dict[Path, str]:
        """Return the training files, each with its set.

        Raises:
            InputError: A set has none of the stage's languages, or a language no set.
        """
        folder, name = self.run.data_dir / self.folder, f"stages.{self.name}"
        wanted = [*self.settings.sets], self._languages(self.settings.languages)
        found: dict[tuple[str, ...], Path] = {}
        for one, code in product(*wanted):
            paths = (folder / f"{one}.{TRAIN}.{code}{end}" for end in self.ends)
            if path := next(filter(Path.is_file, paths), None):
                found[one, code] = path
        there = {it for names in found for it in names}
        if absent := [it for names in wanted for it in names if it not in there]:
            raise InputError(
                f"`{name}` needs a file of each of its sets, and of each of its "
                f"languages. Received: none of {', '.join(absent)}. Looked for "
                f"`{folder}/<set>.{TRAIN}.<xx>` with {' or '.join(self.ends)}. Put one "
                f"there, or change `{name}.sets` or `.languages`."
            )
        return {path: one for (one, _), path in found.items()}

    def files(self) -> list[Path]:
        """Return the training files."""
        return [*self.sets()]

    def check_files(self) -> None:
        """Raise `InputError` unless the files are there, with rows for a batch."""
        self.steps()

    @cached_property
    def rows(self) -> Any:
        """The rows of all sets."""
        parts = [read_inference(path) for path in self.sets()]
        self.facts = {"rows_skipped": sum(part.skipped for part in parts)}
        return [row for part in parts for row in part.rows]

    def steps(self) -> int:
        """Return the stage's training steps."""
        what = f"rows in {', '.join(f'`{path}`' for path in self.sets())}"
        return int(self.settings.training_steps(self.name, len(self.rows), what))

    def options(self, guides: Any) -> dict[str, Any]:
        """Return nothing: these stages have no guides, and rows are drawn evenly."""
        return {}

    def _languages(self, named: tuple[str, ...]) -> list[str]:
        of_pairs = languages_of_pairs(self.run.recipe.data.languages)
        return list(dict.fromkeys(named or (PIVOT, *of_pairs)))


class ScoredRows(InferenceRows):
    """Pairs of sentences with gold scores: the rows of all STS sets of the stage."""

    made_by = ScoredBatches
    folder = "sts"
    ends = (".tsv.gz",)

    def files(self) -> list[Path]:
        """Return the training files, and those that choose the weights."""
        return [*self.sets(), *self.dev_files().values()]

    def check_files(self) -> None:
        """Raise `InputError` unless the files are there, with rows for a batch."""
        _ = self.rows, self.dev_rows()  # what is missing is named first
        self.steps()

    @cached_property
    def rows(self) -> Any:
        """The rows of all sets, gold in [0, 1]."""
        scales = self.settings.sets
        files = self.sets().items()
        return [row for path, name in files for row in read_scored(path, scales[name])]

    def watch(self, encoder: Any, steps: int, history: dict[str, Any]) -> Any:
        """Return the callback that chooses the stage's weights."""
        return DevelopmentScores(self, encoder, history)

    def dev_files(self) -> dict[str, Path]:
        """Return the files that choose the weights, by language.

        For a half also the English file, whose sentences decide it.
        """
        whole = self.run.recipe.evaluate.part == WHOLE
        codes = [*([] if whole else [PIVOT]), *self._dev_languages()]
        start = f"{self.settings.dev_set}.{DEV}"
        folder = self.run.data_dir / self.folder
        return {code: folder / f"{start}.{code}.tsv.gz" for code in codes}

    def dev_rows(self) -> dict[str, list[Any]]:
        """Return the rows that select the checkpoint: never the reporting half."""
        rows = {code: read_sts(path) for code, path in self.dev_files().items()}
        if self.run.recipe.evaluate.part != WHOLE:
            rows = aligned_part(rows, CHOOSE)
        return {code: rows[code] for code in self._dev_languages()}

    def _dev_languages(self) -> list[str]:
        settings = self.settings
        return self._languages(settings.dev_languages or settings.languages)


class DevelopmentScores(ScoreCallback):
    """Keeps the weights of `regress_similarity` that score best on development rows.

    Args:
        data: The stage's rows.
        encoder: What is scored.
        history: Gets `dev`: `{"steps": [...], "spearman": [...]}`.
    """

    def __init__(self, data: ScoredRows, encoder: Any, history: dict[str, Any]) -> None:
        settings, dev = data.settings, data.dev_rows().values()

        def score(scored: Any) -> dict[str, Any]:
            found = [sts(scored, rows)["spearman"] for rows in dev]
            mean = round(float(np.mean(found)), 4)
            return {"spearman": mean, "primary": "spearman"}

        every = settings.evaluate_every or len(data.rows) // settings.batch_size
        best = {"best_weights": True, "patience": settings.patience}
        super().__init__(encoder, score, every=every, **best)
        self._history = history

    def last(self) -> dict[str, float]:
        """Return the newest score by its name."""
        return {"dev": self.record[-1]["dev_spearman"]}

    def results(self) -> dict[str, Any]:
        """Return which weights were kept, and the scores before and after."""
        scores = [look["dev_spearman"] for look in self.record]
        steps = [look["step"] for look in self.record]
        self._history["dev"] = {"steps": steps, "spearman": scores}
        best = {"best_step": self.best_step, "dev_best": self.best}
        return best | {"dev_before": scores[0]}


ROWS: dict[str, type[PairRows]] = {
    "pairs": PairRows,
    "scored": ScoredRows,
    "inference": InferenceRows,
}


def stage_data(run: Run, name: str, settings: Any) -> PairRows:
    """Return what a stage of a run trains on."""
    return ROWS[STAGES[name].rows](run, name, settings)


def check_stages(run: Run) -> None:
    """Check every stage against the pairs, once there are some.

    Raises:
        InputError: A stage names a corpus that is not there, or its data are too few
            for a batch or for its warm-up.
    """
    recipe = run.recipe
    for name, settings in recipe.stages_in_use():
        stage_data(run, name, settings).steps()
    size, pairs = recipe.reduction.batch_size or 0, len(run.texts)
    if recipe.reduction.widths and pairs < size:
        raise InputError(
            "`reduction.batch_size` must be at most the pairs. Received: batch_size="
            f"{size}, {pairs} pairs. Lower it, or give more."
        )


def fit(
    run: Run,
    folder: Path,
    name: str,
    settings: Any,
    start: str,
    assistant: str | None = None,
    arrays: str | None = None,
    precision: Precision = "float32",
) -> dict[str, Any]:
    """Train one stage; write `encoder/`, `history.json` and `history.csv`.

    With `--profile` also `profile.json`, see `profile_updates`.

    Args:
        run: The run.
        folder: The step's folder, which has the step's name.
        name: Name of the stage; with the recipe's seed it decides the order of rows.
        settings: The stage's.
        start: Step that left the encoder to train.
        assistant: Step that left the assistant, for stages that imitate it.
        arrays: Extra step of the stage, see `ExtraStep`.
        precision: What it computes in, see `computing_in`.

    Returns:
        `steps` done, the rows that were drawn, and what the stage's data and scores
        add.

    Raises:
        InputError: The settings do not fit the data or the number of devices; the loss
            is not finite.
    """
    step, spread = folder.name, run.distribution
    if settings.batch_size % spread.replicas:
        raise InputError(
            f"`stages.{name}.batch_size` must be a multiple of the number of devices. "
            f"Received: {settings.batch_size}, {spread.replicas} devices. Change it, "
            "or take fewer devices."
        )
    with computing_in(precision):
        encoder = run.encoder(start)
    data = stage_data(run, name, settings)
    steps = data.steps()
    batches = data.batches(encoder, _guides(run, name, settings, assistant), steps)
    if spread.processes > 1 and spread.process == 0:
        message_of_first(
            json.dumps({STEP: step})
        )  # the others need what is on disk now
    if spread.replicas > 1:  # all make its weights together
        with spread.scope(), computing_in(precision):
            encoder = run.encoder(start)
    for layer in settings.frozen:
        encoder.model.get_layer(layer).trainable = False
    events = None
    if run.tensorboard:
        events = EventFile(run.folder.path / EVENTS / step)
    size = settings.batch_size
    history = History(steps, folder / "history.csv", step, size, events)
    watch = history.watch = data.watch(encoder, steps, history.record)
    alone = watch is None and spread.replicas == 1
    with spread.scope():
        stage = _stage(run, name, settings, encoder, arrays)
        stage.compile(
            optimizer=settings.optimizer(steps),
            steps_per_execution=history.updates_at_once() if alone else 1,
        )
    monitor = _monitor(batches) if stage.pools else None
    repair = (
        f"The step `{step}` is not done; its last checkpoint stays. The same command "
        f"tries again from there. With another `stages.{name}.learning_rate`, now "
        f"{settings.learning_rate}, or `.warmup` it begins this stage again."
    )
    with_repair = explained(
        lambda error: f"Step `{step}`: {error} {repair}", NotFiniteError
    )
    with with_repair, spread.scope():
        fitted = resume.fit(
            stage,
            batches,
            run.folder.step(step) / UNFINISHED,  # `folder` is a worker's own
            minutes=run.checkpoint_minutes,
            updates=steps,
            callbacks=[history, *filter(None, (watch, monitor))],
            verbose=0,
        )
    if run.profile:
        seconds = profile_updates(stage, batches, min(UPDATES, steps))
        saving = fitted.seconds_saving
        write_json(folder / "profile.json", seconds | {"checkpoints": saving})
        text = f"{step}: {profile_text(seconds)}, checkpoints {saving:.1f} s"
        print(text, file=sys.stderr)
    if monitor and monitor.collapsed:
        history.record["collapsed"] = monitor.collapsed
    results = watch.results() if watch else {}
    stage.trained_encoder().save(folder / "encoder")
    write_json(folder / "history.json", history.record)
    return {
        "steps": history.done,
        data.unit: history.done * size,
        BEFORE: fitted.seconds_before,
        **data.facts,
        **results,
    }


def _monitor(batches: Any) -> CollapseMonitor | None:
    """Return what watches the embeddings of the first batch, if it can."""
    first, _ = getattr(batches, "batches", batches).batch(0)
    try:
        return CollapseMonitor(first)
    except InputError:  # all rows have one source line
        return None


def _guides(
    run: Run, name: str, settings: Any, assistant: str | None
) -> dict[str, tuple[Any, str]]:
    """Return the guide and the side of each target of a stage."""
    made: dict[Guide, Any] = {TEACHER: run.teacher}
    found: dict[str, tuple[Any, str]] = {}
    for target, (guide, side) in STAGES[name].guides.items():
        if guide is not None and guide not in made:
            made[guide] = guide(run.encoder(assistant), settings)
        # A teacher that knows a single side stands for the other one, too.
        of_translations = guide is TEACHER and side == "target"
        found[target] = made[guide], run.target_side if of_translations else side
    further = run.guides_of(settings).items()
    return found | {to: (run.guide(guide), side) for to, (guide, side) in further}


def _stage(
    run: Run, name: str, settings: Any, encoder: Encoder, arrays: str | None
) -> Stage:
    """Return the stage that the settings describe."""
    record = STAGES[name]
    arguments: dict[str, Any] = {}
    if record.needs_teacher_dim:
        arguments["teacher_dim"] = run.teacher.dim
    if (extra := record.extra_step(settings)) and arrays:
        arguments[extra.name] = run.array(arrays, extra.name)
    return record.build(encoder, settings, **arguments)
