"""The optimizer of a stage: AdamW with warm-up."""

import math
from typing import Any, get_args

import keras
from keras import ops

from keras_msd import checks
from keras_msd.choices import CLIP_NORM, SCHEDULE, WARMUP, WEIGHT_DECAY, Schedule

# Biases and LayerNorm, by variable name: "bias", under TensorFlow "bias:0".
UNDECAYED = r"(^|/)(bias|gamma|beta)(:\d+)?$"


@keras.saving.register_keras_serializable(package="keras_msd")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to `peak`, then a decay to 0 over the rest of `steps` updates.

    Let t be the number of an update, from 0, and `w = int(warmup * steps)`. While
    `t < w`, the rate is `peak (t + 1) / w`. After that, with `left = (steps - t) /
    (steps - w)`, it is `peak left` for "linear", `peak (1 - cos(pi left)) / 2` for
    "cosine", and `peak` for "constant". So no update has rate 0.

    Args:
        peak: Highest rate.
        steps: Total number of updates.
        warmup: Share of the updates in the warm-up, in [0, 1).
        schedule: "linear", "cosine" or "constant".

    Source: Devlin et al. 2019, appendix A.2, which starts at rate 0.

    Example:
        >>> rate = msd.training.WarmUp(peak=1.0, steps=8, warmup=0.5)
        >>> [float(rate(step)) for step in range(8)]
        [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25]
    """

    def __init__(
        self, peak: float, steps: int, warmup: float = WARMUP, schedule: str = SCHEDULE
    ) -> None:
        checks.at_least(1, steps=steps)
        checks.one_of(get_args(Schedule), schedule=schedule)
        if not 0 <= warmup < 1:
            raise checks.InputError(
                f"`warmup` is a share of the updates, in [0, 1). Received: {warmup}."
            )
        self.peak, self.steps = peak, steps
        self.warmup, self.schedule = warmup, schedule

    def __call__(self, step: Any) -> Any:
        """Return the rate of update `step`, float32."""
        step = ops.cast(step, "float32")
        rising = int(self.warmup * self.steps)
        left = ops.maximum((self.steps - step) / (self.steps - rising), 0.0)
        if self.schedule == "cosine":
            share = 0.5 * (1.0 - ops.cos(math.pi * left))
        else:
            share = left if self.schedule == "linear" else ops.ones_like(left)
        share = ops.where(step < rising, (step + 1.0) / max(rising, 1), share)
        return self.peak * share

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of this schedule."""
        arguments = ("peak", "steps", "warmup", "schedule")
        return {name: getattr(self, name) for name in arguments}


def make_optimizer(
    learning_rate: float,
    steps: int,
    warmup: float = WARMUP,
    weight_decay: float = WEIGHT_DECAY,
    clip_norm: float | None = CLIP_NORM,
    schedule: str = SCHEDULE,
) -> keras.optimizers.Optimizer:
    """Create AdamW with the settings of the paper's code.

    Betas 0.9 and 0.999, epsilon 1e-6; biases and LayerNorm weights are not decayed.
    Keras corrects the bias of the moments, the authors' code does not. So at the same
    rate, the first updates are smaller than theirs.

    Args:
        learning_rate: Rate at the end of the warm-up.
        steps: Total number of updates.
        warmup: Share of the updates in the warm-up, in [0, 1).
        weight_decay: Decoupled decay; 0 for none.
        clip_norm: Maximum norm of all gradients together, or None.
        schedule: Rates after the warm-up: "linear" to 0, "cosine" to 0, or "constant".

    Raises:
        InputError: A value is out of its range.

    Source: Ding et al. 2022, section 4, and the authors' code.

    Example:
        >>> optimizer = msd.training.make_optimizer(2e-4, steps=1000)
        >>> type(optimizer).__name__, optimizer.epsilon, optimizer.global_clipnorm
        ('AdamW', 1e-06, 1.0)
    """
    checks.at_least(0, learning_rate=learning_rate, weight_decay=weight_decay)
    if clip_norm is not None and not clip_norm > 0:
        raise checks.InputError(
            f"`clip_norm` must be above 0, or None. Received: clip_norm={clip_norm}."
        )
    optimizer = keras.optimizers.AdamW(
        learning_rate=WarmUp(learning_rate, steps, warmup, schedule),
        weight_decay=weight_decay,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        global_clipnorm=clip_norm,
    )
    optimizer.exclude_from_weight_decay(var_names=[UNDECAYED])
    return optimizer
