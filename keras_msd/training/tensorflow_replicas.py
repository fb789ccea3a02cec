"""What Keras does not do by itself on several replicas of TensorFlow.

Under `tf.distribute.MirroredStrategy`, Keras' losses see the rows of one replica only,
and are divided by the number of replicas in float32. Its optimizers clip the gradients
of each replica before they are summed. On one replica nothing here changes a value.
"""

from typing import Any

import numpy as np
import tensorflow as tf


class Replicas:
    """Part of `TensorFlowStep`: rows, losses and variables of all replicas.

    Every replica embeds its share of the batch and computes the loss of the whole
    batch. A Keras loss divides its mean by the number of replicas, so the summed
    gradients are those of the whole batch; logged values are multiplied back.
    """

    @property
    def several(self: Any) -> bool:
        """Whether the stage is trained on several replicas."""
        return self.distribute_strategy.num_replicas_in_sync > 1

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


def objective(value: Any) -> Any:
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
