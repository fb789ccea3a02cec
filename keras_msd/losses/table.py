"""Losses by the names that recipes use."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_msd.registry import Record, Registry, loaded, read_records


@dataclass(frozen=True, kw_only=True)
class LossRecord(Record):
    """A loss that is known by name.

    Attributes:
        name: What recipes call it.
        make: A subclass of `keras.losses.Loss`, or its dotted path.
        by_row: Whether what it says of a row depends on that row alone.

    Example:
        >>> msd.losses.LOSSES["embedding_mse"].make
        'keras_msd.losses.distances.EmbeddingMSE'
    """

    make: str | type
    by_row: bool = False


LOSSES = Registry(
    "loss", *read_records(LossRecord, Path(__file__).with_name("table.toml"))
)


def loss_class(name: str) -> Any:
    """Return the class of the loss that `LOSSES` knows under `name`.

    Raises:
        InputError: No loss has that name.

    Example:
        >>> msd.losses.loss_class("embedding_mse")(dims="sum").dims
        'sum'
    """
    return loaded(LOSSES[name].make)
