"""One stage of a run: what it trains on, and its training."""

import sys
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from keras_msd.checks import InputError, explained
from keras_msd.choices import Precision
from keras_msd.data.batches import Batches, PairBatches
from keras_msd.distribute import device_settings
from keras_msd.io.files import write_json
from keras_msd.recipes import processes
from keras_msd.recipes.cache import BEFORE, UNFINISHED
from keras_msd.recipes.curve import ScoreCurve
from keras_msd.recipes.labelled import InferenceRows, ScoredRows
from keras_msd.recipes.resources import Run, check_corpora, corpus_of
from keras_msd.stages.stage import TEACHER, Guide
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


class PairRows:
    """Parallel text with the embeddings of the stage's guides.

    Attributes:
        made_by: Makes batches of the rows.
        unit: What a row is called in results.
        facts: What results say of the rows, too.
    """

    made_by: type[Batches] = PairBatches
    unit = "pairs"

    def __init__(self, run: Run, name: str, settings: Any) -> None:
        self.run, self.name, self.settings = run, name, settings
        self.facts: dict[str, Any] = {}

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
        """Return the stage's training steps."""
        pairs = len(self.run.texts_of(self.settings))
        return int(self.settings.training_steps(self.name, pairs))

    def options(self, guides: Any) -> dict[str, Any]:
        """Return the arguments that only these batches take."""
        stores = {to: (self.run.store(of), side) for to, (of, side) in guides.items()}
        data = self.run.recipe.data
        factors = data.weights or {}
        corpora = {file.name: corpus_of(file.name) for file in self.rows.files}
        weights = {f: factors[name] for f, name in corpora.items() if name in factors}
        order = {"temperature": data.temperature, "weights": weights or None}
        return {"guides": stores, **order}

    def watch(self, encoder: Any, steps: int, history: dict[str, Any]) -> Any:
        """Return what scores the encoder during the stage, into `history`, or None."""
        scored = getattr(self.settings, "scored", None)
        return ScoreCurve(self.run, encoder, scored, steps, history) if scored else None


Rows: TypeAlias = PairRows | InferenceRows
ROWS: dict[str, type[Rows]] = {
    "pairs": PairRows,
    "scored": ScoredRows,
    "inference": InferenceRows,
}


def stage_data(run: Run, name: str, settings: Any) -> Rows:
    """Return what a stage of a run trains on."""
    return ROWS[STAGES[name].rows](run, name, settings)


def batches_of(data: Any, encoder: Any, guides: Any, steps: int) -> Any:
    """Return the batches of so many training steps of a stage's rows."""
    size = data.settings.batch_size
    return data.made_by(
        data.rows,
        encoder,
        batch_size=size,
        max_length=data.run.recipe.data.max_length,
        epochs=-(-steps // (len(data.rows) // size)),
        steps=steps,
        seed=data.run.seed(data.name),
        buckets=data.settings.buckets if device_settings().xla else None,
        **data.options(guides),
    )


def check_stages(run: Run) -> None:
    """Check every stage against the pairs, once there are some.

    Raises:
        InputError: A stage names a corpus that is not there, or its data are too few
            for a batch or for its warm-up.
    """
    for name, settings in run.recipe.stages_in_use():
        stage_data(run, name, settings).steps()


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
    step, spread, size = folder.name, run.distribution, settings.batch_size
    if size % spread.replicas:
        raise InputError(
            f"`stages.{name}.batch_size` must be a multiple of the number of devices. "
            f"Received: {size}, {spread.replicas} devices. Change it, or take fewer "
            "devices."
        )
    with computing_in(precision):
        encoder = run.encoder(start)
    data = stage_data(run, name, settings)
    steps = data.steps()
    guides = _guides(run, name, settings, assistant)
    batches = batches_of(data, encoder, guides, steps)
    processes.begin(run, step)  # the others need what is on disk now
    if spread.replicas > 1:  # all make its weights together
        with spread.scope(), computing_in(precision):
            encoder = run.encoder(start)
    for layer in settings.frozen:
        encoder.model.get_layer(layer).trainable = False
    events = EventFile(run.folder.path / EVENTS / step) if run.tensorboard else None
    history = History(steps, folder / "history.csv", step, size, events)
    watch = history.watch = data.watch(encoder, steps, history.record)
    record = STAGES[name]
    arguments: dict[str, Any] = {}
    if record.needs_teacher_dim:
        arguments["teacher_dim"] = run.teacher.dim
    if arrays and (extra := record.extra_step(settings)):
        arguments[extra.name] = run.array(arrays, extra.name)
    alone = watch is None and spread.replicas == 1
    with spread.scope():
        stage = record.build(encoder, settings, **arguments)
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
    for target, (guide, side) in STAGES[name].targets(settings).items():
        if guide is not None and guide not in made:
            made[guide] = guide(run.encoder(assistant), settings)
        # A teacher that knows a single side stands for the other one, too.
        of_translations = guide is TEACHER and side == "target"
        found[target] = made[guide], run.target_side if of_translations else side
    further = run.guides_of(settings).items()
    return found | {to: (run.guide(guide), side) for to, (guide, side) in further}
