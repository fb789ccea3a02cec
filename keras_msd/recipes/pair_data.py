"""What most stages train on: parallel text with the vectors of guides."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras

from keras_msd.checks import at_least
from keras_msd.data.order import BatchStream, least_budget
from keras_msd.evaluate.rows import score_row
from keras_msd.recipes.parallel_files import check_corpora, corpus_of
from keras_msd.recipes.resources import Run
from keras_msd.recipes.settings import PairStageSettings
from keras_msd.recipes.stages import StageKind
from keras_msd.recipes.updates import FullBatches, full_batches, updates

LAST_TENTH = "last_tenth"


class Data(NamedTuple):
    """What a stage trains on.

    Attributes:
        unit: What a row is called in results.
        cut: How rows become batches: `steps(epochs)` and `drawn(batches)` count both.
        batches: Gives the batches of so many epochs, at most so many.
        facts: What results say of them, too.
    """

    unit: str
    cut: BatchStream | FullBatches
    batches: Callable[[int, int], Any]
    facts: Mapping[str, Any] = {}


def pair_data(fit: StageKind) -> Data:
    """Return the pairs of a stage, with its guides' vectors."""
    run, table = fit.run, fit.run.table(fit.settings)
    guides = fit.guides().items()
    stores = {name: (run.store(guide), side) for name, (guide, side) in guides}
    size, budget = fit.settings.batch_size, fit.settings.token_budget
    factors = run.recipe.data.weights or {}
    names = [file.name for file in table.files if corpus_of(file.name) in factors]
    weights = {name: factors[corpus_of(name)] for name in names}
    order = {
        "temperature": run.recipe.data.temperature,
        "token_budget": budget,
        "weights": weights or None,
    }
    batches = batches_of("pairs", fit, table, guides=stores, **order)
    if budget is None:
        return Data("pairs", full_batches(fit.name, size, len(table)), batches)
    stream = BatchStream(table, size, seed=run.seed(fit.name), **order)
    return Data("pairs", stream, batches)


def batches_of(
    what: str, fit: StageKind, rows: Any, **options: Any
) -> Callable[[int, int], Any]:
    """Return what gives the batches of a stage for so many epochs and updates.

    Args:
        what: "pairs", "scored" or "inference".
        fit: The stage.
        rows: What they are made of.
        **options: As for the maker, besides those that all stages have.
    """
    if keras.backend.backend() == "tensorflow":
        from keras_msd.data import pipeline

        makers: dict[str, Any] = {
            "pairs": pipeline.pair_dataset,
            "scored": pipeline.scored_dataset,
            "inference": pipeline.inference_dataset,
        }
    else:
        from keras_msd.data.batches import PairBatches
        from keras_msd.data.scored import InferenceBatches, ScoredBatches

        makers = {
            "pairs": PairBatches,
            "scored": ScoredBatches,
            "inference": InferenceBatches,
        }
    return lambda epochs, steps: makers[what](
        rows,
        fit.encoder,
        batch_size=fit.settings.batch_size,
        max_length=fit.run.recipe.data.max_length,
        epochs=epochs,
        steps=steps,
        seed=fit.run.seed(fit.name),
        buckets=fit.settings.buckets,
        **options,
    )


class ScoreCurve(keras.callbacks.Callback):
    """Scores an encoder several times in a stage.

    Args:
        fit: The stage; its `scored` is the number of scores, the last at the end, or
            "last_tenth".
        steps: Updates of the stage.
        history: Gets `scores`: `{"steps": [...], "cross_lingual": [...]}`, and a list
            of the scores of each track across languages, such as `en-de`. Those of the
            last tenth are there as `last_tenth`.
    """

    def __init__(self, fit: StageKind, steps: int, history: dict[str, Any]) -> None:
        super().__init__()
        self._fit = fit
        wanted, key = fit.settings.scored, "scores"
        if wanted == LAST_TENTH:
            self._places, key = {round(steps * 0.9), steps}, LAST_TENTH
        else:
            count = min(wanted, steps)
            self._places = {round(steps * part / count) for part in range(1, count + 1)}
        self._curve: dict[str, list[float]] = {"steps": [], "cross_lingual": []}
        history[key] = self._curve
        self._done = 0

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"done": self._done, "curve": self._curve}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._done = state["done"]
        self._curve.update(state["curve"])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Score after the updates that were chosen."""
        self._done += 1
        if self._done in self._places:
            run, encoder = self._fit.run, self._fit.encoder
            row = score_row(run.recipe.settings(), run.data_dir, encoder, full=False)
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


def check_corpora_of(run: Run, name: str, settings: PairStageSettings) -> None:
    """Raise `InputError` unless the corpora of a stage are in the data folder."""
    files = run.training_pairs()
    check_corpora(f"stages.{name}.corpora", settings.corpora, files)
    check_corpora("data.weights", list(run.recipe.data.weights or ()), files)


def check_updates(run: Run, name: str, settings: PairStageSettings) -> None:
    """Raise `InputError` unless there are a batch and updates beyond the warm-up."""
    check_corpora(f"stages.{name}.corpora", settings.corpora, run.texts.files)
    if settings.token_budget is None:
        count = run.pairs_of(settings)
        cut = full_batches(name, settings.batch_size, count)
        updates(name, settings, cut.steps)
        return
    least = least_budget(run.recipe.data.max_length)
    at_least(least, **{f"stages.{name}.token_budget": settings.token_budget})
    if steps := settings.steps:  # what epochs have is known once there are tokens
        updates(name, settings, lambda epochs: steps)
