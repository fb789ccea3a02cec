"""Scores of an encoder during a stage."""

from contextlib import nullcontext
from typing import Any

import keras

from keras_msd.evaluate.rows import score_row
from keras_msd.recipes.resources import Run
from keras_msd.stages.settings import LAST_TENTH


class ScoreCurve(keras.callbacks.Callback):
    """Scores an encoder several times during a stage.

    Args:
        run: The run.
        encoder: What is scored.
        scored: The number of scores, the last at the end, or "last_tenth".
        steps: Training steps of the stage.
        history: Gets `scores`: `{"steps": [...], "cross_lingual": [...]}`, and a list
            of the scores of each track across languages, such as `en-de`; for
            "last_tenth" under that name.
    """

    def __init__(
        self, run: Run, encoder: Any, scored: Any, steps: int, history: dict[str, Any]
    ) -> None:
        super().__init__()
        self._run, self._encoder, self._done = run, encoder, 0
        if scored == LAST_TENTH:
            self._places, key = {round(steps * 0.9), steps}, LAST_TENTH
        else:
            count, key = min(scored, steps), "scores"
            self._places = {round(steps * part / count) for part in range(1, count + 1)}
        self._curve: dict[str, list[float]] = {"steps": [], "cross_lingual": []}
        history[key] = self._curve

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"done": self._done, "curve": self._curve}

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state."""
        self._done = state["done"]
        self._curve.update(state["curve"])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Score after the chosen training steps."""
        self._done += 1
        if self._done in self._places:
            recipe, data_dir = self._run.recipe.settings(), self._run.data_dir
            rounding = self.model.rounding
            with rounding.stored_weights() if rounding else nullcontext():
                row = score_row(recipe, data_dir, self._encoder, full=False)
            across = {name: it for name, it in row["tracks"].items() if "-" in name}
            across |= {"steps": self._done, "cross_lingual": row["cross_lingual"]}
            for name, value in across.items():
                self._curve.setdefault(name, []).append(value)

    def last(self) -> dict[str, float]:
        """Return the newest score by its name, if there is one."""
        scores = self._curve["cross_lingual"]
        return {"cross_lingual": scores[-1]} if scores else {}

    def results(self) -> dict[str, Any]:
        """Return nothing: the curve is in the history."""
        return {}
