"""The devices and processes of a training, as the backend finds them."""

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import keras

from keras_msd.checks import InputError, one_of
from keras_msd.choices import Strategy

TASKS = ("chief", "worker")  # of TensorFlow
STRATEGIES = get_args(Strategy)
# Environment variables that announce other processes to JAX: those of Keras and JAX
# name them, those of SLURM and Open MPI count them.
NAMED = (
    "KERAS_DISTRIBUTION_JOB_ADDRESSES",
    "KERAS_DISTRIBUTION_NUM_PROCESSES",
    "JAX_COORDINATOR_ADDRESS",
)
COUNTED = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
TPU_HOSTS = "TPU_WORKER_HOSTNAMES"  # with commas; GKE sets it


class Distribution(NamedTuple):
    """Where a training runs.

    Attributes:
        process: Number of this process, from 0; process 0 writes what is kept.
        processes: Number of processes.
        replicas: Number of devices in all processes; each holds the weights and an
            equal share of the rows of a batch.
        scope: Returns the context in which to create the encoder, the stage and its
            optimizer, and to call `fit`.

    Example:
        >>> alone = msd.distribute.Distribution()
        >>> alone.process, alone.processes, alone.replicas
        (0, 1, 1)
    """

    process: int = 0
    processes: int = 1
    replicas: int = 1
    scope: Callable[[], AbstractContextManager[Any]] = nullcontext


def distribution(strategy: str = "data_parallel") -> Distribution:
    """Choose where trainings run from here on.

    "data_parallel" uses every device of every process. Under JAX,
    `keras.distribution.initialize` finds the processes that SLURM, Open MPI, GKE or
    `KERAS_DISTRIBUTION_*` started; a process that has already called
    `jax.distributed.initialize`, as Ray's trainer does, is left as it is. Under
    TensorFlow, they are the devices of this process, or the workers in `TF_CONFIG`.
    Call this in every process before the backend computes anything.

    The batch size is global: losses and gradients do not depend on the number of
    replicas.

    Args:
        strategy: "none" for one device, or "data_parallel".

    Raises:
        InputError: The strategy is unknown, the backend is neither TensorFlow nor JAX,
            or `TF_CONFIG` has other tasks than workers.

    Example:
        >>> msd.distribute.distribution("none").replicas
        1
    """
    one_of(STRATEGIES, strategy=strategy)
    return Distribution() if strategy == "none" else _data_parallel()


@lru_cache
def _data_parallel() -> Distribution:
    backend = keras.backend.backend()
    if backend == "jax":
        return _of_jax()
    if backend != "tensorflow":
        raise InputError(
            'The strategy "data_parallel" needs the backend tensorflow or jax. '
            f"Received: {backend}. Set KERAS_BACKEND, or leave the strategy out."
        )
    strategy = _find_strategy()
    replicas = strategy.num_replicas_in_sync
    scope = strategy.scope if replicas > 1 else nullcontext
    return Distribution(*process_of(strategy), replicas, scope)


def _of_jax() -> Distribution:
    import jax

    if _several_processes() and not jax.distributed.is_initialized():
        keras.distribution.initialize()
    parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
    replicas = len(keras.distribution.list_devices())
    scope = parallel.scope if replicas > 1 else nullcontext
    return Distribution(jax.process_index(), jax.process_count(), replicas, scope)


def _several_processes() -> bool:
    named = any(os.environ.get(name) for name in NAMED)
    counted = any(int(os.environ.get(name) or 1) > 1 for name in COUNTED)
    return named or counted or "," in os.environ.get(TPU_HOSTS, "")


def _find_strategy() -> Any:
    """Return TensorFlow's strategy for the devices of all processes.

    Raises:
        InputError: `TF_CONFIG` has other tasks than a chief and workers.
    """
    import tensorflow as tf

    _, tasks = _tasks()
    if len(tasks) > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def process_of(strategy: Any) -> tuple[int, int]:
    """Return the number of this process, and how many a strategy spreads over."""
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 0, 1
    own, tasks = _tasks()
    return tasks.index(own), len(tasks)


def _tasks() -> tuple[tuple[str, int], list[tuple[str, int]]]:
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
