"""A check that every loss must pass."""

from typing import Any

import numpy as np


def run_loss_test(
    loss: Any, y_true: Any, y_pred: Any, rows: Any, rtol: float = 1e-5
) -> None:
    """Check a loss: values, reduction, config round trip, float32, zero vectors.

    Args:
        loss: A loss with the default reduction.
        y_true: Its goals: NumPy arrays, the first of `(n, d)`.
        y_pred: Its predictions: NumPy arrays.
        rows: What `call` must give, `(n,)`, from an independent computation.
        rtol: Relative tolerance.

    Raises:
        AssertionError: One of the checks fails.
    """
    import keras

    rows = np.asarray(rows, "float32")

    def check(made: Any, wanted: Any, what: str) -> None:
        dtype = keras.backend.standardize_dtype(made.dtype)
        made = keras.ops.convert_to_numpy(made)
        _check(dtype == "float32", f"{what}: {dtype}, not float32")
        _check(made.shape == np.shape(wanted), f"{what}: shape {made.shape}")
        close = np.allclose(made, wanted, rtol=rtol, atol=rtol * 0.1)
        _check(close, f"{what}: {made}, expected {wanted}")

    tensors = _each(
        lambda x: keras.ops.convert_to_tensor(x, "float32"), (y_true, y_pred)
    )
    check(loss.call(*tensors), rows, "call")
    check(loss(y_true, y_pred), rows.mean(), "default reduction")
    config = loss.get_config()
    summed = type(loss).from_config(config | {"reduction": "sum"})
    check(summed(y_true, y_pred), rows.sum(), 'reduction="sum"')
    twin = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    _check(twin.get_config() == config, "the config does not survive a round trip")
    check(twin(y_true, y_pred), rows.mean(), "the loss after a round trip")

    half = _each(lambda x: x.astype("float16"), y_pred)
    rounded = _each(lambda x: x.astype("float32"), half)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        mixed = type(loss).from_config(config)(y_true, half)
        check(mixed, loss(y_true, rounded), "float16 embeddings")
    finally:
        keras.config.set_dtype_policy(policy)
    zero = keras.ops.convert_to_numpy(loss(y_true, _each(np.zeros_like, y_pred)))
    _check(bool(np.isfinite(zero).all()), "zero vectors: the loss is not finite")


def _each(function: Any, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_each(function, one) for one in value)
    return function(value)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
