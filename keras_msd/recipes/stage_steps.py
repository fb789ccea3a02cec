"""The training stages of a run: each fits one encoder with a seed of its own."""

import math
from pathlib import Path
from typing import Any

from keras_msd.files import write_json
from keras_msd.recipes.schema import (
    AlignSettings,
    ContrastiveSettings,
    StageSettings,
)
from keras_msd.recipes.state import Run

POINTS = 100  # values of each term in a stage's history


def train(
    run: Run, folder: Path, step: str, name: str, start: str, assistant: str | None
) -> dict[str, Any]:
    """Run one stage and leave `encoder/` and `history.json`.

    Args:
        run: The run.
        folder: The step's folder.
        step: Name of the step; with the recipe's seed it decides the stage's.
        name: Name of the stage.
        start: Step that left the encoder to train.
        assistant: Step that left the assistant, for stages that imitate it.
    """
    import keras

    from keras_msd.stages import stage_class
    from keras_msd.stages.optimizer import make_optimizer

    settings: StageSettings = getattr(run.recipe.stages, name)
    seed = run.seed(step)
    keras.utils.set_random_seed(seed)
    make_deterministic()
    table = run.table(settings.corpora)
    encoder = run.encoder(start)
    for layer in settings.frozen:
        encoder.model.get_layer(layer).trainable = False
    stage = stage_class(name)(encoder, dims=settings.dims, **_terms(settings))
    steps = _steps(settings, len(table))
    stage.compile(
        optimizer=make_optimizer(
            settings.learning_rate,
            steps,
            warmup=settings.warmup,
            weight_decay=settings.weight_decay,
            clip_norm=settings.clip_norm,
            schedule=settings.schedule,
        ),
        jit_compile=False,  # every padded length would be compiled anew
    )
    batches = _batches(run, settings, name, table, encoder, assistant, seed)
    history = _history(steps, step)
    stage.fit(
        batches,
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
        callbacks=[history],
    )
    encoder.save(folder / "encoder")
    write_json(folder / "history.json", history.record)
    return {"steps": steps, "pairs": steps * settings.batch_size}


def make_deterministic() -> None:
    """Have TensorFlow choose kernels whose sums do not depend on timing."""
    import keras

    if keras.backend.backend() == "tensorflow":
        from keras_msd.stages._tensorflow import make_deterministic as switch_on

        switch_on()


def _terms(settings: StageSettings) -> dict[str, Any]:
    if isinstance(settings, AlignSettings):
        return {"per_token": settings.per_token}
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


def _steps(settings: StageSettings, pairs: int) -> int:
    limits = []
    if settings.epochs is not None:
        # The last batch of an epoch is dropped where it is not full.
        limits.append(settings.epochs * max(1, pairs // settings.batch_size))
    if settings.steps is not None:
        limits.append(settings.steps)
    return min(limits)


def _batches(
    run: Run,
    settings: StageSettings,
    name: str,
    table: Any,
    encoder: Any,
    assistant: str | None,
    seed: int,
) -> Any:
    import keras

    if name in ("teach_assistant", "contrastive_learning"):
        guides = {"teacher": (run.store(run.teacher), "source")}
    else:
        guide = run.encoder(assistant or "")
        if isinstance(settings, AlignSettings):
            guide = guide.embedding_guide(per_token=settings.per_token)
        store = run.store(guide)
        kind = "embedding" if isinstance(settings, AlignSettings) else "assistant"
        guides = {f"{kind}_{side}": (store, side) for side in ("source", "target")}
    options = {
        "guides": guides,
        "batch_size": settings.batch_size,
        "max_length": run.recipe.data.max_length,
        "seed": seed,
        "temperature": run.recipe.data.temperature,
    }
    if keras.backend.backend() == "tensorflow":
        from keras_msd.data.pipeline import pair_dataset

        return pair_dataset(table, encoder, **options)
    from keras_msd.data.batches import PairBatches

    return PairBatches(table, encoder, **options)


def _history(steps: int, what: str) -> Any:
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
            self.bar.close()

    return History()
