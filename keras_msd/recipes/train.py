"""One stage of a run: train one encoder, with a random seed of its own."""

import sys
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, explained
from keras_msd.files import write_json
from keras_msd.losses.table import loss_class
from keras_msd.models.encoder import Encoder
from keras_msd.recipes.cache import BEFORE, UNFINISHED
from keras_msd.recipes.resources import Run
from keras_msd.recipes.rows import stage_data
from keras_msd.recipes.stages import STAGES, ThinDeepSettings, TrainingSettings
from keras_msd.stages.stage import LossTerm
from keras_msd.training import resume
from keras_msd.training.callbacks import CollapseMonitor
from keras_msd.training.history import EventFile, History
from keras_msd.training.optimizer import make_optimizer
from keras_msd.training.precision import NotFiniteError, computing_in
from keras_msd.training.profile import UPDATES, profile_text, profile_updates

EVENTS = "tensorboard"  # folder of what `--tensorboard` asks for


def fit(
    run: Run,
    folder: Path,
    name: str,
    settings: Any,
    start: str,
    assistant: str | None = None,
    reduction: str | None = None,
    precision: str = "float32",
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
        reduction: Step that left the dense layer of a "synchronized" student's teacher.
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
    run.workers.meet(step)  # the others come once this is on disk
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
        stage = _stage(run, name, settings, encoder, reduction)
        stage.compile(
            optimizer=stage_optimizer(settings, steps),
            steps_per_execution=history.updates_at_once() if alone else 1,
        )
    monitor = _monitor(batches, settings)
    repair = (
        f"The step `{step}` is not done; its last checkpoint stays. The same command "
        f"tries again from there. With another `stages.{name}.learning_rate`, now "
        f"{settings.learning_rate}, or `.warmup` it begins this stage again."
    )
    said = explained(lambda error: f"Step `{step}`: {error} {repair}", NotFiniteError)
    with said, spread.scope():
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


def _monitor(batches: Any, settings: TrainingSettings) -> CollapseMonitor | None:
    """Return what watches the embeddings of the first batch, if it can."""
    if getattr(settings, "per_token", False):
        return None
    first, _ = getattr(batches, "batches", batches).batch(0)
    try:
        return CollapseMonitor(first)
    except InputError:  # all rows have one source line
        return None


def _guides(
    run: Run, name: str, settings: Any, assistant: str | None
) -> dict[str, tuple[Any, str]]:
    """Return the guide and the side of each target of a stage."""
    own = STAGES[name].guides
    whose = {of for of, _ in own.values()}
    known = {"teacher": run.teacher}
    # A teacher that knows a single side stands for the other one, too.
    sides = {"teacher": run.target_side}
    if not whose <= {"teacher"}:
        known["assistant"] = encoder = run.encoder(assistant)
        if "embedding" in whose:
            per_token = settings.per_token
            known["embedding"] = encoder.embedding_guide(per_token=per_token)
    found = {
        target: (known[of], sides.get(of, side) if side == "target" else side)
        for target, (of, side) in own.items()
    }
    further = run.guides_of(settings).items()
    return found | {to: (run.guide(guide), side) for to, (guide, side) in further}


def _stage(
    run: Run,
    name: str,
    settings: TrainingSettings,
    encoder: Encoder,
    reduction: str | None,
) -> Any:
    """Return the stage that the settings describe."""
    losses = [
        LossTerm(name, loss_class(term.loss)(**term.arguments), **term.options())
        for name, term in settings.losses.items()
    ]
    arguments = {"losses": losses, **settings.weights, **settings.arguments()}
    if isinstance(settings, ThinDeepSettings):
        arguments["teacher_dim"] = run.teacher.dim
        if reduction:
            arguments["reduction"] = run.array(reduction, "reduction")
    make: Any = STAGES[name].make
    return make(encoder, **arguments)


def stage_optimizer(settings: TrainingSettings, steps: int) -> Any:
    """Return the optimizer of a stage of so many training steps."""
    warmup = settings.warmup
    if settings.warmup_steps is not None:
        # Half a step more, as the optimizer rounds the product down.
        warmup = (settings.warmup_steps + 0.5) / steps
    names = {"learning_rate", "weight_decay", "clip_norm", "schedule"}
    arguments = settings.model_dump(include=names)
    return make_optimizer(steps=steps, warmup=warmup, **arguments)
