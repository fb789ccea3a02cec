"""Where the time of an update goes."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_msd.checks import InputError, at_least
from keras_msd.training.resume import stage_variables

UPDATES = 8


def profile_updates(stage: Any, batches: Any, updates: int = UPDATES) -> dict[str, Any]:
    """Measure a few updates of a stage, then restore the stage.

    Under TensorFlow an update runs in two parts, with the mathematics of `fit`. JAX
    compiles it whole, so the optimizer's share is unknown there. Each batch runs twice
    and the second run counts: in the first, TensorFlow traces the update, and JAX
    compiles it for each padded length.

    Args:
        stage: Compiled with an optimizer.
        batches: What `fit` takes, such as `PairBatches`.
        updates: How many of the first batches are measured.

    Returns:
        `updates`, the number measured; `compile`, the seconds by which the first runs
        were slower; and the seconds of all measured updates: `data_wait` for the next
        batch, then `forward_and_backward` and `optimizer`, or `update`. For batches of
        ours also `shapes`, the number of shapes of all of them, and `compilations`, how
        many of these XLA compiles.

    Raises:
        InputError: `updates` is below 1, or there are fewer batches.

    Example:
        >>> pairs, encoder = msd.testing.tiny_pairs(), msd.testing.tiny_encoder()
        >>> guides = {"teacher": (msd.data.GuideStore(encoder, "vectors"), "source")}
        >>> batches = msd.data.PairBatches(pairs, encoder, guides, batch_size=2)
        >>> stage = msd.stages.TeachAssistant(encoder)
        >>> stage.compile(msd.stages.make_optimizer(learning_rate=1e-3, steps=9))
        >>> seconds = msd.stages.profile_updates(stage, batches, updates=2)
        >>> seconds["updates"], seconds["forward_and_backward"] > 0
        (2, True)
    """
    at_least(1, updates=updates)
    if not stage.optimizer.built:
        stage.optimizer.build(stage.trainable_variables)
    variables = [variable for _, variable in stage_variables(stage)]
    before = [keras.ops.convert_to_numpy(variable.value) for variable in variables]
    try:
        return _measured(stage, batches, updates)
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def _measured(stage: Any, batches: Any, updates: int) -> dict[str, Any]:
    names, parts = _parts(stage)
    seconds = dict.fromkeys(("data_wait", *names), 0.0)
    beyond = 0.0
    source = iter(_walk(stage.local_batches(batches)))
    for number in range(updates):
        began = time.perf_counter()
        batch = next(source, None)
        if batch is None:
            raise InputError(
                f"There must be at least {updates} batches to measure. Received: "
                f"{number}. Give more, or measure fewer updates."
            )
        waited = time.perf_counter() - began
        first, times = sum(parts(*batch)), parts(*batch)
        beyond += first - sum(times)
        for name, spent in zip(seconds, [waited, *times], strict=True):
            seconds[name] += spent
    found = {"updates": updates, "compile": max(beyond, 0.0), **seconds}
    shapes = getattr(batches, "shapes", None)
    if shapes is None:
        return found
    count = shapes()
    return {**found, "shapes": count, "compilations": count * bool(stage.jit_compile)}


def _walk(batches: Any) -> Iterator[Any]:
    if isinstance(batches, keras.utils.PyDataset):
        return (batches[place] for place in range(len(batches)))
    return iter(batches)


def _parts(stage: Any) -> tuple[tuple[str, ...], Callable[..., list[float]]]:
    """Return the parts of an update, and a function that runs and times them."""
    if keras.backend.backend() != "tensorflow":

        def whole(x: Any, y: Any) -> list[float]:
            began = time.perf_counter()
            stage.train_on_batch(x, y)
            return [time.perf_counter() - began]

        return ("update",), whole
    gradients, update = stage.step_in_parts()

    def both(x: Any, y: Any) -> list[float]:
        marks = [time.perf_counter()]
        found = gradients(x, y)
        marks.append(time.perf_counter())
        update(found)
        marks.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(marks)]

    return ("forward_and_backward", "optimizer"), both


def profile_text(seconds: dict[str, Any]) -> str:
    """Return the result of `profile_updates` as one line of text.

    Example:
        >>> from keras_msd.training.profile import profile_text
        >>> profile_text({"updates": 2, "compile": 3, "data_wait": 0.1, "update": 0.3})
        'an update takes 200 ms: data wait 25.0 %, update 75.0 %; compile 3.0 s'
    """
    others = ("updates", "compile", "shapes", "compilations")
    parts = {name: spent for name, spent in seconds.items() if name not in others}
    total = sum(parts.values())
    shares = ", ".join(
        f"{name.replace('_', ' ')} {100 * spent / total:.1f} %"
        for name, spent in parts.items()
    )
    each = 1000 * total / seconds["updates"]
    text = (
        f"an update takes {each:.0f} ms: {shares}; compile {seconds['compile']:.1f} s"
    )
    if "shapes" not in seconds:
        return text
    return f"{text}; {seconds['shapes']} shapes, {seconds['compilations']} compilations"
