"""Checkpoints within a stage: training goes on at the very update where it stopped."""

import json
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_msd.checks import InputError, at_least
from keras_msd.files import atomic_path, file_digest, remove
from keras_msd.training.precision import NotFiniteError

NAME, STATE, CHECKSUM = "update_", "state.safetensors", "checksum.txt"
KEPT = 2  # the older one is for the case that the newer is damaged
STOPS = signal.SIGINT, signal.SIGTERM
Logs = dict[str, Any] | None


class Checkpoint(keras.callbacks.Callback):
    """Saves a stage's training every few minutes, and goes on from there.

    A checkpoint holds the weights, the optimizer's variables, random states, running
    means, the position in the stream of batches, and the state of the other callbacks
    that have `get_state` and `set_state`. Given the same arguments again, `fit` goes on
    behind the newest checkpoint and ends with the bytes of a training that was never
    stopped, on the same machine. At Ctrl-C and SIGTERM it finishes the update, saves,
    and lets the signal take its course; a second one does so at once.

    `fit` must train in one pass, and on batches of ours: `pair_dataset` or
    `PairBatches` with `epochs`, `scored_dataset`, `inference_dataset` or their like.
    The last two checkpoints are kept; remove the folder to begin anew.

    Of several processes the first writes checkpoints and all read them, in a folder
    that all of them see; any number of processes and devices goes on from there. A
    signal to another process than the first ends it behind its update, unsaved.

    Args:
        folder: Where checkpoints are kept, those of this training alone.
        minutes: Time between two of them.

    Attributes:
        done: Updates so far, those before a stop included.
        seconds: Time that was spent on the updates before the last stop.
        saving: Seconds spent on checkpoints since then.

    Raises:
        InputError: `minutes` is below 0. Within `fit`, the batches or the epochs are
            not as above; the folder holds the training of another stage, with other
            settings, on another backend or other batches, or every checkpoint in it is
            damaged; a weight is no longer finite when it is to be saved.

    Example:
        >>> checkpoint = msd.stages.Checkpoint("checkpoints", minutes=5)
        >>> checkpoint.folder.name, checkpoint.done
        ('checkpoints', 0)
    """

    def __init__(self, folder: str | Path, minutes: float = 5.0) -> None:
        super().__init__()
        at_least(0, minutes=minutes)
        self.folder, self.minutes = Path(folder), minutes
        self.done, self.seconds, self.saving = 0, 0.0, 0.0
        self._kept: list[Any] = []
        self._total = 0
        self._arrays: dict[str, np.ndarray] = {}
        self._asked: int | None = None

    def train(
        self, stage: Any, fit: Callable[..., Any], batches: Any, **options: Any
    ) -> Any:
        """Call `fit` on the batches that are left.

        Args:
            stage: What is trained.
            fit: The `fit` of Keras.
            batches: The first argument for it.
            **options: The others.
        """
        if options.get("epochs", 1) != 1 or not hasattr(batches, "after"):
            raise InputError(
                "`Checkpoint` needs the whole training in one pass over batches of "
                f"ours. Received: {type(batches).__name__}, epochs="
                f"{options.get('epochs', 1)}. Give the epochs to `pair_dataset(..., "
                "epochs=3)` and not to `fit`."
            )
        others = [it for it in options.pop("callbacks") if it is not self]
        self._kept = [it for it in others if hasattr(it, "get_state")]
        self._total = options.pop("steps_per_epoch", None) or len(batches)
        settings = dict(stage.optimizer.get_config())
        settings.pop("name", None)  # Keras counts names upwards in a process
        self._identity = {
            "backend": keras.backend.backend(),
            "stage": type(stage).__name__,
            "precision": stage.dtype_policy.name,
            "chunk_size": stage.chunk_size,
            "updates": self._total,
            "batches": batches.identity,
            "callbacks": [type(callback).__name__ for callback in self._kept],
            **{f"weight of {term}": it for term, it in stage.term_weights.items()},
            **_leaves("optimizer", settings),
        }
        self._restore(stage)
        callbacks = [*others, self]
        if self.done == self._total:
            whole = keras.callbacks.CallbackList(callbacks, True, model=stage)
            whole.on_train_begin()
            whole.on_epoch_begin(0)
            whole.on_epoch_end(0)
            whole.on_train_end()
            return stage.history
        with self._signals():
            return fit(
                batches.after(self.done),
                callbacks=callbacks,
                steps_per_epoch=self._total - self.done,
                **options | {"shuffle": False},
            )

    def on_train_begin(self, logs: Logs = None) -> None:
        """Start the clock."""
        self._before = self.done
        self._began = self._saved = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Put the variables back: Keras has just set the running means to nought."""
        for name, variable in stage_variables(self.model) if self._arrays else ():
            variable.assign(self._arrays[name])
        self._arrays = {}

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Save where it is time, or where a signal has come."""
        self.done = self._before + batch + 1
        if self._asked is not None:
            self._save()
            number, self._asked = self._asked, None
            signal.raise_signal(number)
        elif time.monotonic() - self._saved >= 60 * self.minutes:
            if self.done < self._total:
                self._save()

    def _save(self) -> None:
        if self.model.process[0]:  # all have the same; one writes it
            return
        now = time.monotonic()
        arrays = {
            name: self.model.numbers(variable)
            for name, variable in stage_variables(self.model)
        }
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise NotFiniteError(
                f"The weights of `{self.model.name}` must be finite. Received: NaN or "
                f"infinity after update {self.done}. The checkpoint before it stays. "
                "Lower the learning rate, or lengthen the warm-up."
            )
        states = [
            _without_arrays(callback.get_state(), arrays, f"callback/{place}")
            for place, callback in enumerate(self._kept)
        ]
        facts = self._identity | {
            "done": self.done,
            "seconds": self.seconds + now - self._began,
            "states": states,
        }
        with atomic_path(self.folder / f"{NAME}{self.done:010d}") as temporary:
            temporary.mkdir()
            save_file(arrays, temporary / STATE, {"facts": json.dumps(facts)})
            checksum = file_digest(temporary / STATE)
            (temporary / CHECKSUM).write_text(checksum, encoding="ascii")
        for old in self._found()[KEPT:]:
            remove(old)
        self._saved = time.monotonic()
        self.saving += self._saved - now

    def _found(self) -> list[Path]:
        """Return the checkpoints, the newest first."""
        return sorted(self.folder.glob(f"{NAME}*"), reverse=True)

    def _restore(self, stage: Any) -> None:
        """Take what the newest whole checkpoint holds, if there is one."""
        found = self._found()
        for place, path in enumerate(found):
            try:
                facts, arrays = _read(path)
            except (OSError, ValueError, SafetensorError) as error:
                older = len(found) - place - 1
                warnings.warn(
                    f"The checkpoint `{path}` is damaged ({error}). "
                    + ("The one before it is taken." if older else ""),
                    stacklevel=4,
                )
                continue
            break
        else:
            if found:
                raise InputError(
                    f"Every checkpoint in `{self.folder}` is damaged. Received: "
                    f"{', '.join(path.name for path in found)}. Remove that folder to "
                    "train from the start."
                )
            return
        self._check(path, facts, arrays, stage)
        self.done, self.seconds = facts["done"], facts["seconds"]
        for place, callback in enumerate(self._kept):
            state = facts["states"][place]
            callback.set_state(_with_arrays(state, arrays, f"callback/{place}"))
        self._arrays = arrays

    def _check(
        self, path: Path, facts: dict[str, Any], arrays: Any, stage: Any
    ) -> None:
        stage.build_optimizer()
        shapes = {name: list(v.shape) for name, v in stage_variables(stage)}
        now = self._identity | {"variables": shapes}
        then = {name: facts.get(name) for name in self._identity}
        then["variables"] = {
            name: list(array.shape)
            for name, array in arrays.items()
            if not name.startswith("callback/")
        }
        for name, value in now.items():
            if then[name] != value:
                raise InputError(
                    f"`{path}` is a checkpoint of another training. Received: {name} "
                    f"{value!s:.100}; there: {then[name]!s:.100}. Give each training "
                    "a folder of its own, or go on with what it began with."
                )

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Have signals wait for the end of an update."""
        before: dict[int, Any] = {}

        def restore() -> None:
            for number in list(before):
                signal.signal(number, before.pop(number) or signal.SIG_DFL)

        def ask(number: int, frame: Any) -> None:
            self._asked = number
            restore()

        if threading.current_thread() is threading.main_thread():
            before.update((number, signal.signal(number, ask)) for number in STOPS)
        try:
            yield
        finally:
            restore()


def stage_variables(stage: Any) -> Iterator[tuple[str, Any]]:
    """Yield every variable that an update may change, by its place.

    Keras counts names upwards in a process, so that the same stage has others later.
    """
    own = (*stage.variables, *stage.metrics_variables)
    for place, variable in enumerate((*own, *stage.optimizer.variables)):
        yield str(place), variable


def _leaves(name: str, value: Any) -> dict[str, Any]:
    """Return the values of nested settings by dotted name, as JSON has them."""
    if isinstance(value, dict):
        inner = (_leaves(f"{name}.{key}", it) for key, it in value.items())
        return {key: leaf for leaves in inner for key, leaf in leaves.items()}
    return {name: json.loads(json.dumps(value, default=str))}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    checksum = (path / CHECKSUM).read_text(encoding="ascii")
    if (received := file_digest(path / STATE)) != checksum:
        raise ValueError(f"checksum {received}, written was {checksum:.40}")
    with safe_open(path / STATE, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        return json.loads(file.metadata()["facts"]), arrays


def _without_arrays(
    state: dict[str, Any], arrays: dict[str, np.ndarray], name: str
) -> dict[str, Any]:
    """Move the lists of arrays of a callback's state to `arrays`."""
    plain: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            for place, array in enumerate(value):
                arrays[f"{name}/{key}/{place}"] = array
            plain[key] = {"arrays": len(value)}
        else:
            plain[key] = value
    return plain


def _with_arrays(
    state: dict[str, Any], arrays: dict[str, np.ndarray], name: str
) -> dict[str, Any]:
    """Undo `_without_arrays`, and take the arrays out."""
    whole = dict(state)
    for key, value in state.items():
        if isinstance(value, dict) and value.keys() == {"arrays"}:
            count = value["arrays"]
            whole[key] = [arrays.pop(f"{name}/{key}/{i}") for i in range(count)]
    return whole
