"""The training stages of a run: each fits one encoder with a seed of its own."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.files import write_json
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.runs.updates import updates
from keras_msd.recipes.schema.training import (
    AlignSettings,
    ContrastiveSettings,
    Length,
    StageSettings,
    ThinDeepSettings,
)
from keras_msd.recipes.steps.score_curve import score_curve

POINTS = 100  # values of each term in a stage's history


def train(
    run: Run,
    folder: Path,
    step: str,
    name: str,
    settings: StageSettings,
    start: str,
    assistant: str | None,
    curve: bool = False,
    reduction: str | None = None,
) -> dict[str, Any]:
    """Run one stage and leave `encoder/` and `history.json`.

    Args:
        run: The run.
        folder: The step's folder.
        step: Name of the step.
        name: Name of the stage; with the recipe's seed it decides the order of pairs.
        settings: The stage's.
        start: Step that left the encoder to train.
        assistant: Step that left the assistant, for stages that imitate it.
        curve: Score the encoder `settings.scored` times on its way.
        reduction: Step that left the dense layer of a "synchronized" student's teacher.
    """
    from keras_msd.stages import stage_class

    table = run.table(settings)
    encoder = run.encoder(start)
    freeze(encoder, settings)
    make = stage_class(name)
    terms = _terms(settings)
    if isinstance(settings, ThinDeepSettings):
        terms["teacher_dim"] = run.teacher.dim
    if reduction:
        terms["reduction"] = np.load(run.folder.stage(reduction) / "reduction.npy")
    stage = make(encoder, dims=settings.dims, **terms)
    steps = updates(name, settings, len(table))
    stage.compile(optimizer=optimizer(settings, steps))
    batches = _dataset(
        table,
        encoder,
        guides=_guides(run, settings, name, assistant),
        batch_size=settings.batch_size,
        max_length=run.recipe.data.max_length,
        epochs=math.ceil(steps / (len(table) // settings.batch_size)),
        seed=run.seed(name),
        temperature=run.recipe.data.temperature,
    )
    history = loss_history(steps, step)
    callbacks = [history]
    if curve:
        callbacks.append(score_curve(run, encoder, steps, settings, history.record))
    stage.fit(
        batches,
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
    )
    if isinstance(settings, ThinDeepSettings):
        encoder = stage.trained_encoder()
    encoder.save(folder / "encoder")
    write_json(folder / "history.json", history.record)
    return {"steps": steps, "pairs": steps * settings.batch_size}


def train_with_curve(run: Run, folder: Path, **options: Any) -> dict[str, Any]:
    """Do as `train`, and put the encoder's scores on its way into `history.json`."""
    return train(run, folder, **options, curve=True)


def optimizer(settings: Length, steps: int) -> Any:
    """Return the optimizer of a stage of so many updates, as `updates` gives them."""
    from keras_msd.stages.optimizer import make_optimizer

    warmup = settings.warmup
    if settings.warmup_steps is not None:
        # Half an update more, as the optimizer rounds the product down.
        warmup = (settings.warmup_steps + 0.5) / steps
    return make_optimizer(
        settings.learning_rate,
        steps,
        warmup=warmup,
        weight_decay=settings.weight_decay,
        clip_norm=settings.clip_norm,
        schedule=settings.schedule,
    )


def freeze(encoder: Any, settings: Length) -> None:
    """Take the layers that a stage leaves alone out of training."""
    for layer in settings.frozen:
        encoder.model.get_layer(layer).trainable = False


def _terms(settings: StageSettings) -> dict[str, Any]:
    if isinstance(settings, AlignSettings):
        return {"per_token": settings.per_token}
    if isinstance(settings, ThinDeepSettings):
        own = ThinDeepSettings.model_fields.keys() - StageSettings.model_fields.keys()
        return {name: getattr(settings, name) for name in sorted(own)}
    if not isinstance(settings, ContrastiveSettings):
        return {}
    terms: dict[str, Any] = {
        "kd_weight": settings.kd_weight,
        "temperature": settings.temperature,
        "contrastive_weight": settings.contrastive_weight,
    }
    if settings.target == "none":
        return {"kd_weight": settings.kd_weight, "contrastive": None}
    return terms | {"target": settings.target}


def _guides(
    run: Run, settings: StageSettings, name: str, assistant: str | None
) -> dict[str, Any]:
    if name in ("teach_assistant", "contrastive_learning"):
        return {"teacher": (run.store(run.teacher), "source")}
    if name == "teach_thin_deep":
        # What only knows English stands for both sides with its English vector.
        other = "target" if run.recipe.teacher.multilingual else "source"
        store = run.store(run.teacher)
        return {"teacher_source": (store, "source"), "teacher_target": (store, other)}
    guide, kind = run.encoder(assistant or ""), "assistant"
    if isinstance(settings, AlignSettings):
        guide = guide.embedding_guide(per_token=settings.per_token)
        kind = "embedding"
    store = run.store(guide)
    return {f"{kind}_{side}": (store, side) for side in ("source", "target")}


def _dataset(*args: Any, **kwargs: Any) -> Any:
    import keras

    if keras.backend.backend() == "tensorflow":
        from keras_msd.data.pipeline import pair_dataset

        return pair_dataset(*args, **kwargs)
    from keras_msd.data.batches import PairBatches

    return PairBatches(*args, **kwargs)


def loss_history(steps: int, what: str) -> Any:
    """Return a callback that keeps the terms of a stage in `record`."""
    import keras

    from keras_msd.progress import track

    class History(keras.callbacks.Callback):
        """Mean of each term over every few batches, and a bar."""

        def __init__(self) -> None:
            super().__init__()
            self.record: dict[str, Any] = {"steps": [], "terms": {}}
            self.every = math.ceil(steps / POINTS)
            self.bar = iter(track(range(steps), total=steps, what=what))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            next(self.bar)
            done = batch + 1
            if done % self.every == 0 or done == steps:
                self.record["steps"].append(done)
                for name, value in (logs or {}).items():
                    self.record["terms"].setdefault(name, []).append(float(value))
                self.model.reset_metrics()

        def on_train_end(self, logs: Any = None) -> None:
            next(self.bar, None)  # past the last step, which ends the bar

    return History()
