"""Scores of an encoder while a stage trains it."""

from typing import Any

from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.schema.training import StageSettings
from keras_msd.recipes.steps.scores import score_row


def score_curve(
    run: Run, encoder: Any, steps: int, settings: StageSettings, record: dict[str, Any]
) -> Any:
    """Return a callback that scores an encoder several times in a stage.

    Args:
        run: Says what is scored, and where it stands.
        encoder: The encoder that the stage trains.
        steps: Updates of the stage.
        settings: The stage's; `scored` is the number of scores, the last at the end.
        record: Gets `scores`: `{"steps": [...], "cross_lingual": [...]}`.
    """
    import keras

    count = min(settings.scored or 1, steps)
    places = {round(steps * part / count) for part in range(1, count + 1)}
    found: dict[str, list[float]] = {"steps": [], "cross_lingual": []}
    record["scores"] = found

    class Curve(keras.callbacks.Callback):
        """Scores the encoder after the updates in `places`."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch + 1 in places:
                row = score_row(run.recipe, run.data_dir, encoder, full=False)
                found["steps"].append(batch + 1)
                found["cross_lingual"].append(row["cross_lingual"])

    return Curve()
