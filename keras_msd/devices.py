"""What a training does by default on the devices that the backend finds."""

from collections.abc import Collection
from typing import NamedTuple

import keras

from keras_msd.checks import InputError


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
        >>> from keras_msd.devices import default_settings
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
