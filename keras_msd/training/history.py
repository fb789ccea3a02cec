"""A stage's loss terms over its training steps: on disk as they come, and on stderr."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_msd.devices import device_settings
from keras_msd.files import atomic_path
from keras_msd.progress import Progress

POINTS = 100  # values of each term
KEPT = "steps", "terms"


class History(keras.callbacks.Callback):
    """Mean of each term over every few batches.

    Args:
        steps: Training steps of the stage.
        path: A CSV file with a row for each entry of the record, for people who watch.
        what: What the stage is called on stderr.
        batch_size: Pairs in a batch, for the sentences a second.
        events: An `EventFile` that gets the same entries, and scores on the way.

    Attributes:
        record: `{"steps": [...], "terms": {name: [...]}}`.
        done: Training steps so far.
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
        """Return how many training steps may run before anything looks at them."""
        most = min(self._every, device_settings().updates)
        return next(n for n in range(most, 0, -1) if self._every % n == 0)

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"done": self.done} | {key: self.record[key] for key in KEPT}

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state."""
        self.done = state["done"]
        self.record.update((key, state[key]) for key in KEPT)

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin to count."""
        self._began = self.done
        self._progress = Progress(
            self._what, self._steps, "sentences", self._sentences, self.done
        )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keep the means where it is time."""
        # Several updates at once may name a batch behind the last one.
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


class EventFile:
    """Numbers of a stage as TensorBoard reads them.

    Written by TensorFlow itself: the package `tensorboard` is only for looking.

    Args:
        folder: The stage's own. A stage that goes on adds a file to it.
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
