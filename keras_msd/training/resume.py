"""Exact resume: a training continues at the update where it stopped."""

import json
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_msd.checks import InputError, at_least
from keras_msd.data.batches import Batches
from keras_msd.io.files import DamagedError, dotted, remove
from keras_msd.training.callbacks import NotFiniteError
from keras_msd.training.checkpoint import read_checkpoint, write_checkpoint

NAME = "update_"  # begins the name of a checkpoint
KEPT = 2  # the older one is used if the newer one is damaged
STOPS = signal.SIGINT, signal.SIGTERM
Logs = dict[str, Any] | None


class Fitted(NamedTuple):
    """Result of `fit`.

    Attributes:
        history: The `keras.callbacks.History` of the updates since the last stop.
        seconds_before: Seconds of training before the last stop.
        seconds_saving: Seconds spent on checkpoints since then.
    """

    history: keras.callbacks.History
    seconds_before: float
    seconds_saving: float


def fit(
    stage: keras.Model,
    batches: Batches,
    folder: str | Path,
    minutes: float = 5.0,
    updates: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
) -> Fitted:
    """Train a stage, save it every few minutes, and continue where it stopped.

    A checkpoint holds the weights, the optimizer's variables, random states, running
    means, the position in the stream of batches, and the state of the callbacks that
    have `get_state` and `set_state`. If you call `fit` again with the same arguments,
    it resumes from the newest checkpoint. On the same machine, the result has the same
    bytes as that of a training that was never stopped. After Ctrl-C or SIGTERM, `fit`
    finishes the update, saves, and passes the signal on; a second signal is passed on
    at once.

    The last two checkpoints are kept; remove the folder to start again. If there are
    several processes, the first one writes checkpoints and all read them, in a folder
    that all of them can access. Another number of processes and devices can resume. A
    signal to another process than the first ends it after its update without saving.

    Args:
        stage: A compiled stage.
        batches: `PairBatches` with `epochs`, `ScoredBatches` or `InferenceBatches`.
        folder: Folder for the checkpoints of this training only.
        minutes: Time between two checkpoints.
        updates: Total number of updates; None for one pass over the batches.
        callbacks: See `keras.Model.fit`.
        verbose: See `keras.Model.fit`.

    Raises:
        InputError: `minutes` is below 0; the batches are of another type, or endless;
            the folder belongs to a training of another stage, with other settings,
            another backend or other batches; every checkpoint in it is damaged; or a
            weight is not finite when it is saved.

    Example:
        >>> pairs = msd.testing.tiny_pairs()
        >>> encoder = msd.testing.tiny_encoder(num_layers=0)
        >>> guides = {"teacher": (msd.data.GuideStore(encoder, "vectors"), "source")}
        >>> batches = msd.data.PairBatches(pairs, encoder, guides, 4, epochs=1)
        >>> stage = msd.stages.TeachAssistant(encoder)
        >>> stage.compile(msd.training.make_optimizer(1e-3, steps=2))
        >>> fitted = msd.training.fit(stage, batches, "checkpoints", verbose=0)
        >>> sorted(fitted.history.history)
        ['loss', 'source_mse', 'target_mse']
    """
    at_least(0, minutes=minutes)
    if not hasattr(batches, "after"):
        raise InputError(
            "A training that can resume needs one pass over batches of ours. Received: "
            f"{type(batches).__name__}. Make them with `PairBatches(..., epochs=3)`."
        )
    updates = updates or len(batches)
    saver = _Saver(stage, batches, Path(folder), minutes, updates, callbacks)
    saver.restore()
    everything = [*callbacks, saver]
    if saver.done == updates:
        whole = keras.callbacks.CallbackList(everything, True, model=stage)
        whole.on_train_begin()
        whole.on_epoch_begin(0)
        whole.on_epoch_end(0)
        whole.on_train_end()
        history = stage.history
    else:
        with saver.signals():
            history = stage.fit(
                batches.after(saver.done),
                callbacks=everything,
                steps_per_epoch=updates - saver.done,
                shuffle=False,
                verbose=verbose,
            )
    stage.finish()
    return Fitted(history, saver.seconds, saver.saving)


class _Saver(keras.callbacks.Callback):
    """Saves the training, and restores the variables when it resumes."""

    def __init__(
        self,
        stage: keras.Model,
        batches: Batches,
        folder: Path,
        minutes: float,
        updates: int,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> None:
        super().__init__()
        self.stage, self.folder, self.minutes = stage, folder, minutes
        self.updates, self.done, self.seconds, self.saving = updates, 0, 0.0, 0.0
        self.with_state = [it for it in callbacks if hasattr(it, "get_state")]
        self.arrays: dict[str, np.ndarray] = {}
        self.asked: int | None = None
        settings = dict(stage.optimizer.get_config())
        settings.pop("name", None)  # Keras counts names upwards in a process
        self.identity = {
            "backend": keras.backend.backend(),
            "stage": type(stage).__name__,
            "precision": stage.dtype_policy.name,
            "chunk_size": stage.chunk_size,
            "quantize": stage.quantize,
            "updates": updates,
            "batches": batches.identity,
            "callbacks": [type(callback).__name__ for callback in self.with_state],
            **{f"weight of {term}": it for term, it in stage.term_weights.items()},
            **json.loads(json.dumps(dotted(settings, "optimizer."), default=str)),
        }

    def restore(self) -> None:
        """Read the newest undamaged checkpoint, if there is one."""
        found = self._found()
        for path in found:
            try:
                facts, arrays = read_checkpoint(path)
            except DamagedError as error:
                warnings.warn(f"{error}; an older one is tried.", stacklevel=3)
                continue
            self._check(path, facts, arrays)
            self.done, self.seconds = facts["done"], facts["seconds"]
            for callback, state in zip(self.with_state, facts["states"], strict=True):
                callback.set_state(state)
            self.arrays = arrays
            return
        if found:
            raise InputError(
                f"Every checkpoint in `{self.folder}` is damaged. Received: "
                f"{', '.join(path.name for path in found)}. Remove that folder to "
                "train from the start."
            )

    def on_train_begin(self, logs: Logs = None) -> None:
        """Start to measure the time."""
        self.before = self.done
        self.began = self.saved = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Restore the variables, after Keras has set the running means to 0."""
        for name, variable in stage_variables(self.stage) if self.arrays else ():
            variable.assign(self.arrays[name])
        self.arrays = {}

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Save if it is time, or if a signal was received."""
        # With several updates per call, `batch` may be beyond the last one.
        self.done = min(self.before + batch + 1, self.updates)
        if self.asked is not None:
            self._save()
            number, self.asked = self.asked, None
            signal.raise_signal(number)
        elif time.monotonic() - self.saved >= 60 * self.minutes:
            if self.done < self.updates:
                self._save()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Delay signals until the end of an update."""
        before: dict[int, Any] = {}

        def restore() -> None:
            for number in list(before):
                signal.signal(number, before.pop(number) or signal.SIG_DFL)

        def ask(number: int, frame: Any) -> None:
            self.asked = number
            restore()

        if threading.current_thread() is threading.main_thread():
            before.update((number, signal.signal(number, ask)) for number in STOPS)
        try:
            yield
        finally:
            restore()

    def _save(self) -> None:
        stage = self.model  # under JAX, this access updates its variables
        if stage.process[0]:  # the first process writes for all
            return
        now = time.monotonic()
        arrays = {name: stage.to_numpy(it) for name, it in stage_variables(stage)}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise NotFiniteError(
                f"The weights of `{stage.name}` must be finite. Received: NaN or "
                f"infinity after update {self.done}. The checkpoint before it stays. "
                "Lower the learning rate, or lengthen the warm-up."
            )
        facts = self.identity | {
            "done": self.done,
            "seconds": self.seconds + now - self.began,
            "states": [callback.get_state() for callback in self.with_state],
        }
        write_checkpoint(self.folder / f"{NAME}{self.done:010d}", facts, arrays)
        for old in self._found()[KEPT:]:
            remove(old)
        self.saved = time.monotonic()
        self.saving += self.saved - now

    def _found(self) -> list[Path]:
        """Return the checkpoints, newest first."""
        return sorted(self.folder.glob(f"{NAME}*"), reverse=True)

    def _check(self, path: Path, facts: dict[str, Any], arrays: Any) -> None:
        self.stage.build_optimizer()
        shapes = {name: list(v.shape) for name, v in stage_variables(self.stage)}
        now = self.identity | {"variables": shapes}
        then = {name: facts.get(name) for name in self.identity}
        then["variables"] = {name: list(it.shape) for name, it in arrays.items()}
        for name, value in now.items():
            if then[name] != value:
                raise InputError(
                    f"`{path}` is a checkpoint of another training. Received: {name} "
                    f"{value!s:.100}; there: {then[name]!s:.100}. Give each training "
                    "a folder of its own, or go on with what it began with."
                )


def stage_variables(stage: keras.Model) -> Iterator[tuple[str, keras.Variable]]:
    """Yield every variable that an update may change, with its position as a name.

    Keras numbers its own names, so those of the same stage differ between processes.
    """
    own = (*stage.variables, *stage.metrics_variables)
    for place, variable in enumerate((*own, *stage.optimizer.variables)):
        yield str(place), variable
