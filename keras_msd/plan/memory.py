"""Bytes that a stage holds on one device, part by part."""

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from keras_msd.models.config import EncoderConfig
from keras_msd.models.network import weight_shapes

FLOAT = 4
SLOTS = 2  # moments of AdamW
MATRICES = 4  # `(rows, rows)` that a loss and its gradient hold: cosines, their goals


class Batch(NamedTuple):
    """Shape of a batch.

    Attributes:
        rows: Pairs in it.
        source: Padded tokens of a source line.
        target: Padded tokens of a translation.
    """

    rows: float
    source: float
    target: float

    @property
    def tokens(self) -> float:
        """Padded tokens in it."""
        return self.rows * (self.source + self.target)


def parameters(config: EncoderConfig, frozen: Collection[str] = ()) -> int:
    """Return how many parameters an encoder has outside some layers.

    Args:
        config: The encoder's.
        frozen: Names of layers, such as "embedding", that do not count.
    """
    return sum(
        math.prod(shape)
        for path, shape in weight_shapes(config).items()
        if path.partition("/")[0] not in frozen
    )


def trained_parameters(
    config: EncoderConfig, frozen: Collection[str], whole: bool = True
) -> int:
    """Return how many parameters a stage trains.

    Args:
        config: The encoder's.
        frozen: Layers that keep their weights.
        whole: Whether the network is run, or its embedding block alone.
    """
    if not whole:
        outside = parameters(config, {"embedding"})
        return parameters(config) - outside if "embedding" not in frozen else 0
    count = parameters(config, frozen)
    if not config.num_layers and "embedding" not in frozen:
        shapes = weight_shapes(config)  # without a body these two are not trained
        fixed = ("embedding/position", "embedding/type")
        count -= sum(math.prod(shapes[path]) for path in fixed)
    return count


def activation_numbers(
    config: EncoderConfig, batch: Batch, whole: bool = True
) -> float:
    """Return how many numbers the forward pass keeps for the backward one.

    The embedding block keeps a row and what becomes of it, each layer `layer_numbers`.

    Args:
        config: The encoder's.
        batch: What passes through it at a time.
        whole: Whether the network is run, or its embedding block alone.
    """
    block = batch.tokens * (2 * config.hidden_dim + (config.bottleneck_dim or 0))
    if not whole:
        return block
    body = config.depth * layer_numbers(config, batch)
    return block + body + 2 * batch.rows * config.dim


def layer_numbers(config: EncoderConfig, batch: Batch) -> float:
    """Return how many numbers the forward pass of one layer keeps.

    A layer of width h with a feed-forward layer of width f and a heads keeps for each
    token of a sentence of L tokens: its input, queries, keys, values, what attention
    gives before and after its dense layer, both sums, both normalised, 10 h; the
    feed-forward layer before and after its activation, 2 f; and scores before and after
    the softmax, 2 a L.

    Args:
        config: The encoder's.
        batch: What passes through it at a time.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198), section 4.1, whose count is the
        same but for masks of dropout.
    """
    each = 10 * config.hidden_dim + 2 * config.intermediate_dim
    lengths = batch.source**2 + batch.target**2
    return batch.tokens * each + batch.rows * 2 * config.num_heads * lengths


def stage_memory(
    config: EncoderConfig,
    part: Batch,
    whole_rows: float,
    goals: Mapping[str, int],
    comparisons: int,
    *,
    trained: int,
    guides: int,
    devices: int,
    precision: str,
    factor: float,
    working: float,
    whole: bool = True,
) -> dict[str, float]:
    """Return the bytes of each part of what one device holds in a stage.

    Args:
        config: The encoder's.
        part: What passes through the network of one device at a time.
        whole_rows: Pairs of the whole batch.
        goals: Width of each target.
        comparisons: Terms that compare all pairs of a batch.
        trained: Parameters that are trained.
        guides: Parameters of guides that stay loaded.
        devices: How many share a batch.
        precision: What the network computes in.
        factor: Of the activations, as measured.
        working: What the layer at work holds besides, in numbers that a layer keeps.
        whole: Whether the network is run, or its embedding block alone.

    Returns:
        `weights`, `gradients`, `optimizer`, `activations`, `guides` (weights, and the
        goals of the rows), `gathered`: rows of all devices, and what compares them.
    """
    kept = 2 if precision == "bfloat16" else FLOAT
    numbers = factor * activation_numbers(config, part, whole)
    if whole and config.depth:
        numbers += working * layer_numbers(config, part)
    rows = whole_rows * (2 * config.dim + sum(goals.values()))
    compared = MATRICES * comparisons * whole_rows**2
    own = whole_rows / devices * sum(goals.values())
    return {
        "weights": FLOAT * parameters(config),
        "gradients": FLOAT * trained,
        "optimizer": FLOAT * SLOTS * trained,
        "activations": kept * numbers,
        "guides": FLOAT * (guides + own),
        "gathered": FLOAT * (compared + (rows if devices > 1 else 0)),
    }
