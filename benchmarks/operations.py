"""Operations of a training step, times of calls, and products of matrices."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WARM = 2  # updates that trace the step and fill caches
TRAINING = 3  # a step's operations, in those of its forward pass


def step_operations(config: Any, lengths: np.ndarray, whole: bool = True) -> float:
    """Return the operations of a step: three times those of the forward pass.

    Products of matrices alone are counted, those of padding are not.

    Args:
        config: An `EncoderConfig`.
        lengths: Tokens of each sentence of the batch, `(n,)`.
        whole: Whether the network is run, or its embedding block alone.
    """
    lengths = np.asarray(lengths, float)
    tokens, width, narrow = lengths.sum(), config.hidden_dim, config.bottleneck_dim
    count = 2 * narrow * width * tokens if narrow else 0.0
    if whole:
        layer = 2 * (4 * width**2 + 2 * width * config.intermediate_dim) * tokens
        scores = 4 * width * (lengths**2).sum()  # of a token with all others, and back
        count += config.depth * (layer + scores)
        head = width if config.projection_dim else 0
        count += 2 * head * config.dim * len(lengths)
    return TRAINING * count


def best(product: Callable[[], Any], side: int, rounds: int) -> float:
    """Return the largest GFLOP/s of a product of two matrices of that side."""
    product()
    least = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        product()
        least = min(least, time.perf_counter() - began)
    return 2 * side**3 / least / 1e9


def median_seconds(work: Callable[[], Any], times: int) -> float:
    """Return the median seconds of a call, after some that do not count."""
    spent = []
    for _ in range(times + WARM):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent[WARM:])


def random_batch(
    stage: Any, config: Any, pairs: int, tokens: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a random batch of a stage.

    Args:
        stage: Names its targets.
        config: The encoder's `EncoderConfig`.
        pairs: Number of pairs in the batch.
        tokens: Tokens in each sentence; all have the same, so nothing is padded.
    """
    random = np.random.default_rng(0)
    x: dict[str, np.ndarray] = {"group": np.arange(pairs, dtype=np.int32)}
    for side in ("source", "target"):
        ids = random.integers(1, config.vocabulary_size, (pairs, tokens))
        x[f"{side}_token_ids"] = ids.astype(np.int32)
        x[f"{side}_padding_mask"] = np.ones((pairs, tokens), np.int32)
    y: dict[str, np.ndarray] = {}
    for name in stage.targets:
        dim = config.hidden_dim if name.startswith("embedding") else config.dim
        y[name] = random.normal(size=(pairs, dim)).astype(np.float32)
        if name in ("gold", "label"):
            y[name] = np.arange(pairs).astype("int32" if name == "label" else "float32")
            y[name] %= 2
    return x, y


def update_call(
    config: Any, precision: str, pairs: int, tokens: int
) -> Callable[[], Any]:
    """Return a call that does an update of stage 1 with a batch of `random_batch`.

    Args:
        config: The encoder's `EncoderConfig`.
        precision: The precision of the computation, such as "float32".
        pairs: Number of pairs in the batch.
        tokens: Tokens in each sentence.
    """
    from keras_msd.models.network import build_model
    from keras_msd.stages import TeachAssistant
    from keras_msd.training.optimizer import make_optimizer
    from keras_msd.training.precision import computing_in

    with computing_in(precision):
        stage = TeachAssistant(build_model(config))
    stage.compile(make_optimizer(learning_rate=2e-4, steps=1000))
    x, y = random_batch(stage, config, pairs, tokens)
    return lambda: stage.train_on_batch(x, y)


def jax_product(side: int, precision: str) -> Callable[[], Any]:
    """Return what multiplies two matrices with JAX, and waits for the product."""
    import jax
    import jax.numpy as jnp

    random = np.random.default_rng(0)
    one, other = (
        jnp.asarray(random.random((side, side), np.float32), precision)
        for _ in range(2)
    )
    multiply = jax.jit(jnp.matmul)
    return lambda: multiply(one, other).block_until_ready()
