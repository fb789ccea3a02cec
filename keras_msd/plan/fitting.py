"""What to change in a stage that does not fit into a device's memory."""

from collections.abc import Callable, Iterator
from typing import Any

ROOM = 0.9  # share of a device's memory that a plan fills
MOST_DEVICES = 4096

Held = Callable[[float, float, int], float]


def changes(
    name: str, settings: Any, held: Held, room: float, rows: float, devices: int
) -> Iterator[str]:
    """Yield what would make a stage fit, each change by itself.

    Args:
        name: The stage.
        settings: The stage's.
        held: Gives the bytes on a device from the pairs that pass through its network
            at a time, those of the whole batch, and the number of devices.
        room: Bytes that a device has for it.
        rows: Pairs of the whole batch.
        devices: How many share it.
    """
    each = int(rows / devices)
    if hasattr(settings, "chunk_size"):
        if chunk := largest(lambda n: held(n, rows, devices) <= room, each):
            yield f"stages.{name}.chunk_size = {chunk}, with the same gradients"
    several = (devices * 2**power for power in range(1, MOST_DEVICES.bit_length()))
    for count in (it for it in several if it <= min(rows, MOST_DEVICES)):
        if held(rows / count, rows, count) <= room:
            yield f"{count} devices"
            break
    if fewer := largest(lambda n: held(n, n * devices, devices) <= room, each):
        if settings.token_budget:
            budget = int(settings.token_budget * fewer * devices / rows)
            yield f"stages.{name}.token_budget = {budget}"
        else:
            yield f"stages.{name}.batch_size = {fewer * devices}"
    else:
        least = held(1, devices, devices) / 1e9
        yield (
            f"a smaller vocabulary, or a student with a `bottleneck_dim`: one pair a "
            f"device needs {least:.1f} GB"
        )


def largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number up to `most` that fits, 0 where none does.

    Args:
        fits: True up to some number and false beyond it.
        most: Where to end.
    """
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
