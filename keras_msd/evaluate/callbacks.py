"""Callbacks that evaluate during `fit`: `msd.callbacks`."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import keras
import numpy as np

from keras_msd import checks

FLOATS = (float, np.floating)
# Attributes that a checkpoint stores.
STATE = "record", "step", "best", "best_step", "_looks_since_best", "_weights"


class ScoreCallback(keras.callbacks.Callback):
    """Score an encoder before training, at the end of each epoch and in between.

    Every score is added to the logs of the epoch as `<name>_<score>`. Put callbacks
    that read it, such as `History`, `CSVLogger` or `EarlyStopping`, after this one in
    the list. The attribute `record` contains all scores, those before training at step
    0: `[{"step": training steps so far, "<name>_<score>": value, ...}]`.

    Args:
        encoder: The encoder that is trained.
        score: Function of the encoder that returns scores by name, as `sts` does.
            Floats are logged. `primary` is the name of the score to maximise.
        name: Prefix of the names in the logs; use a different one for each callback.
        every: Training steps between two evaluations within an epoch; None for no
            evaluation within an epoch.
        best_weights: Whether to restore the weights with the best primary score when
            training ends. The weights before training are included. `best` and
            `best_step` are that score and its step. If scores are equal, the first one
            counts.
        patience: Number of evaluations in a row without a new best primary score after
            which training stops; None for no early stopping.

    Raises:
        InputError: `every` or `patience` is below 1. `fit` raises the errors of
            `score`, for example for vectors with NaN, after the best weights are
            restored.
    """

    def __init__(
        self,
        encoder: Any,
        score: Callable[[Any], dict[str, Any]],
        name: str = "dev",
        every: int | None = None,
        best_weights: bool = False,
        patience: int | None = None,
    ) -> None:
        super().__init__()
        checks.at_least(1, every=every, patience=patience)
        self.encoder, self.score, self.name = encoder, score, name
        self.every, self.best_weights, self.patience = every, best_weights, patience
        self._goes_on = False

    def get_state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: all scores and the best weights so far."""
        return {name: getattr(self, name) for name in STATE}

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state; the next `fit` finishes that training."""
        for name in STATE:
            setattr(self, name, state[name])
        self._goes_on = True

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Score before training, so that unusable data is refused at once."""
        if self._goes_on:
            self._goes_on = False
            return
        self.record: list[dict[str, Any]] = []
        self.step, self.best, self.best_step = 0, float("-inf"), 0
        self._before = self._looks_since_best = 0
        self._weights: list[np.ndarray] = []
        self._look()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remember the number of earlier training steps."""
        self._before = self.step

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Count training steps, and score when it is time."""
        # With `steps_per_execution`, this is called once for several training steps.
        last, self.step = self.step, self._before + batch + 1
        if self.every and self.step // self.every > last // self.every:
            self._look()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Score and add the scores to the logs."""
        if self.record[-1]["step"] != self.step:
            self._look()
        if logs is not None:
            logs |= {k: v for k, v in self.record[-1].items() if k != "step"}

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Restore the best weights if asked to."""
        self._restore()

    def _look(self) -> None:
        # Under JAX, accessing `model` copies the current values into the variables.
        if self.model is None:
            raise checks.InputError("A callback must be given to `fit`.")
        try:
            scores = self.score(self.encoder)
        except Exception:
            self._restore()  # `fit` ends here, for example if training diverged
            raise
        value = _primary(scores)
        numbers = {k: float(v) for k, v in scores.items() if isinstance(v, FLOATS)}
        named = {f"{self.name}_{k}": v for k, v in numbers.items()}
        self.record.append({"step": self.step} | named)
        if value > self.best:
            self.best, self.best_step = value, self.step
            self._looks_since_best = 0
            if self.best_weights:
                self._weights = self.encoder.model.get_weights()
            return
        self._looks_since_best += 1
        if self.patience and self._looks_since_best >= self.patience:
            self.model.stop_training = True

    def _restore(self) -> None:
        if self._weights:
            self.encoder.model.set_weights(self._weights)
            self._weights = []


def _primary(scores: dict[str, Any]) -> float:
    """Return the score to maximise."""
    value = scores.get(scores.get("primary", ""))
    if not isinstance(value, Real):
        raise checks.InputError(
            "`score` must return scores and, under `primary`, the name of one of them. "
            f"Received: {scores!r:.200}."
        )
    return float(value)
