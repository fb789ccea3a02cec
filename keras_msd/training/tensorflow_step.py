"""The training step under TensorFlow, on one replica or several.

On several replicas (`tf.distribute.MirroredStrategy`) it does what Keras does not do by
itself. Keras' losses see the rows of one replica only, and are divided by the number of
replicas in float32. Its optimizers clip the gradients of each replica before they are
summed.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_msd.checks import InputError
from keras_msd.data.batches import Batches, tensorflow_dataset
from keras_msd.distribute import device_settings
from keras_msd.training import chunks


class TensorFlowStep:
    """Mix-in with the steps of `fit` and `evaluate` under TensorFlow.

    Under `tf.distribute` every replica embeds its share of the batch and computes the
    loss of the whole batch. A Keras loss divides its mean by the number of replicas, so
    the summed gradients are those of the whole batch; logged values are multiplied
    back.
    """

    process = 0, 1  # number of this process, and how many train the stage

    @property
    def several(self: Any) -> bool:
        """Whether the stage is trained on several replicas."""
        return self.distribute_strategy.num_replicas_in_sync > 1

    @property
    def xla(self) -> bool:
        """Whether XLA compiles the step by default; it cannot on several replicas."""
        return device_settings().xla and not self.several

    def local_batches(self: Any, batches: Any) -> Any:
        """Return batches as a dataset; TensorFlow splits each between the replicas."""
        return tensorflow_dataset(batches) if isinstance(batches, Batches) else batches

    def to_numpy(self: Any, variable: Any) -> np.ndarray:
        """Return the value of a variable.

        Each replica keeps its share of a running mean; all shares are equal here.
        """
        strategy, value = self.distribute_strategy, variable.value
        first = strategy.experimental_local_results(value)[0].numpy()
        on_read = tf.VariableSynchronization.ON_READ
        if getattr(value, "synchronization", None) == on_read:
            return np.asarray(first * strategy.num_replicas_in_sync, first.dtype)
        return np.asarray(first)

    def build_optimizer(self: Any) -> None:
        """Create the optimizer's variables where those of the stage are."""
        if not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)

    def gathered(self, parts: Any) -> Any:
        """Return nested tensors with the rows of all replicas, in order.

        Every replica computes the same loss from them, divided by the number of
        replicas, and all gradients are summed. So the replica that owns a row
        multiplies its gradient by that number, and the others contribute none.
        """
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync
        if replicas == 1:
            return parts
        count = tf.shape(tf.nest.flatten(parts)[0])[0]
        place = _place(context, count)

        @tf.custom_gradient
        def whole(own: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                share = upstream[place[0] : place[0] + count]
                return tf.cast(replicas, share.dtype) * share

            return _in_order(context, own, place), gradient

        return tf.nest.map_structure(whole, parts)

    def scaled(self, loss: Any, value: Any) -> Any:
        """Return a loss of the whole batch as one replica's share of it.

        Keras divides a mean by the number of replicas, but not a sum.
        """
        return value * _share() if getattr(loss, "reduction", "") == "sum" else value

    def unscaled(self, value: Any) -> Any:
        """Return the loss of the whole batch from one replica's share of it."""
        return value / _share()

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
            fn_output_signature=dict.fromkeys(chunks.SIDES, kind),
            parallel_iterations=1,
        )
        return chunks.join(embedded, count)

    def _one_pass(self: Any, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Return the embeddings, the loss and this replica's gradients."""
        with tf.GradientTape() as tape:
            embeddings = self(x, training=True)
            loss = self.compute_loss(x, y, embeddings, sample_weight, training=True)
            objective = self.optimizer.scale_loss(_objective(loss))
        return embeddings, loss, tape.gradient(objective, self.trainable_variables)

    def _two_passes(self: Any, x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Do as `_one_pass` in the memory of one chunk, see `training.chunks`."""
        states = chunks.random_states(self.network)
        before = [tf.identity(state.value) for state in states]
        embeddings = self(x, training=True)
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            loss = self.compute_loss(x, y, embeddings, sample_weight, training=True)
            objective = self.optimizer.scale_loss(_objective(loss))
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


def _place(context: Any, count: Any) -> Any:
    """Return how many rows other replicas have before and after those of this one."""
    own = tf.one_hot(context.replica_id_in_sync_group, context.num_replicas_in_sync)
    counts = _added(context, tf.cast(own, count.dtype) * count)
    before = tf.reduce_sum(counts[: context.replica_id_in_sync_group])
    return before, tf.reduce_sum(counts) - before - count


def _in_order(context: Any, own: Any, place: Any) -> Any:
    """Return the rows of all replicas, in order.

    They are summed with zeros, because on several GPUs `all_gather` sends all rows
    through one of them.
    """
    rest = [[0, 0]] * (len(own.shape) - 1)
    return _added(context, tf.pad(own, [place, *rest]))


def _added(context: Any, value: Any) -> Any:
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def _objective(value: Any) -> Any:
    """Return a replica's share of a loss; the shares of all replicas add up to it."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    return value if replicas == 1 else value / _share() / replicas


def _share() -> float:
    """Return what Keras multiplies means by: 1 / replicas, rounded to float32.

    In float64, too, where three such thirds miss 1 by 3e-8.
    """
    return float(np.float32(1 / tf.distribute.get_strategy().num_replicas_in_sync))


def summed(gradients: list[Any]) -> list[Any]:
    """Return the gradients of the whole batch, dense, from those of this replica.

    The gradient of a word table comes as one row for each token. Keras clips and
    squares these rows one by one, so that the norm, and Adam's second moment, of a word
    that occurs twice would be wrong. They are added up here, before any optimizer sees
    them, and only the rows travel between replicas.

    Args:
        gradients: Those of a replica: tensors, `IndexedSlices` or None.
    """
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync > 1:
        gradients = [_rows_of_all(context, gradient) for gradient in gradients]
        tensors = [it for it in gradients if isinstance(it, tf.Tensor)]
        sums = dict(zip(map(id, tensors), _added(context, tensors), strict=True))
        gradients = [sums.get(id(gradient), gradient) for gradient in gradients]
    return [_dense(gradient) for gradient in gradients]


def _rows_of_all(context: Any, gradient: Any) -> Any:
    """Return a table's gradient with the rows of all replicas, others as they are."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    place = _place(context, tf.shape(gradient.indices)[0])
    values = _in_order(context, gradient.values, place)
    indices = _in_order(context, gradient.indices, place)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _dense(gradient: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows = gradient.dense_shape[0]
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, rows)


def _add(total: Any, part: Any) -> Any:
    if part is None:
        return total
    if isinstance(part, tf.IndexedSlices):
        # A word table is large and a chunk has few words: write only their rows.
        indices = tf.expand_dims(part.indices, 1)
        return tf.tensor_scatter_nd_add(total, indices, part.values)
    return total + part
