"""One stage of a run: it fits one encoder, from a seed of its own."""

import math
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import keras

from keras_msd.checks import InputError, explained
from keras_msd.files import atomic_path, write_json
from keras_msd.losses.table import loss_class
from keras_msd.progress import Progress
from keras_msd.recipes.cache import BEFORE, UNFINISHED
from keras_msd.recipes.resources import Run
from keras_msd.recipes.settings import PairStageSettings, TrainingSettings
from keras_msd.recipes.stages import STAGE_KINDS, StageKind
from keras_msd.recipes.updates import updates
from keras_msd.stages.stage import LossTerm
from keras_msd.training import resume
from keras_msd.training.callbacks import CollapseMonitor
from keras_msd.training.optimizer import make_optimizer
from keras_msd.training.precision import NotFiniteError, computing_in
from keras_msd.training.profile import UPDATES, profile_text, profile_updates

EVENTS = "tensorboard"  # folder of what `--tensorboard` asks for


def fit(
    run: Run,
    folder: Path,
    step: str,
    name: str,
    settings: Any,
    start: str,
    assistant: str | None = None,
    reduction: str | None = None,
    precision: str = "float32",
) -> dict[str, Any]:
    """Run one stage and leave `encoder/`, `history.json` and `history.csv`.

    Where the run asks for it, also `profile.json`, see `profile_updates`.

    Args:
        run: The run.
        folder: The step's folder.
        step: Name of the step.
        name: Name of the stage; with the recipe's seed it decides the order of rows.
        settings: The stage's.
        start: Step that left the encoder to train.
        assistant: Step that left the assistant, for stages that imitate it.
        reduction: Step that left the dense layer of a "synchronized" student's teacher.
        precision: What it computes in, see `computing_in`.

    Returns:
        `steps` done, the rows that were drawn, called as the data call them, what else
        is to be said of the data, and what the stage's scores on its way lead to.

    Raises:
        InputError: The settings are of another stage, or do not fit the data or the
            number of devices; the loss is not finite.
    """
    kind = STAGE_KINDS[name]
    known: type[Any] = kind.settings_class
    if not isinstance(settings, known):
        raise InputError(
            f"The stage `{name}` has settings of the class {known.__name__}. "
            f"Received: {type(settings).__name__}. Take them from the recipe."
        )
    spread = run.distribution
    _check_shares(name, settings, spread.replicas)
    with computing_in(precision):
        encoder = run.encoder(start)
    work = kind(run, settings, encoder, assistant, reduction)
    data = work.data()
    steps = updates(name, settings, data.cut.steps)
    epochs = next(some for some in count(1) if data.cut.steps(some) >= steps)
    batches = data.batches(epochs, steps)
    run.workers.meet(step)  # the others come once this is on disk
    if spread.replicas > 1:  # all make its weights together
        with spread.scope(), computing_in(precision):
            work.encoder = run.encoder(start)
    for layer in settings.frozen:
        work.encoder.model.get_layer(layer).trainable = False
    with spread.scope():
        stage = _stage(work)
        stage.compile(optimizer=stage_optimizer(settings, steps))
    events = None
    if run.tensorboard:
        from keras_msd.recipes._tensorflow import EventFile

        events = EventFile(run.folder.path / EVENTS / step)
    history = History(steps, folder / "history.csv", step, data.cut.drawn, events)
    watch = history.watch = work.watch(steps, history.record)
    unfinished = run.folder.step(step) / UNFINISHED  # `folder` is a worker's own
    monitor = _monitor(batches, settings)
    others = [it for it in (watch, monitor) if it]
    repair = (
        f"The step `{step}` is not done; its last checkpoint stays. The same command "
        f"tries again from there; with `stages.{name}.bad_batches` it skips a few such "
        f"batches. With another `stages.{name}.learning_rate`, now "
        f"{settings.learning_rate}, or `.warmup` it begins this stage anew."
    )
    said = explained(lambda error: f"Step `{step}`: {error} {repair}", NotFiniteError)
    with said, spread.scope():
        fitted = resume.fit(
            stage,
            batches,
            unfinished,
            minutes=run.checkpoint_minutes,
            updates=steps,
            callbacks=[history, *others],
            verbose=0,
        )
    if run.profile:
        _profile(
            stage, batches, steps, folder / "profile.json", step, fitted.seconds_saving
        )
    results = watch.results() if watch else {}
    if settings.bad_batches:
        history.record["bad_batches"] = int(float(stage.bad_batches))
    if monitor and monitor.collapsed:
        history.record["collapsed"] = monitor.collapsed
    stage.trained_encoder().save(folder / "encoder")
    write_json(folder / "history.json", history.record)
    rows = data.cut.drawn(history.done)
    done = {"steps": history.done, data.unit: rows, BEFORE: fitted.seconds_before}
    return {**done, **data.facts, **results}


def _check_shares(name: str, settings: TrainingSettings, replicas: int) -> None:
    if settings.batch_size % replicas:
        raise InputError(
            f"`stages.{name}.batch_size` must be a multiple of the number of devices. "
            f"Received: {settings.batch_size}, {replicas} devices. Change it, or take "
            "fewer devices."
        )


def _monitor(batches: Any, settings: TrainingSettings) -> CollapseMonitor | None:
    """Return what watches the sentence vectors of the first batch, if it can."""
    if getattr(settings, "per_token", False):
        return None
    first, _ = getattr(batches, "batches", batches).batch(0)
    try:
        return CollapseMonitor(first)
    except InputError:  # all rows have one source line
        return None


def _stage(work: StageKind) -> Any:
    """Return the stage that the settings describe."""
    settings = work.settings
    losses = [
        LossTerm(
            name,
            loss_class(term.loss)(**term.arguments),
            term.goals,
            term.grouped,
            term.weight,
        )
        for name, term in settings.losses.items()
    ]
    arguments = {"losses": losses, **settings.weights, **work.arguments()}
    if isinstance(settings, PairStageSettings):
        arguments["dims"] = settings.dims
    stage = work.stage_class()(work.encoder, **arguments)
    if settings.bad_batches:
        stage.skip_bad_batches(settings.bad_batches)
    return stage


def _profile(
    stage: Any,
    batches: Any,
    steps: int,
    path: Path,
    step: str,
    saving: float,
) -> None:
    """Measure a few more updates; write and say what a stage spent its time on."""
    updates = min(UPDATES, steps)
    seconds = profile_updates(stage, batches, updates)
    write_json(path, seconds | {"checkpoints": saving})
    print(
        f"{step}: {profile_text(seconds)}, checkpoints {saving:.1f} s",
        file=sys.stderr,
    )


def stage_optimizer(settings: TrainingSettings, steps: int) -> Any:
    """Return the optimizer of a stage of so many updates, as `updates` gives them."""
    warmup = settings.warmup
    if settings.warmup_steps is not None:
        # Half an update more, as the optimizer rounds the product down.
        warmup = (settings.warmup_steps + 0.5) / steps
    names = {"learning_rate", "weight_decay", "clip_norm", "schedule"}
    arguments = settings.model_dump(include=names)
    return make_optimizer(steps=steps, warmup=warmup, **arguments)


POINTS = 100  # values of each term in a stage's history
KEPT = "steps", "terms"


class History(keras.callbacks.Callback):
    """Mean of each term over every few batches: on disk as they come, and on stderr.

    Args:
        steps: Updates of the stage.
        path: A table for whoever looks on: a row for each entry of the record.
        what: What the stage is called on stderr.
        drawn: Gives the pairs of so many updates, for the sentences a second.
        events: An `EventFile` that gets the same entries, and scores on the way.

    Attributes:
        record: `{"steps": [...], "terms": {name: [...]}}`.
        done: Updates so far.
        watch: The callback that scores the encoder on its way, None if nothing does.
    """

    def __init__(
        self,
        steps: int,
        path: Path,
        what: str,
        drawn: Callable[[int], int],
        events: Any = None,
    ) -> None:
        super().__init__()
        self.watch: Any = None
        self._path, self._what, self._drawn = path, what, drawn
        self._events = events
        self.record: dict[str, Any] = {"steps": [], "terms": {}}
        self.done = 0
        self._steps, self._every = steps, math.ceil(steps / POINTS)

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"done": self.done} | {key: self.record[key] for key in KEPT}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.done = state["done"]
        self.record.update((key, state[key]) for key in KEPT)

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin to count."""
        self._began, self._before = self.done, self._drawn(self.done)
        self._progress = Progress(self._what, self._steps, "sentences", done=self.done)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keep the means where it is time."""
        self.done += 1
        if self.done % self._every == 0 or self.done == self._steps:
            self.record["steps"].append(self.done)
            for name, value in (logs or {}).items():
                self.record["terms"].setdefault(name, []).append(float(value))
            self.model.reset_metrics()
            self._write()
            if self._events:
                self._events.add(self.done, self._last())
        pairs = self._drawn(self.done) - self._before
        self._progress.rate = 2 * pairs / (self.done - self._began)
        self._progress.advance(notes=self._last())

    def on_train_end(self, logs: Any = None) -> None:
        """Stop counting."""
        self._progress.close()

    def _last(self) -> dict[str, float]:
        last = {name: values[-1] for name, values in self.record["terms"].items()}
        return last | (self.watch.last() if self.watch else {})

    def _write(self) -> None:
        terms = self.record["terms"]
        lines = [
            ("step", *terms),
            *zip(self.record["steps"], *terms.values(), strict=True),
        ]
        text = "".join(",".join(map(str, line)) + "\n" for line in lines)
        with atomic_path(self._path) as temporary:
            temporary.write_text(text, encoding="utf-8")
