"""Devices by name: published figures, and this machine as `cpu`."""

import os
from dataclasses import dataclass
from pathlib import Path

from keras_msd.checks import InputError, one_of
from keras_msd.registry import Record, Registry, read_records

CPU = "cpu"
PER_HOST = 8  # accelerators that one machine feeds
NETWORK_GB_S = 1.25  # between machines without a link of their own: 10 Gbit/s


@dataclass(frozen=True, kw_only=True)
class Device(Record):
    """A kind of device.

    Attributes:
        float32_tflops: Largest rate of products of float32 matrices, 10^12 a second.
        bfloat16_tflops: The same of bfloat16.
        memory_gb: Its memory, 10^9 bytes.
        memory_gb_s: Bytes that it reads or writes there, 10^9 a second.
        link_gb_s: Bytes that it exchanges with others, 10^9 a second.
        source: Where these figures are published.

    Example:
        >>> msd.plan.DEVICES["A100"].memory_gb
        80.0
    """

    float32_tflops: float
    bfloat16_tflops: float
    memory_gb: float
    memory_gb_s: float
    link_gb_s: float
    source: str

    def peak(self, precision: str) -> float:
        """Return the largest rate in a precision, operations a second."""
        bfloat16 = precision == "bfloat16"
        return 1e12 * (self.bfloat16_tflops if bfloat16 else self.float32_tflops)


DEVICES: Registry[Device] = Registry(
    "device", *read_records(Device, Path(__file__).with_name("devices.toml"))
)


def parse_devices(text: str) -> tuple[int, str]:
    """Return number and name of devices.

    Args:
        text: Such as "8xA100", "H100" or "cpu".

    Raises:
        InputError: It has another form, or there is no device of that name.
    """
    count, times, name = text.rpartition("x")
    one_of([CPU, *DEVICES], devices=name)
    if times and not (count.isdecimal() and int(count)):
        raise InputError(
            "`devices` must be a name, or a number of 1 or more before it. Received: "
            f"{text!r:.60}. Write for example: 8xA100"
        )
    return int(count or 1), name


def own_memory() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
