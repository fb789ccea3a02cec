"""The devices and processes of a training, and what it does on them by default."""

import os
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import keras
import numpy as np

from keras_msd.checks import InputError, one_of
from keras_msd.choices import Strategy
from keras_msd.io.files import parse_json

__all__ = ["Distribution", "distribution"]

STRATEGIES = get_args(Strategy)
# Environment variables that announce other processes to JAX: those of Keras and JAX
# name them, those of SLURM and Open MPI count them.
NAMED = (
    "KERAS_DISTRIBUTION_JOB_ADDRESSES",
    "KERAS_DISTRIBUTION_NUM_PROCESSES",
    "JAX_COORDINATOR_ADDRESS",
)
COUNTED = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
XLA_FLAG = "--xla_gpu_deterministic_ops"
TPU_HOSTS = "TPU_WORKER_HOSTNAMES"  # with commas; GKE sets it


class Distribution(NamedTuple):
    """Where a training runs.

    Attributes:
        process: Number of this process, from 0; process 0 writes what is kept.
        processes: Number of processes; 1 under TensorFlow.
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

    "data_parallel" uses every device of this process: under TensorFlow by
    `tf.distribute.MirroredStrategy`, under JAX by `keras.distribution.DataParallel`.

    JAX also uses those of other processes, perhaps on other machines.
    `keras.distribution.initialize` finds the processes that SLURM, Open MPI, GKE or
    `KERAS_DISTRIBUTION_*` started; a process that has already called
    `jax.distributed.initialize`, as Ray's trainer does, is left as it is. Call this in
    every process before JAX computes anything.

    The batch size is global: losses and gradients do not depend on the number of
    replicas.

    Args:
        strategy: "none" for one device, or "data_parallel".

    Raises:
        InputError: The strategy is unknown, the backend is neither TensorFlow nor JAX,
            or `TF_CONFIG` names several processes of TensorFlow.

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
    return _of_tensorflow()


def _of_tensorflow() -> Distribution:
    import tensorflow as tf

    config = (os.environ.get("TF_CONFIG") or "{}").encode()
    cluster = parse_json(config, "`TF_CONFIG`", "Unset it.").get("cluster", {})
    tasks = sum(map(len, cluster.values()))
    if tasks > 1:
        raise InputError(
            "Under TensorFlow a training has one process, with all its devices. "
            f"Received: {tasks} tasks in `TF_CONFIG`. Set KERAS_BACKEND=jax for "
            "several processes, or unset `TF_CONFIG`."
        )
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        return Distribution()
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    return Distribution(replicas=len(devices), scope=strategy.scope)


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


def message_of_first(text: str = "") -> str:
    """Return, in every process, the text of the first process; wait for all of them.

    Args:
        text: What the first process tells; that of the others is not read.
    """
    from jax.experimental.multihost_utils import broadcast_one_to_all

    content = np.frombuffer(text.encode(), np.uint8)
    size = int(broadcast_one_to_all(np.int32(len(content))))
    content = np.resize(content, size)  # all must have one shape
    return bytes(np.asarray(broadcast_one_to_all(content), np.uint8)).decode()


class DeviceSettings(NamedTuple):
    """Defaults of a training.

    Attributes:
        xla: Whether XLA compiles the training step, once for each shape of a batch.
        buckets: Most shapes of batches; None for any number.
        deterministic: Whether TensorFlow uses kernels that always add in one order.
        updates: Most updates between two looks at losses.
        precision: Of recipes that set none; "auto" measures whether bfloat16 is faster.
    """

    xla: bool
    buckets: int | None
    deterministic: bool
    updates: int
    precision: str


def default_settings(backend: str, devices: Collection[str]) -> DeviceSettings:
    """Return the defaults of a training.

    Args:
        backend: As `keras.backend.backend()` names it.
        devices: Kinds of the devices: "cpu", "gpu", "tpu".

    Raises:
        InputError: TensorFlow would train on a TPU.

    Example:
        >>> from keras_msd.distribute import default_settings
        >>> default_settings("tensorflow", ["cpu"]).buckets
        >>> default_settings("jax", ["tpu"])[:4]
        (True, 6, False, 32)
    """
    if backend == "tensorflow" and "tpu" in devices:
        raise InputError(
            "A TPU needs the backend jax. Received: tensorflow. Set KERAS_BACKEND=jax."
        )
    accelerated = not {"gpu", "tpu"}.isdisjoint(devices)
    xla = backend == "jax" or accelerated
    updates, precision = (32, "auto") if accelerated else (1, "float32")
    return DeviceSettings(xla, 6 if xla else None, not accelerated, updates, precision)


def device_settings() -> DeviceSettings:
    """Return the defaults on the devices of this process."""
    backend = keras.backend.backend()
    known = backend in ("tensorflow", "jax")
    names = keras.distribution.list_devices() if known else []
    return default_settings(backend, {name.partition(":")[0] for name in names})


def make_deterministic(wanted: bool | None = None) -> None:
    """Have the backend choose kernels whose sums do not depend on timing.

    Args:
        wanted: None for where it is the default, see `default_settings`.

    Raises:
        InputError: JAX is asked for it on a GPU, where an environment variable must say
            so before JAX starts.
    """
    usual = device_settings().deterministic
    if not (usual if wanted is None else wanted):
        return
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if not usual and f"{XLA_FLAG}=true" not in flags.split():
        raise InputError(
            f"`deterministic` needs XLA_FLAGS={XLA_FLAG}=true in the environment. "
            f"Received: XLA_FLAGS={flags!r}. Set it, or leave `deterministic` out."
        )
