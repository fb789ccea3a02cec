"""What Keras does not do by itself under `tf.distribute`.

Keras 3 cannot fit a model on several workers (keras#20585): it reads a first batch to
build the model, and averages scalars as if they had rows. Its losses see the rows of
one replica only, and are divided by the number of replicas in float32. Its optimizers
clip the gradients of each replica before they are summed.
"""

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_msd.checks import InputError
from keras_msd.data.batches import Batches
from keras_msd.data.pipeline import tensorflow_dataset

TASKS = ("chief", "worker")
Task = tuple[str, int]


def find_strategy() -> tuple[int, int, Any]:
    """Return the number of this process, how many there are, and TensorFlow's strategy.

    Raises:
        InputError: `TF_CONFIG` has other tasks than a chief and workers.
    """
    own, tasks = _tasks()
    if len(tasks) > 1:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        return tasks.index(own), len(tasks), strategy
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    names = [device.name for device in devices]
    return 0, 1, tf.distribute.MirroredStrategy(names)


def _tasks() -> tuple[Task, list[Task]]:
    """Return the task of this process, and all tasks of the cluster in order."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster = config.get("cluster", {})
    if unknown := sorted(cluster.keys() - {*TASKS}):
        raise InputError(
            "`TF_CONFIG` must have tasks `chief` and `worker` alone. Received: "
            f"{', '.join(unknown)}. Leave them out of its cluster."
        )
    tasks = [(kind, i) for kind in TASKS for i, _ in enumerate(cluster.get(kind, ()))]
    own = config.get("task", {"type": "", "index": 0})
    return (own["type"], int(own["index"])), tasks


def several(model: Any) -> bool:
    """Return whether a model is trained on several replicas."""
    return model.distribute_strategy.num_replicas_in_sync > 1


def process_of(model: Any) -> tuple[int, int]:
    """Return the number of the process that trains a model, and how many there are."""
    workers = tf.distribute.MultiWorkerMirroredStrategy
    if not isinstance(model.distribute_strategy, workers):
        return 0, 1
    own, tasks = _tasks()
    return tasks.index(own), len(tasks)


def local_batches(model: Any, batches: Any) -> Any:
    """Return a dataset of the part of batches that this process reads.

    In a single process TensorFlow splits each batch between its replicas.
    """
    if not isinstance(batches, Batches):
        return batches
    process, processes = process_of(model)
    if processes == 1:
        return tensorflow_dataset(batches)
    strategy = model.distribute_strategy
    each = strategy.num_replicas_in_sync // processes
    own = tensorflow_dataset(batches.of_process(process, processes, each), each)
    spread = strategy.distribute_datasets_from_function(lambda context: own)
    spread.own, spread.updates = own, len(batches)  # `own` lives as long
    return spread


def function_of(model: Any, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what `fit` or `evaluate` calls with an iterator, on several replicas.

    Args:
        model: What is trained.
        step: From the data of one replica to logs, which are those of the whole batch.

    Raises:
        InputError: The model was compiled with `jit_compile` or `steps_per_execution`.
    """
    if model.jit_compile or model.steps_per_execution > 1:
        raise InputError(
            "On several replicas TensorFlow runs one update at a time, and not under "
            f"XLA. Received: jit_compile={model.jit_compile}, steps_per_execution="
            f"{model.steps_per_execution}. Leave both out of `compile`."
        )
    strategy = model.distribute_strategy

    def on_data(data: Any) -> Any:
        logs = strategy.run(step, args=(data,))
        first = {}
        for name, value in logs.items():
            first[name] = strategy.experimental_local_results(value)[0]
        return first

    def on_next(iterator: Any) -> Any:
        return on_data(iterator.get_next())

    # The first is traced for the shapes that any batch may have: a trace for a single
    # shape may round otherwise, and training that goes on would differ in a last bit.
    of_next, of_data = on_next, on_data
    if not model.run_eagerly:
        of_next, of_data = (
            tf.function(it, autograph=False, reduce_retracing=True)
            for it in (on_next, on_data)
        )
    known = tf.data.Iterator, tf.distribute.DistributedIterator
    return lambda it: of_next(it) if isinstance(it, known) else of_data(next(it))


def gathered(parts: Any) -> Any:
    """Return nested tensors with the rows of all replicas, in order.

    Every replica computes the same loss from them, divided by the number of replicas,
    and all gradients are summed. So the replica that owns a row multiplies its gradient
    by that number, and the others contribute none.
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


def scaled(loss: Any, value: Any) -> Any:
    """Return a loss of the whole batch as one replica's share of it.

    Keras divides a mean by the number of replicas, but not a sum.
    """
    return value * _share() if getattr(loss, "reduction", "") == "sum" else value


def unscaled(value: Any) -> Any:
    """Return the loss of the whole batch from one replica's share of it."""
    return value / _share()


def objective(value: Any) -> Any:
    """Return a replica's share of a loss; the shares of all replicas add up to it."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    return value if replicas == 1 else unscaled(value) / replicas


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


def local_value(model: Any, variable: Any) -> np.ndarray:
    """Return the value of a variable, without communication between processes.

    Each replica keeps its share of a running mean; all shares are equal here.
    """
    strategy, value = model.distribute_strategy, variable.value
    first = strategy.experimental_local_results(value)[0].numpy()
    on_read = tf.VariableSynchronization.ON_READ
    if getattr(value, "synchronization", None) == on_read:
        return np.asarray(first * strategy.num_replicas_in_sync, first.dtype)
    return np.asarray(first)


def build_optimizer(model: Any) -> None:
    """Create the variables of a model's optimizer where those of the model are.

    On several replicas the optimizer gets summed gradients, so its own sum is disabled.
    """
    if not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)
    if several(model):
        inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        inner._all_reduce_sum_gradients = list
