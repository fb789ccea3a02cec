"""Products of matrices, to measure the most that a device makes."""

from collections.abc import Callable
from typing import Any

import numpy as np


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
