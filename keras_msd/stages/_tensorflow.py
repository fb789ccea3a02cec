"""The training step under TensorFlow, for every stage."""

from typing import Any

import keras
import tensorflow as tf


def make_deterministic() -> None:
    """Choose kernels whose results do not depend on timing, for the whole process."""
    tf.config.experimental.enable_op_determinism()


class TensorFlowStep:
    """Mix-in with the steps that `fit` and `evaluate` run under TensorFlow.

    Under `tf.distribute` every replica sees its own share of the batch. A Keras loss
    divides its mean by the number of replicas, so that the summed gradients are those
    of the whole batch; what is logged is multiplied back.
    """

    def train_step(self: Any, data: Any) -> dict[str, Any]:
        """Update the encoder on one batch and return the logs."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            embeddings = self(x, training=True)
            loss = self.compute_loss(x, y, embeddings, sample_weight, training=True)
            objective = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        gradients = tape.gradient(objective, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return self._logs(x, y, embeddings, loss)

    def test_step(self: Any, data: Any) -> dict[str, Any]:
        """Return the logs of one batch."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        embeddings = self(x, training=False)
        loss = self.compute_loss(x, y, embeddings, sample_weight, training=False)
        return self._logs(x, y, embeddings, loss)

    def undivided(self, value: Any) -> Any:
        """Return a loss as one replica alone would have it."""
        return value * tf.distribute.get_strategy().num_replicas_in_sync

    def _logs(self: Any, x: Any, y: Any, embeddings: Any, loss: Any) -> dict[str, Any]:
        tracker = next(metric for metric in self.metrics if metric.name == "loss")
        tracker.update_state(self.undivided(loss), sample_weight=self.rows(x))
        return self.compute_metrics(x, y, embeddings)
