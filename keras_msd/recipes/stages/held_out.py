"""What chooses the weights of `learn_translations`: finding held-out translations."""

import time
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.evaluate.halves import CHOOSE
from keras_msd.evaluate.held_out import held_out_files, read_held_out
from keras_msd.evaluate.translations import retrieval_languages
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.stages.kinds import Fit, TranslationSettings
from keras_msd.recipes.stages.pair_data import check_corpora_of
from keras_msd.recipes.stages.regression import DevelopmentScores


def translation_files(run: Run, settings: TranslationSettings) -> list[Path]:
    """Return the files of held-out pairs."""
    return held_out_files(_folder(run), list(run.recipe.data.languages))


def check_translations(run: Run, name: str, settings: TranslationSettings) -> None:
    """Raise `InputError` unless corpora and held-out pairs of each half are there."""
    check_corpora_of(run, name, settings)
    translation_files(run, settings)


def _folder(run: Run) -> Path:
    return run.data_dir / "parallel" / "dev"


class TranslationScores(DevelopmentScores):
    """Chooses among the weights of a stage by precision at 1, and ends it in time.

    Args:
        fit: The stage.
        history: Gets `dev`: `{"steps": [...], "precision": [...]}`.
    """

    def __init__(self, fit: Fit, history: dict[str, Any]) -> None:
        if fit.settings.minutes and fit.run.distribution.processes > 1:
            raise InputError(
                "Clocks of several processes would end a stage at different updates. "
                f"Received: `stages.{fit.name}.minutes` = {fit.settings.minutes}. "
                "Give it `steps` or `patience` instead."
            )
        pairs = read_held_out(_folder(fit.run), list(fit.run.recipe.data.languages))

        def score(encoder: Any) -> dict[str, Any]:
            return retrieval_languages(encoder, pairs, CHOOSE)

        super().__init__(fit, fit.settings.evaluate_every, history, score, "precision")
        self._minutes = fit.settings.minutes
        self._began, self._seconds = time.monotonic(), 0.0

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"scores": super().get_state(), "seconds": self._spent()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        super().set_state(state["scores"])
        self._began, self._seconds = time.monotonic(), state["seconds"]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Score where it is time; end the stage when its time is over."""
        super().on_train_batch_end(batch, logs)
        if self._minutes and self._spent() > 60 * self._minutes:
            self.model.stop_training = True

    def _spent(self) -> float:
        return self._seconds + time.monotonic() - self._began


def translation_scores(fit: Fit, steps: int, history: dict[str, Any]) -> Any:
    """Return the callback that chooses the stage's weights."""
    return TranslationScores(fit, history)
