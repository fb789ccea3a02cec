"""Events of a stage, written by TensorFlow."""

from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework.summary_pb2 import Summary


class EventFile:
    """Numbers of a stage as TensorBoard reads them.

    Written by TensorFlow itself: the package `tensorboard` is only for looking.

    Args:
        folder: The stage's own. A stage that goes on adds a file to it.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = tf.summary.create_file_writer(str(folder))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of an update."""
        numbers = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in values.items()
        ]
        with self._writer.as_default():
            content = Summary(value=numbers).SerializeToString()
            tf.summary.experimental.write_raw_pb(content, step=step)
        self._writer.flush()
