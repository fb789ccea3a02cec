"""The training step under TensorFlow."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_msd.checks import InputError
from keras_msd.distribute import _tensorflow as replicas
from keras_msd.training import chunks
from keras_msd.training.chunks import (
    SIDES,
    float32,
    join,
    random_states,
    split,
    split_gradients,
)
from keras_msd.training.precision import all_finite


def make_deterministic() -> None:
    """Use deterministic kernels in the whole process."""
    tf.config.experimental.enable_op_determinism()


class TensorFlowStep:
    """Mix-in with the steps of `fit` and `evaluate` under TensorFlow.

    Under `tf.distribute` every replica embeds its share of the batch and computes the
    loss of the whole batch. A Keras loss divides its mean by the number of replicas, so
    the summed gradients are those of the whole batch; logged values are multiplied
    back.
    """

    @property
    def process(self) -> tuple[int, int]:
        """The number of this process, from 0, and how many train the stage."""
        return replicas.process_of(self)

    def local_batches(self, batches: Any) -> Any:
        """Return a dataset with only the rows of this process."""
        return replicas.local_batches(self, batches)

    def to_numpy(self, variable: Any) -> np.ndarray:
        """Return the value of a variable."""
        return replicas.local_value(self, variable)

    def build_optimizer(self) -> None:
        """Make the optimizer's variables."""
        replicas.build_optimizer(self)

    def gathered(self, parts: Any) -> Any:
        """Return nested rows of this replica as those of the whole batch."""
        return replicas.gathered(parts)

    def scaled(self, loss: Any, value: Any) -> Any:
        """Return this replica's share of a loss of the whole batch."""
        return replicas.scaled(loss, value)

    def make_train_function(self: Any, force: bool = False) -> None:
        """Make the function that `fit` calls, after the optimizer's variables.

        TensorFlow would trace a step that creates variables twice.

        Raises:
            InputError: Bad batches are skipped on several replicas.
        """
        if self.bad_batches is not None and self.distribute_strategy is not None:
            if self.distribute_strategy.num_replicas_in_sync > 1:
                raise InputError(
                    "Bad batches are skipped on one replica. Received: "
                    f"{self.distribute_strategy.num_replicas_in_sync}. Leave "
                    "`skip_bad_batches` out."
                )
        self.build_optimizer()
        if not replicas.several(self):
            super().make_train_function(force)  # type: ignore[misc]
        elif self.train_function is None or force:
            self.train_function = replicas.function_of(self, self.train_step)

    def make_test_function(self: Any, force: bool = False) -> None:
        """Make the function that `evaluate` calls."""
        if not replicas.several(self):
            super().make_test_function(force)  # type: ignore[misc]
        elif self.test_function is None or force:
            self.test_function = replicas.function_of(self, self.test_step)

    def _maybe_symbolic_build(self, *given: Any, **options: Any) -> None:
        if not replicas.several(self):  # a stage is built, and no batch is looked at
            super()._maybe_symbolic_build(*given, **options)  # type: ignore[misc]

    def train_step(self: Any, data: Any) -> dict[str, Any]:
        """Update the encoder on one batch and return the logs."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        skips = self.bad_batches is not None
        means = [tf.identity(it.value) for it in self.metrics_variables if skips]
        embeddings, loss, gradients = self._passes(x, y, sample_weight)
        pairs = list(zip(gradients, self.trainable_variables, strict=True))
        if not skips:
            self._apply(pairs)
            return self._logs(x, y, embeddings, loss)
        self._logs(x, y, embeddings, loss)
        found = [gradient for gradient in gradients if gradient is not None]

        def skip() -> None:
            for variable, value in zip(self.metrics_variables, means, strict=True):
                variable.assign(value)
            self.bad_batches.assign_add(1)

        self._apply(pairs, all_finite([loss, *found]), skip)
        return self.get_metrics_result() | {"bad_batches": self.bad_batches.value}

    def step_in_parts(self: Any) -> tuple[Any, Any]:
        """Return a function from a batch to gradients, and one that applies them."""

        @tf.function(autograph=False, reduce_retracing=True)
        def gradients(x: Any, y: Any) -> Any:
            return self._passes(x, y, None)[2]

        @tf.function(autograph=False, reduce_retracing=True)
        def update(found: Any) -> None:
            self._apply(list(zip(found, self.trainable_variables, strict=True)))

        return gradients, update

    def test_step(self: Any, data: Any) -> dict[str, Any]:
        """Return the logs of one batch."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        embeddings = self(x, training=False)
        loss = self.compute_loss(x, y, embeddings, sample_weight, training=False)
        return self._logs(x, y, embeddings, loss)

    def embed_in_chunks(self: Any, x: Any, training: bool | None) -> dict[str, Any]:
        """Return the embeddings of both sides, float32, computed chunk by chunk."""
        parts, count = split(x, self.chunk_size)
        embedded = tf.map_fn(
            lambda rows: float32(self.both_sides(rows, training)),
            parts,
            fn_output_signature=dict.fromkeys(SIDES, tf.as_dtype(chunks.LOSS_DTYPE)),
            parallel_iterations=1,
        )
        return join(embedded, count)

    def unscaled(self, value: Any) -> Any:
        """Return the loss of the whole batch from this replica's share of it."""
        return replicas.unscaled(value)

    def _passes(self: Any, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Return embeddings, loss and the whole batch's gradient of each variable."""
        passes = self._one_pass if self.chunk_size is None else self._two_passes
        embeddings, loss, gradients = passes(x, y, sample_weight)
        return embeddings, loss, replicas.summed(gradients)

    def _one_pass(self: Any, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        with tf.GradientTape() as tape:
            embeddings = self(x, training=True)
            loss = self.compute_loss(x, y, embeddings, sample_weight, training=True)
            objective = self.optimizer.scale_loss(replicas.objective(loss))
        return embeddings, loss, tape.gradient(objective, self.trainable_variables)

    def _two_passes(self: Any, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Do as `_one_pass` in the memory of one chunk, see `CachedGradients`."""
        states = random_states(self.network)
        before = [tf.identity(state.value) for state in states]
        embeddings = self(x, training=True)
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            loss = self.compute_loss(x, y, embeddings, sample_weight, training=True)
            objective = self.optimizer.scale_loss(replicas.objective(loss))
        variables = self.trainable_variables
        direct, cached = tape.gradient(objective, (variables, embeddings))
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
                embedded = float32(self.both_sides(rows, training=True))
            parts = tape.gradient(embedded, network, goals)
            return [_add(*pair) for pair in zip(totals, parts, strict=True)]

        start = [_add(tf.zeros_like(weight), totals[id(weight)]) for weight in network]
        chunks = split(x, self.chunk_size)[0], split_gradients(goals, self.chunk_size)
        added = tf.foldl(add, chunks, start, parallel_iterations=1)
        totals |= zip(map(id, network), added, strict=True)
        return embeddings, loss, [totals[id(variable)] for variable in variables]

    def _apply(
        self: Any,
        pairs: list[tuple[Any, Any]],
        good: Any = None,
        skip: Callable[[], None] | None = None,
    ) -> None:
        """Update the weights; with `skip` only if `good`, a boolean tensor, is true.

        Even on one replica Keras would sum the gradients of all replicas, with an
        operation whose graph TensorFlow never frees: each `fit` would leave a training
        step in memory. Inside `merge_call` it does not, but a loss-scaling optimizer
        cannot run there. On several replicas `build_optimizer` disables the sum.
        """
        if replicas.several(self):
            self.optimizer.apply_gradients(pairs)
            return

        def apply() -> None:
            self.optimizer.apply_gradients(pairs)

        def update(*_: Any) -> None:
            if skip is None:
                apply()
            else:
                tf.cond(good, apply, skip)

        scaled = isinstance(self.optimizer, keras.mixed_precision.LossScaleOptimizer)
        if scaled or tf.distribute.has_strategy():
            update()
        else:
            tf.distribute.get_replica_context().merge_call(update)

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
