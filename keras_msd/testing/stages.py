"""A check that every stage must pass, on any Keras backend."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_msd.checks import InputError


def run_stage_test(
    make: Callable[[], Any],
    x: dict[str, np.ndarray],
    y: dict[str, np.ndarray],
    heads: int = 0,
) -> None:
    """Check a stage under XLA: logs, loss, update, errors; it must hold no guide.

    Args:
        make: Makes the stage anew, not compiled, with an encoder of its own and the
            same weights each time and dropout 0.
        x: Inputs of one batch, NumPy arrays.
        y: Targets of that batch.
        heads: Weights that the stage has beside the encoder's, for training only.

    Raises:
        AssertionError: One of the checks fails.
    """
    import keras

    count = len(x["group"])
    stage = make()
    _check(len(stage.terms) > 0 and len(stage.targets) > 0, "no terms or no targets")
    terms = stage.loss_terms(x, y, stage(x, training=False))
    terms = {name: float(value) for name, value in terms.items()}
    _check(set(terms) == set(stage.terms), "`loss_terms` and `terms` differ")
    stage.compile(keras.optimizers.SGD(1e-4), jit_compile=True)
    logs = stage.evaluate(x, y, batch_size=count, verbose=0, return_dict=True)
    _check(set(logs) == {"loss", *stage.terms}, f"the logs hold {sorted(logs)}")
    total = sum(stage.term_weights[name] * terms[name] for name in terms)
    for name, wanted in {"loss": total, **terms}.items():
        close = np.isclose(logs[name], wanted, rtol=1e-5)
        _check(close, f"`{name}` is logged as {logs[name]}, it is {wanted}")
    owned = {id(weight) for weight in stage.network.weights}
    foreign = [weight.path for weight in stage.weights if id(weight) not in owned]
    what = f"the stage holds weights that are no encoder's: {foreign}"
    _check(len(foreign) == heads, what)

    before = [keras.ops.convert_to_numpy(weight) for weight in stage.weights]
    history = stage.fit(x, y, batch_size=count, shuffle=False, verbose=0).history
    for name, wanted in logs.items():
        close = np.isclose(history[name][0], wanted, rtol=1e-4)
        _check(close, f"`{name}` is {history[name][0]} in training, not {wanted}")
    after = [keras.ops.convert_to_numpy(weight) for weight in stage.weights]
    pairs = list(zip(before, after, strict=True))
    _check(any((a != b).any() for a, b in pairs), "a step changes nothing")
    _check(all(np.isfinite(b).all() for _, b in pairs), "a step is not finite")
    later = stage.evaluate(x, y, batch_size=count, verbose=0, return_dict=True)
    _check(later["loss"] < logs["loss"], "a small step does not lower the loss")

    for name in stage.targets:
        rest = {key: value for key, value in y.items() if key != name}
        _refused(make(), x, rest, name)
        _refused(make(), x, y | {name: y[name][..., :-1]}, name)


def _refused(stage: Any, x: Any, y: Any, name: str) -> None:
    try:
        stage.compute_loss(x, y, stage(x, training=False))
    except InputError as error:
        _check(f"`{name}`" in str(error), f"the error does not name `{name}`: {error}")
    else:
        raise AssertionError(f"a missing or narrow `{name}` is no error")


def _check(holds: Any, message: str) -> None:
    if not holds:
        raise AssertionError(message)
