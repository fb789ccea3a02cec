"""What work costs: constants measured on a device, or assumed of a published one."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.files import read_table, write_json
from keras_msd.plan.devices import Device
from keras_msd.recipes.runs.run import default_store_dir

VERSION = 2
NAME, COMMAND = "calibration.json", "keras-msd plan --calibrate"
# Of devices that were not measured.
SHARE, FULL_WIDTH = 0.35, 768  # of the published peak, from that width on
OPTIMIZER_BYTES = 40  # that AdamW moves for a parameter: 7 numbers, and 3 to clip
TABLE_BYTES = 24  # for a number of a token's row: gathered, its gradient scattered
UPDATE_S = 0.005  # to begin the kernels of an update
OVERHEAD_GB = 1.0  # what libraries keep on a device


@dataclass(frozen=True)
class Costs:
    """What computing costs on one device in one precision.

    Attributes:
        peak: Largest rate, operations a second.
        training: Share of it that updates reach, by the width of a body's layers.
        encoding: The same of forward passes.
        optimizer_s: Seconds of an update for each trained parameter.
        table_s: Seconds of an update for each number of a token's row.
        update_s: Seconds of an update beside these.
        activations: Bytes that an update was seen to hold for each layer, in those of
            the formula.
        working: Bytes that it held once, for the layer at work, in the same.
        process_bytes: What is held beside models and batches.
    """

    peak: float
    training: dict[int, float]
    encoding: dict[int, float]
    optimizer_s: float
    table_s: float
    update_s: float
    activations: float
    working: float
    process_bytes: float

    def rate(self, width: int, training: bool = True) -> float:
        """Return operations a second in layers of a width, between those measured."""
        shares = self.training if training else self.encoding
        return self.peak * _between(shares, width)


@dataclass(frozen=True)
class Texts:
    """What texts cost on this machine, in seconds.

    Attributes:
        clean_s: To read, clean and store a pair.
        tokenise_s: To tokenise and store a token.
        store_s: To keep and find a guide's vector.
        read_s: To read a pair of a batch.
    """

    clean_s: float
    tokenise_s: float
    store_s: float
    read_s: float


@dataclass(frozen=True)
class Calibration:
    """What was measured on this machine.

    Attributes:
        texts: What texts cost.
        costs: What computing costs, by "device backend precision".

    Example:
        >>> texts = {"clean_s": 1e-5, "tokenise_s": 1e-6, "store_s": 1e-5, "read_s": 0}
        >>> known = msd.plan.Calibration.from_dict({"texts": texts, "costs": {}})
        >>> known.texts.clean_s
        1e-05
    """

    texts: Texts
    costs: dict[str, Costs]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "it") -> "Calibration":
        """Make it from plain values.

        Raises:
            InputError: A value is missing, or something else is there.
        """
        try:
            costs = {name: _costs(it) for name, it in values["costs"].items()}
            return cls(Texts(**values["texts"]), costs)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"A calibration must be as it was written. Received: {where}, with "
                f"{type(error).__name__}: {error}. Delete it and run: {COMMAND}"
            ) from error


def calibration_file() -> Path:
    """Return where a calibration is kept unless another place is given."""
    return default_store_dir() / NAME


def read_calibration(path: Path) -> Calibration:
    """Return what was measured.

    Raises:
        InputError: Nothing was, or the file is of another version or damaged.
    """
    if not path.is_file():
        raise InputError(
            f"Nothing was measured on this machine yet. Looked for: `{path}`. Run: "
            f"{COMMAND}"
        )
    values = read_table(path, "calibration")
    if values.get("version") != VERSION:
        raise InputError(
            f"`{path}` must be of version {VERSION}. Received: "
            f"{values.get('version')!r}. Run: {COMMAND}"
        )
    return Calibration.from_dict(values, f"`{path}`")


def add_calibration(path: Path, name: str, texts: Texts, costs: Costs) -> None:
    """Write what was measured beside what the file has of other devices."""
    others = read_calibration(path).costs if path.is_file() else {}
    whole = asdict(Calibration(texts, others | {name: costs}))
    write_json(path, whole | {"version": VERSION})


def costs_name(device: str, backend: str, precision: str) -> str:
    """Return what the costs of a device are kept under."""
    return f"{device} {backend} {precision}"


def assumed(device: Device, precision: str) -> Costs:
    """Return what computing may cost on a device of which only figures are known.

    A share of the published peak that falls with the width of the layers, as narrow
    products do not fill a device; what is only moved takes the memory's rate.
    """
    shares = {1: SHARE / FULL_WIDTH, FULL_WIDTH: SHARE}
    each_byte = 1e-9 / device.memory_gb_s
    return Costs(
        peak=device.peak(precision),
        training=shares,
        encoding=shares,
        optimizer_s=OPTIMIZER_BYTES * each_byte,
        table_s=TABLE_BYTES * each_byte,
        update_s=UPDATE_S,
        activations=1.0,
        working=1.0,
        process_bytes=1e9 * OVERHEAD_GB,
    )


def _costs(values: Mapping[str, Any]) -> Costs:
    parts = dict(values)
    for name in ("training", "encoding"):
        parts[name] = {int(width): float(it) for width, it in parts[name].items()}
    return Costs(**parts)


def _between(shares: Mapping[int, float], width: int) -> float:
    """Return the share at a width: on a line between neighbours in a log-log plot."""
    known = sorted(shares)
    if width <= known[0] or len(known) == 1:
        return shares[known[0]]
    if width >= known[-1]:
        return shares[known[-1]]
    place = next(i for i, it in enumerate(known) if it >= width)
    low, high = known[place - 1 : place + 1]
    part = math.log(width / low) / math.log(high / low)
    return shares[low] ** (1 - part) * shares[high] ** part
