"""The training step under TensorFlow, on one replica or several.

On several replicas it does what Keras does not do by itself under `tf.distribute`.
Keras 3 cannot fit a model on several workers (keras#20585): it reads a first batch to
build the model, and averages scalars as if they had rows. Its losses see the rows of
one replica only, and are divided by the number of replicas in float32. Its optimizers
clip the gradients of each replica before they are summed.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_msd.checks import InputError
from keras_msd.data.batches import Batches
from keras_msd.data.pipeline import tensorflow_dataset
from keras_msd.distribute.strategy import process_of
from keras_msd.training import chunks


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
    def process(self: Any) -> tuple[int, int]:
        """The number of this process, from 0, and how many train the stage."""
        return process_of(self.distribute_strategy)

    @property
    def several(self: Any) -> bool:
        """Whether the stage is trained on several replicas."""
        return self.distribute_strategy.num_replicas_in_sync > 1

    def local_batches(self: Any, batches: Any) -> Any:
        """Return a dataset of the part of batches that this process reads.

        In a single process TensorFlow splits each batch between its replicas.
        """
        if not isinstance(batches, Batches):
            return batches
        process, processes = self.process
        if processes == 1:
            return tensorflow_dataset(batches)
        strategy = self.distribute_strategy
        each = strategy.num_replicas_in_sync // processes
        own = tensorflow_dataset(batches.of_process(process, processes, each), each)
        spread = strategy.distribute_datasets_from_function(lambda context: own)
        spread.own, spread.updates = own, len(batches)  # `own` lives as long
        return spread

    def to_numpy(self: Any, variable: Any) -> np.ndarray:
        """Return the value of a variable, without communication between processes.

        Each replica keeps its share of a running mean; all shares are equal here.
        """
        strategy, value = self.distribute_strategy, variable.value
        first = strategy.experimental_local_results(value)[0].numpy()
        on_read = tf.VariableSynchronization.ON_READ
        if getattr(value, "synchronization", None) == on_read:
            return np.asarray(first * strategy.num_replicas_in_sync, first.dtype)
        return np.asarray(first)

    def build_optimizer(self: Any) -> None:
        """Create the optimizer's variables where those of the stage are.

        On several replicas the optimizer gets summed gradients, so its own sum is
        disabled.
        """
        if not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        if self.several:
            inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
            inner._all_reduce_sum_gradients = list

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
        """
        self.build_optimizer()
        if not self.several:
            super().make_train_function(force)  # type: ignore[misc]
        elif self.train_function is None or force:
            self.train_function = self._on_replicas(self.train_step)

    def make_test_function(self: Any, force: bool = False) -> None:
        """Make the function that `evaluate` calls."""
        if not self.several:
            super().make_test_function(force)  # type: ignore[misc]
        elif self.test_function is None or force:
            self.test_function = self._on_replicas(self.test_step)

    def _maybe_symbolic_build(self, *given: Any, **options: Any) -> None:
        if not self.several:  # a stage is built, and no batch is looked at
            super()._maybe_symbolic_build(*given, **options)  # type: ignore[misc]

    def _on_replicas(self: Any, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return what `fit` or `evaluate` calls with an iterator, on several replicas.

        Args:
            step: From the data of one replica to logs, which are those of the whole
                batch.

        Raises:
            InputError: The stage was compiled with `jit_compile` or
                `steps_per_execution`.
        """
        if self.jit_compile or self.steps_per_execution > 1:
            raise InputError(
                "On several replicas TensorFlow runs one update at a time, and not "
                f"under XLA. Received: jit_compile={self.jit_compile}, "
                f"steps_per_execution={self.steps_per_execution}. Leave both out of "
                "`compile`."
            )
        strategy = self.distribute_strategy

        def on_data(data: Any) -> Any:
            logs = strategy.run(step, args=(data,))
            local = strategy.experimental_local_results
            return {name: local(value)[0] for name, value in logs.items()}

        def on_next(iterator: Any) -> Any:
            return on_data(iterator.get_next())

        # The first is traced for the shapes that any batch may have: a trace for a
        # single shape may round otherwise, and training that goes on would differ in a
        # last bit.
        of_next, of_data = on_next, on_data
        if not self.run_eagerly:
            of_next, of_data = (
                tf.function(it, autograph=False, reduce_retracing=True)
                for it in (on_next, on_data)
            )
        known = tf.data.Iterator, tf.distribute.DistributedIterator
        return lambda it: of_next(it) if isinstance(it, known) else of_data(next(it))

    def train_step(self: Any, data: Any) -> dict[str, Any]:
        """Update the encoder on one batch and return the logs."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        passes = self._one_pass if self.chunk_size is None else self._two_passes
        embeddings, loss, gradients = passes(x, y, sample_weight)
        self._apply(list(zip(summed(gradients), self.trainable_variables, strict=True)))
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

    def _apply(self: Any, pairs: list[tuple[Any, Any]]) -> None:
        """Update the weights.

        Even on one replica Keras would sum the gradients of all replicas, with an
        operation whose graph TensorFlow never frees: each `fit` would leave a training
        step in memory. Inside `merge_call` it does not, but a loss-scaling optimizer
        cannot run there. On several replicas `build_optimizer` disables the sum.
        """
        scaled = isinstance(self.optimizer, keras.mixed_precision.LossScaleOptimizer)
        if scaled or tf.distribute.has_strategy():
            self.optimizer.apply_gradients(pairs)
        else:
            tf.distribute.get_replica_context().merge_call(
                lambda _: self.optimizer.apply_gradients(pairs)
            )

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

    They are summed with zeros: `all_gather` fails on one device of several workers.
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
