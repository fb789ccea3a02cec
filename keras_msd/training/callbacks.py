"""Callbacks that record losses, and detect that they are not finite, or collapse."""

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_msd import checks
from keras_msd.arrays import unit_rows
from keras_msd.distribute import device_settings
from keras_msd.io.files import atomic_path
from keras_msd.progress import Progress

Logs = dict[str, Any] | None

logger = logging.getLogger(__name__)
POINTS = 100  # maximum number of values of each term
KEPT = "steps", "terms"


class NotFiniteError(checks.InputError):
    """A loss, a weight or a vector is NaN or infinite."""


class FiniteLoss(keras.callbacks.Callback):
    """End a training whose loss is NaN or infinite.

    Every stage adds this callback to `fit`. It checks the loss after every
    `steps_per_execution` updates.

    Args:
        batches: The batches of the training.

    Raises:
        NotFiniteError: Within `fit`.
    """

    def __init__(self, batches: Any) -> None:
        super().__init__()
        self._batches = batches

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Begin to count batches: Keras numbers them from 0 in each epoch."""
        self._first = 0

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Check the running means, which are finite if every loss was."""
        first, self._first = self._first, batch + 1
        bad = [it for it in (logs or {}).items() if not math.isfinite(it[1])]
        if bad:
            found = ", ".join(f"{name}={value}" for name, value in bad)
            raise NotFiniteError(
                f"The loss of `{self.model.name}` must be finite. Received: {found} at "
                f"{self._where(first, batch)}. Lower the learning rate, lengthen the "
                "warm-up or repair the data."
            )

    def _where(self, first: int, last: int) -> str:
        """Name the first bad batch since the last check: its update and its target."""
        words = f"update {last + 1} of this `fit`"
        if not hasattr(self._batches, "batch"):
            return words
        begin = self._batches.position
        for position in range(begin + first, begin + last + 1):
            _, goals = self._batches.batch(position)
            bad = [name for name, it in goals.items() if not np.isfinite(it).all()]
            if bad:
                break
        goal = f"its target `{bad[0]}` is not" if bad else "its targets are"
        return f"{words}, batch {position} of its stream, from 0 ({goal} finite)"


class CollapseMonitor(keras.callbacks.Callback):
    """Warn, once, if the embeddings of different sentences become similar.

    Every `every` updates the stage embeds the source side of `x`, each distinct line
    once, and computes the mean cosine over all pairs of lines.

    Args:
        x: Inputs of one batch of the stage, with two or more distinct lines. Without
            `group`, every row is a line of its own.
        threshold: Mean cosine above which a warning is logged.
        every: Number of updates between two checks.

    Attributes:
        collapsed: After the warning: `mean_cosine`, and the number of `updates` before.

    Raises:
        InputError: `x` has fewer than two lines, or `every` is below 1. `fit` raises it
            if the stage does not compute sentence vectors.

    Example:
        >>> batch = {"source_token_ids": np.ones((3, 8), "int32")}
        >>> batch["group"] = np.array([0, 0, 2])  # two rows of one source line
        >>> msd.training.CollapseMonitor(batch, every=10).rows
        array([0, 2])
    """

    def __init__(
        self, x: dict[str, Any], threshold: float = 0.95, every: int = 50
    ) -> None:
        super().__init__()
        checks.at_least(1, every=every)
        group = x.get("group", np.arange(len(x["source_token_ids"])))
        self.rows = np.unique(np.asarray(group), return_index=True)[1]
        if len(self.rows) < 2:
            raise checks.InputError(
                "`x` must hold two different source lines or more. Received: "
                f"{len(self.rows)}. Take a larger batch."
            )
        self.x, self.threshold, self.every = x, threshold, every
        self.updates = 0
        self.collapsed: dict[str, float] | None = None

    def get_state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"updates": self.updates, "collapsed": self.collapsed}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state; the next `fit` continues that training."""
        self.updates, self.collapsed = state["updates"], state["collapsed"]

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Remember the number of earlier updates."""
        self._before = self.updates

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Check the embeddings when it is time."""
        # With `steps_per_execution`, this is called once for several updates.
        last, self.updates = self.updates, self._before + batch + 1
        if self.collapsed:
            return
        if self.updates // self.every == last // self.every:
            return
        cosine = self.mean_cosine()
        if cosine > self.threshold:
            self.collapsed = {"mean_cosine": cosine, "updates": self.updates}
            logger.warning(
                "Embeddings collapse: the mean cosine between different sentences is "
                "%.3f after %d updates (limit %.3f). Check that the guide's vectors "
                "differ, lower the learning rate or lengthen the warm-up.",
                cosine,
                self.updates,
                self.threshold,
            )

    def mean_cosine(self) -> float:
        """Return the mean cosine over pairs of distinct source lines."""
        vectors = self.model(self.x, training=False)["source"]
        if len(vectors.shape) != 2:
            raise checks.InputError(
                "`CollapseMonitor` needs a stage that makes sentence vectors, (n, dim)."
                f" Received: {tuple(vectors.shape)}. Leave it out of stages that work "
                "per token."
            )
        vectors = unit_rows(keras.ops.convert_to_numpy(vectors)[self.rows])
        count = len(vectors)
        total = np.square(vectors.sum(axis=0)).sum() - np.square(vectors).sum()
        return float(total / (count * (count - 1)))


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
