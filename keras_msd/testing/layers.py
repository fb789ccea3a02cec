"""Checks of layers, losses and stages of this library and of code built on it."""

from typing import Any

import numpy as np


def run_layer_test(layer: Any, *inputs: np.ndarray, weights: int) -> None:
    """Check a layer: config round trip, weight count, shapes, three dtype policies.

    Args:
        layer: A layer that is not built yet.
        *inputs: What its `call` takes.
        weights: How many weights it must have.

    Raises:
        AssertionError: One of the checks fails.
    """
    import keras

    config = layer.get_config()
    twin = type(layer).from_config(config)
    _check(twin.get_config() == config, "get_config does not survive a round trip")
    output = keras.ops.convert_to_numpy(layer(*inputs))
    _check(
        len(layer.weights) == weights, f"{len(layer.weights)} weights, not {weights}"
    )
    _check(bool(np.isfinite(output).all()), "the output is not finite")
    symbolic = layer(*[keras.KerasTensor(x.shape, str(x.dtype)) for x in inputs])
    _check(tuple(symbolic.shape) == output.shape, "symbolic and eager shapes differ")
    for policy in ("mixed_float16", "mixed_bfloat16"):
        other = type(layer).from_config(config | {"dtype": policy})
        result = keras.ops.convert_to_numpy(keras.ops.cast(other(*inputs), "float32"))
        _check(result.shape == output.shape, f"shape changes under {policy}")
        _check(bool(np.isfinite(result).all()), f"not finite under {policy}")


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
