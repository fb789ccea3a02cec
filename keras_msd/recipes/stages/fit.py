"""One stage of a run: it fits one encoder, from a seed of its own."""

import sys
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, explained
from keras_msd.files import write_json
from keras_msd.losses.table import loss_class
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.runs.run_folder import BEFORE, EVENTS, UNFINISHED
from keras_msd.recipes.runs.updates import updates
from keras_msd.recipes.schema.settings import PairStageSettings, TrainingSettings
from keras_msd.recipes.stages.history import History
from keras_msd.recipes.stages.kinds import STAGE_KINDS, Fit
from keras_msd.recipes.steps.reads import Reads, reads_by
from keras_msd.registry import loaded
from keras_msd.stages.stage import LossTerm
from keras_msd.training import resume
from keras_msd.training.callbacks import CollapseMonitor
from keras_msd.training.optimizer import make_optimizer
from keras_msd.training.precision import NotFiniteError, computing_in
from keras_msd.training.profile import UPDATES, profile_text, profile_updates


def _reads(given: Mapping[str, Any]) -> Reads:
    """Return what a stage reads: more where it is scored on its way."""
    kind, settings = STAGE_KINDS[given["name"]], given["settings"]
    files: Any = None
    if kind.files:
        files = partial(loaded(kind.files), settings=settings)
    elif getattr(settings, "scored", None):
        files = Run.evaluation_files
    sections: tuple[str, ...] = ("data", "teacher", "distribute")
    sections += ("evaluate",) if files else ()
    return Reads(
        sections=sections,
        steps=("pairs", "tokenizer"),
        parents=("start", "assistant", "reduction"),
        values=("name", "settings", "precision"),
        ignored=("step",),
        files=files,
        teacher=True,
    )


@reads_by(_reads)
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
    known: type[Any] = kind.settings
    if not isinstance(settings, known):
        raise InputError(
            f"The stage `{name}` has settings of the class {known.__name__}. "
            f"Received: {type(settings).__name__}. Take them from the recipe."
        )
    spread = run.distribution
    _check_shares(name, settings, spread.replicas)
    with computing_in(precision):
        encoder = run.encoder(start)
    work = Fit(run, name, settings, encoder, assistant, reduction)
    data = loaded(kind.data)(work)
    steps = updates(name, settings, data.cut.steps)
    epochs = next(some for some in count(1) if data.cut.steps(some) >= steps)
    batches = data.batches(epochs, steps)
    run.workers.meet(step)  # the others come once this is on disk
    if spread.replicas > 1:  # all make its weights together
        with spread.scope(), computing_in(precision):
            work = work._replace(encoder=run.encoder(start))
    for layer in settings.frozen:
        work.encoder.model.get_layer(layer).trainable = False
    with spread.scope():
        stage = _stage(kind, work)
        stage.compile(optimizer=stage_optimizer(settings, steps))
    events = None
    if run.tensorboard:
        from keras_msd.recipes.stages._tensorflow import EventFile

        events = EventFile(run.folder.path / EVENTS / step)
    history = History(steps, folder / "history.csv", step, data.cut.drawn, events)
    watch = history.watch = loaded(kind.watch)(work, steps, history.record)
    unfinished = run.folder.step(step) / UNFINISHED  # `folder` is a worker's own
    monitor = _monitor(batches, settings)
    others = [it for it in (watch, monitor) if it]
    repair = (
        f"The step `{step}` is not done; its last checkpoint stays. The same command "
        f"tries again from there; with `stages.{name}.bad_batches` it skips a few such "
        f"batches. With another `stages.{name}.learning_rate`, now "
        f"{settings.learning_rate}, or `.warmup` it is another run: give another "
        "`out_dir`."
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


def _stage(kind: Any, work: Fit) -> Any:
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
    arguments = {"losses": losses, **settings.weights, **kind.arguments(work)}
    if isinstance(settings, PairStageSettings):
        arguments["dims"] = settings.dims
    stage = loaded(kind.make)(work.encoder, **arguments)
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
