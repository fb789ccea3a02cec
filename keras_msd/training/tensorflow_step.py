"""The training step under TensorFlow."""

from typing import Any

import keras
import tensorflow as tf

from keras_msd.checks import InputError
from keras_msd.choices import SIDES
from keras_msd.data.batches import Batches, tensorflow_dataset
from keras_msd.distribute import device_settings
from keras_msd.training import chunks
from keras_msd.training.tensorflow_replicas import Replicas, objective, summed


class TensorFlowStep(Replicas):
    """Mix-in with the steps of `fit` and `evaluate` under TensorFlow."""

    process = 0, 1  # number of this process, and how many train the stage

    @property
    def xla(self) -> bool:
        """Whether XLA compiles the step by default; it cannot on several replicas."""
        return device_settings().xla and not self.several

    def local_batches(self: Any, batches: Any) -> Any:
        """Return batches as a dataset; TensorFlow splits each between the replicas."""
        return tensorflow_dataset(batches) if isinstance(batches, Batches) else batches

    def make_train_function(self: Any, force: bool = False) -> None:
        """Make the function that `fit` calls, after the optimizer's variables.

        TensorFlow would trace a step that creates variables twice.

        Raises:
            InputError: On several replicas, the stage was compiled with `jit_compile`
                or `steps_per_execution`.
        """
        if self.several and (self.jit_compile or self.steps_per_execution > 1):
            raise InputError(
                "On several replicas TensorFlow runs one step at a time, and not under "
                f"XLA. Received: jit_compile={self.jit_compile}, "
                f"steps_per_execution={self.steps_per_execution}. Leave both out of "
                "`compile`."
            )
        self.build_optimizer()
        super().make_train_function(force)  # type: ignore[misc]

    def train_step(self: Any, data: Any) -> dict[str, Any]:
        """Update the encoder on one batch and return the logs."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        passes = self._one_pass if self.chunk_size is None else self._two_passes
        embeddings, loss, gradients = passes(x, y, sample_weight)
        self._apply(summed(gradients))
        return self._logs(x, y, embeddings, loss)

    def test_step(self: Any, data: Any) -> dict[str, Any]:
        """Return the logs of one batch."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        embeddings = self(x, training=False)
        loss = self.compute_loss(x, y, embeddings, sample_weight, training=False)
        return self._logs(x, y, embeddings, loss)

    def embed_in_chunks(self: Any, x: Any, training: bool | None) -> dict[str, Any]:
        """Return the embeddings of both sides, float32, computed chunk by chunk."""
        parts, count = chunks.split(x, self.chunk_size)
        kind = tf.as_dtype(chunks.LOSS_DTYPE)
        embedded = tf.map_fn(
            lambda rows: chunks.float32(self.both_sides(rows, training)),
            parts,
            fn_output_signature=dict.fromkeys(SIDES, kind),
            parallel_iterations=1,
        )
        return chunks.join(embedded, count)

    def _one_pass(self: Any, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Return the embeddings, the loss and this replica's gradients."""
        with tf.GradientTape() as tape:
            embeddings = self(x, training=True)
            loss = self.compute_loss(x, y, embeddings, sample_weight, training=True)
            scaled = self.optimizer.scale_loss(objective(loss))
        return embeddings, loss, tape.gradient(scaled, self.trainable_variables)

    def _two_passes(self: Any, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Do as `_one_pass` in the memory of one chunk, see `training.chunks`."""
        states = chunks.random_states(self.network)
        before = [tf.identity(state.value) for state in states]
        embeddings = self(x, training=True)
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            loss = self.compute_loss(x, y, embeddings, sample_weight, training=True)
            scaled = self.optimizer.scale_loss(objective(loss))
        variables = self.trainable_variables
        direct, cached = tape.gradient(scaled, (variables, embeddings))
        for state, value in zip(states, before, strict=True):
            state.assign(value)
        network = self.network.trainable_variables
        totals = dict(zip(map(id, variables), direct, strict=True))
        goals = {
            side: tf.zeros_like(value) if cached[side] is None else cached[side]
            for side, value in embeddings.items()
        }

        def add(totals: list[Any], chunk: tuple[Any, Any]) -> list[Any]:
            rows, goals = chunk
            with tf.GradientTape() as tape:
                embedded = chunks.float32(self.both_sides(rows, training=True))
            parts = tape.gradient(embedded, network, goals)
            return [_add(*pair) for pair in zip(totals, parts, strict=True)]

        start = [_add(tf.zeros_like(weight), totals[id(weight)]) for weight in network]
        parts, _ = chunks.split(x, self.chunk_size)
        goals = chunks.split_gradients(goals, self.chunk_size)
        added = tf.foldl(add, (parts, goals), start, parallel_iterations=1)
        totals |= zip(map(id, network), added, strict=True)
        return embeddings, loss, [totals[id(variable)] for variable in variables]

    def _apply(self: Any, gradients: list[Any]) -> None:
        """Update the weights from the gradients of the whole batch.

        On several replicas Keras sums what each replica's optimizer has clipped. So the
        first replica passes the gradients, and the others pass zeros: NaN where a
        gradient is not finite, for a loss-scaling optimizer to see it on every replica.

        Even on one replica Keras would sum the gradients of all replicas, with an
        operation whose graph TensorFlow never frees: each `fit` would leave a training
        step in memory. Inside `merge_call` it does not, but a loss-scaling optimizer
        cannot run there.
        """
        context = tf.distribute.get_replica_context()
        if self.several:
            first = tf.equal(context.replica_id_in_sync_group, 0)
            gradients = [
                None if it is None else tf.where(first, it, it - it) for it in gradients
            ]
        pairs = list(zip(gradients, self.trainable_variables, strict=True))
        scaled = isinstance(self.optimizer, keras.mixed_precision.LossScaleOptimizer)
        if self.several or scaled:
            self.optimizer.apply_gradients(pairs)
        else:
            context.merge_call(lambda _: self.optimizer.apply_gradients(pairs))

    def _logs(self: Any, x: Any, y: Any, embeddings: Any, loss: Any) -> dict[str, Any]:
        tracker = next(metric for metric in self.metrics if metric.name == "loss")
        tracker.update_state(self.unscaled(loss), sample_weight=self.rows(x))
        return self.compute_metrics(x, y, embeddings)


def _add(total: Any, part: Any) -> Any:
    if part is None:
        return total
    if isinstance(part, tf.IndexedSlices):
        # A word table is large and a chunk has few words: write only their rows.
        indices = tf.expand_dims(part.indices, 1)
        return tf.tensor_scatter_nd_add(total, indices, part.values)
    return total + part
