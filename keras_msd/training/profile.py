"""Where the time of a stage's updates goes."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_msd.checks import InputError, at_least
from keras_msd.training.resume import stage_variables

UPDATES = 8


def profile_updates(stage: Any, batches: Any, updates: int = UPDATES) -> dict[str, Any]:
    """Measure a few updates of a stage, and leave it as it was.

    Under TensorFlow an update is run in two parts, with `fit`'s mathematics. JAX
    compiles it whole, so that there the optimizer's share is not known. Each batch is
    run twice and the second time counts: TensorFlow traces an update, and JAX compiles
    it for each padded length, in the first.

    Args:
        stage: Compiled with an optimizer.
        batches: What `fit` takes: a dataset of ours, or `PairBatches`.
        updates: How many are measured, those of the first batches.

    Returns:
        `updates`, how many were measured; `compile`, seconds that the first runs took
        beyond the second; and seconds of all those measured: `data_wait`, until a
        batch was there, and `forward_and_backward` and `optimizer`, or `update`. Of
        pairs also `shapes`, how many the batches of the pass have: XLA compiles each.

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
    source = iter(_walk(batches))
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
    shapes = getattr(getattr(batches, "batches", batches), "shapes", None)
    return found | ({"shapes": shapes()} if shapes else {})


def _walk(batches: Any) -> Iterator[Any]:
    if isinstance(batches, keras.utils.PyDataset):
        return (batches[place] for place in range(len(batches)))
    return iter(batches)


def _parts(stage: Any) -> tuple[tuple[str, ...], Callable[..., list[float]]]:
    """Return names of an update's parts, and what runs one and returns their times."""
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
    """Return what `profile_updates` found, in a line.

    Example:
        >>> from keras_msd.training.profile import profile_text
        >>> profile_text({"updates": 2, "compile": 3, "data_wait": 0.1, "update": 0.3})
        'an update takes 200 ms: data wait 25.0 %, update 75.0 %; compile 3.0 s'
    """
    others = ("updates", "compile", "shapes")
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
    return text + (f"; {seconds['shapes']} shapes" if "shapes" in seconds else "")
