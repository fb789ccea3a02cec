"""The data of `regress_similarity`: rows of STS sets, and what it is chosen on."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.evaluate.callbacks import ScoreCallback
from keras_msd.evaluate.halves import CHOOSE, WHOLE
from keras_msd.evaluate.similarity import PIVOT, aligned_part, read_sts, sts
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.runs.updates import FullBatches, full_batches, updates
from keras_msd.recipes.stages.kinds import Fit, RegressSettings
from keras_msd.recipes.stages.pair_data import Data, batches_of

TRAIN, DEV = "train", "dev"
SCORED = (
    "keras_msd.data.pipeline.scored_dataset",
    "keras_msd.data.scored.ScoredBatches",
)


def sts_file(run: Run, name: str, split: str, language: str) -> Path:
    """Return the path of one file of an STS set."""
    return run.data_dir / "sts" / f"{name}.{split}.{language}.tsv.gz"


def training_sets(run: Run, settings: RegressSettings) -> dict[Path, str]:
    """Return the files of the stage, each with the scale of its scores.

    Raises:
        InputError: A set has none of the stage's languages, or a language no set.
    """
    languages = _languages(run, settings.languages)
    scales: dict[Path, str] = {}
    empty = set(languages)
    for name, scale in settings.sets.items():
        paths = [sts_file(run, name, TRAIN, language) for language in languages]
        files = {path: scale for path in paths if path.is_file()}
        if not files:
            raise InputError(
                "The stage `regress_similarity` found no file of a set. Looked for: "
                f"{', '.join(f'`{path}`' for path in paths)}. Put one there, or change "
                "`stages.regress_similarity.sets` or `.languages`."
            )
        empty -= {path.name.split(".")[2] for path in files}
        scales |= files
    if empty:
        raise InputError(
            "Every language of the stage `regress_similarity` needs a set. Received: "
            f"none for {', '.join(sorted(empty))} in "
            f"`{run.data_dir / 'sts'}`. Put a file {next(iter(settings.sets))}."
            f"{TRAIN}.<xx>.tsv.gz there, or change `.languages`."
        )
    return scales


def dev_files(run: Run, settings: RegressSettings) -> dict[str, Path]:
    """Return the file that the stage is chosen on, by language.

    Of a half the English file is read, too.

    Raises:
        InputError: A half is asked for, and there is no English file.
    """
    part, languages = run.recipe.evaluate.part, _dev_languages(run, settings)
    if part != WHOLE:
        languages = [PIVOT, *languages]
    files = {code: sts_file(run, settings.dev_set, DEV, code) for code in languages}
    if part != WHOLE and not files[PIVOT].is_file():
        raise InputError(
            "The English sentences of a dev set say which half a row is in. Received: "
            f'`evaluate.part = "{part}"`, and no `{files[PIVOT]}`. Put the file there, '
            "or leave `part` out."
        )
    return files


def regression_files(run: Run, settings: RegressSettings) -> list[Path]:
    """Return the files that the stage reads."""
    return [*training_sets(run, settings), *dev_files(run, settings).values()]


def check_regression(run: Run, name: str, settings: RegressSettings) -> None:
    """Raise `InputError` unless the stage's files are there, and rows for a batch."""
    rows = training_rows(run, settings)
    _dev_rows(run, settings)
    updates(name, settings, _cut(run, name, settings, len(rows)).steps)


def _cut(run: Run, name: str, settings: RegressSettings, rows: int) -> FullBatches:
    files = ", ".join(f"`{path}`" for path in training_sets(run, settings))
    return full_batches(name, settings.batch_size, rows, f"rows in {files}")


def training_rows(run: Run, settings: RegressSettings) -> list[Any]:
    """Return the rows of all files of the stage, gold in [0, 1]."""
    from keras_msd.data.scored import read_scored

    sets = training_sets(run, settings)
    return [row for path, scale in sets.items() for row in read_scored(path, scale)]


def scored_data(fit: Fit) -> Data:
    """Return the rows of all sets, with their gold scores."""
    rows = training_rows(fit.run, fit.settings)
    cut = _cut(fit.run, fit.name, fit.settings, len(rows))
    return Data("rows", cut, batches_of(SCORED, fit, rows))


class DevelopmentScores(ScoreCallback):
    """Chooses among the weights of a stage by Spearman on development rows.

    Args:
        fit: The stage.
        every: Updates between two scores.
        history: Gets `dev`: `{"steps": [...], "spearman": [...]}`.
    """

    def __init__(self, fit: Fit, every: int, history: dict[str, Any]) -> None:
        rows = _dev_rows(fit.run, fit.settings)
        super().__init__(
            fit.encoder,
            lambda encoder: _dev_score(encoder, rows),
            every=every,
            best_weights=True,
            patience=fit.settings.patience,
        )
        self._history = history

    def last(self) -> dict[str, float]:
        """Return the newest score by its name."""
        return {"dev": self.record[-1]["dev_spearman"]}

    def results(self) -> dict[str, Any]:
        """Return which weights were kept, and the scores before and after."""
        scores = [look["dev_spearman"] for look in self.record]
        steps = [look["step"] for look in self.record]
        self._history["dev"] = {"steps": steps, "spearman": scores}
        return {
            "best_step": self.best_step,
            "dev_before": scores[0],
            "dev_best": self.best,
        }


def development_scores(fit: Fit, steps: int, history: dict[str, Any]) -> Any:
    """Return the callback that chooses the stage's weights."""
    rows = len(training_rows(fit.run, fit.settings))
    epoch = rows // fit.settings.batch_size
    return DevelopmentScores(fit, fit.settings.evaluate_every or epoch, history)


def _dev_languages(run: Run, settings: RegressSettings) -> list[str]:
    return _languages(run, settings.dev_languages or settings.languages)


def _languages(run: Run, named: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(named or ("en", *run.recipe.data.languages)))


def _dev_rows(run: Run, settings: RegressSettings) -> dict[str, list[Any]]:
    """Return the rows that the stage is chosen on: never the half that is reported."""
    files = dev_files(run, settings)
    rows = {language: read_sts(path) for language, path in files.items()}
    if run.recipe.evaluate.part == WHOLE:
        return rows
    half = aligned_part(rows, CHOOSE)
    return {language: half[language] for language in _dev_languages(run, settings)}


def _dev_score(encoder: Any, rows: dict[str, list[Any]]) -> dict[str, Any]:
    scores = [sts(encoder, pairs)["spearman"] for pairs in rows.values()]
    return {"spearman": round(float(np.mean(scores)), 4), "primary": "spearman"}
