"""Record the loss terms of a stage: on disk, on stderr and for TensorBoard."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_msd.distribute.devices import device_settings
from keras_msd.io.files import atomic_path
from keras_msd.progress import Progress

POINTS = 100  # maximum number of values of each term
KEPT = "steps", "terms"


class History(keras.callbacks.Callback):
    """Record the mean of each loss term over every few batches.

    Args:
        steps: Number of training steps of the stage.
        path: A CSV file that gets a row for each entry, to be watched during training.
        what: Name of the stage on stderr.
        batch_size: Pairs in a batch, to compute sentences per second.
        events: An `EventFile` that gets the same entries and intermediate scores.

    Attributes:
        record: `{"steps": [...], "terms": {name: [...]}}`.
        done: Number of finished training steps.
        watch: The callback that scores the encoder during the stage, or None.
    """

    def __init__(
        self, steps: int, path: Path, what: str, batch_size: int, events: Any = None
    ) -> None:
        super().__init__()
        self.watch: Any = None
        self._path, self._what, self._sentences = path, what, 2 * batch_size
        self._events = events
        self.record: dict[str, Any] = {"steps": [], "terms": {}}
        self.done = 0
        self._steps, self._every = steps, math.ceil(steps / POINTS)

    def updates_at_once(self) -> int:
        """Return the number of training steps to run in one call of the backend."""
        most = min(self._every, device_settings().updates)
        return next(n for n in range(most, 0, -1) if self._every % n == 0)

    def get_state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"done": self.done} | {key: self.record[key] for key in KEPT}

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state."""
        self.done = state["done"]
        self.record.update((key, state[key]) for key in KEPT)

    def on_train_begin(self, logs: Any = None) -> None:
        """Start the progress bar."""
        self._began = self.done
        self._progress = Progress(
            self._what, self._steps, "sentences", self._sentences, self.done
        )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Record the means if it is time."""
        # With several updates per call, `batch` may be beyond the last one.
        last, self.done = self.done, min(self._began + batch + 1, self._steps)
        due = self.done // self._every > last // self._every
        if due or self.done == self._steps:
            self.record["steps"].append(self.done)
            for name, value in (logs or {}).items():
                self.record["terms"].setdefault(name, []).append(float(value))
            self.model.reset_metrics()
            self._write()
            if self._events:
                self._events.add(self.done, self._last())
        self._progress.advance(self.done - last, self._last())

    def on_train_end(self, logs: Any = None) -> None:
        """Close the progress bar."""
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


class EventFile:
    """Writes numbers of a stage for TensorBoard.

    TensorFlow writes them; the package `tensorboard` is only needed to view them.

    Args:
        folder: Folder of the stage. A resumed stage adds another file.
    """

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        self._writer = tf.summary.create_file_writer(str(folder))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of an update."""
        import tensorflow as tf
        from tensorflow.core.framework.summary_pb2 import Summary

        numbers = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in values.items()
        ]
        with self._writer.as_default():
            content = Summary(value=numbers).SerializeToString()
            tf.summary.experimental.write_raw_pb(content, step=step)
        self._writer.flush()
