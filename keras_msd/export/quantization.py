"""Names of the ways in which an artefact's weights are stored."""

from typing import NamedTuple


class Scheme(NamedTuple):
    """How weights are stored: "float32", "float16", "int8" or "int4".

    Attributes:
        table: The word table, most of a small encoder's bytes.
        blocks: Kernels of matrix products. Biases, norms, positions and scales are
            small and stay floating point (a SavedModel: float16, scales apart).
    """

    table: str
    blocks: str


FULL = Scheme("float32", "float32")
SCHEMES: dict[str | None, Scheme] = {
    None: FULL,
    "fp16": Scheme("float16", "float16"),
    "int8": Scheme("int8", "int8"),
    "int4_table": Scheme("int4", "int8"),
    "int4": Scheme("int4", "int4"),
}
