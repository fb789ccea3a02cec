"""The data of `regress_similarity` and `classify_inference`: rows of STS, NLI sets."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.data.pair import languages_of_pairs
from keras_msd.data.readers.inference import Inferences, read_inference
from keras_msd.evaluate.callbacks import ScoreCallback
from keras_msd.evaluate.similarity import PIVOT, aligned_part, read_sts, sts
from keras_msd.evaluate.splits import CHOOSE, WHOLE
from keras_msd.recipes.pair_data import Data, batches_of
from keras_msd.recipes.resources import Run
from keras_msd.recipes.stages import (
    InferenceSettings,
    RegressSettings,
    RowSettings,
    StageKind,
)
from keras_msd.recipes.updates import FullBatches, full_batches, updates

TRAIN, DEV = "train", "dev"
STS_ENDS = (".tsv.gz",)
NLI_ENDS = (".tsv.gz", ".jsonl.gz", ".tsv", ".jsonl")


def sts_file(run: Run, name: str, split: str, language: str) -> Path:
    """Return the path of one file of an STS set."""
    return run.data_dir / "sts" / f"{name}.{split}.{language}.tsv.gz"


def _training_files(
    run: Run, stage: str, settings: RowSettings, folder: Path, ends: tuple[str, ...]
) -> dict[Path, str]:
    """Return the files of a stage, each with its set.

    Raises:
        InputError: A set has none of the stage's languages, or a language no set.
    """
    languages = _languages(run, settings.languages)
    sets: dict[Path, str] = {}
    empty = set(languages)
    for name in settings.sets:
        places = [folder / f"{name}.{TRAIN}.{it}{ends[0]}" for it in languages]
        there = {
            language: path
            for language in languages
            for end in reversed(ends)
            if (path := folder / f"{name}.{TRAIN}.{language}{end}").is_file()
        }
        if not there:
            more = f" (or {', '.join(ends[1:])})" if ends[1:] else ""
            raise InputError(
                f"The stage `{stage}` found no file of a set. Looked for: "
                f"{', '.join(f'`{path}`' for path in places)}{more}. Put one there, or "
                f"change `stages.{stage}.sets` or `.languages`."
            )
        empty -= there.keys()
        sets |= dict.fromkeys(there.values(), name)
    if empty:
        raise InputError(
            f"Every language of the stage `{stage}` needs a set. Received: none for "
            f"{', '.join(sorted(empty))} in `{folder}`. Put a file "
            f"{next(iter(settings.sets))}.{TRAIN}.<xx>{ends[0]} there, or change "
            "`.languages`."
        )
    return sets


def training_sets(run: Run, settings: RegressSettings) -> dict[Path, str]:
    """Return the files of `regress_similarity`, each with the scale of its scores.

    Raises:
        InputError: A set has none of the stage's languages, or a language no set.
    """
    folder = run.data_dir / "sts"
    files = _training_files(run, "regress_similarity", settings, folder, STS_ENDS)
    return {path: settings.sets[name] for path, name in files.items()}


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
    cut = _cut(name, settings, rows, training_sets(run, settings))
    updates(name, settings, cut.steps)


def _cut(
    name: str, settings: RowSettings, rows: list[Any], paths: Iterable[Path]
) -> FullBatches:
    files = ", ".join(f"`{path}`" for path in paths)
    return full_batches(name, settings.batch_size, len(rows), f"rows in {files}")


def training_rows(run: Run, settings: RegressSettings) -> list[Any]:
    """Return the rows of all files of the stage, gold in [0, 1]."""
    from keras_msd.data.scored import read_scored

    sets = training_sets(run, settings)
    return [row for path, scale in sets.items() for row in read_scored(path, scale)]


def scored_data(fit: StageKind) -> Data:
    """Return the rows of all sets, with their gold scores."""
    rows = training_rows(fit.run, fit.settings)
    cut = _cut(fit.name, fit.settings, rows, training_sets(fit.run, fit.settings))
    return Data("rows", cut, batches_of("scored", fit, rows))


def inference_files(run: Run, settings: InferenceSettings) -> list[Path]:
    """Return the files that `classify_inference` reads.

    Raises:
        InputError: A set has none of the stage's languages, or a language no set.
    """
    folder = run.data_dir / "nli"
    return [*_training_files(run, "classify_inference", settings, folder, NLI_ENDS)]


def _inferences(run: Run, settings: InferenceSettings) -> Inferences:
    files = inference_files(run, settings)
    parts = [read_inference(path, settings.classes) for path in files]
    rows = [row for part in parts for row in part.rows]
    return Inferences(rows, sum(part.skipped for part in parts))


def check_inference(run: Run, name: str, settings: InferenceSettings) -> None:
    """Raise `InputError` unless the stage's files are there, and rows for a batch."""
    rows, paths = _inferences(run, settings).rows, inference_files(run, settings)
    updates(name, settings, _cut(name, settings, rows, paths).steps)


def inference_data(fit: StageKind) -> Data:
    """Return the rows of all sets, with their labels."""
    rows, skipped = _inferences(fit.run, fit.settings)
    cut = _cut(fit.name, fit.settings, rows, inference_files(fit.run, fit.settings))
    batches = batches_of("inference", fit, rows, classes=len(fit.settings.classes))
    return Data("rows", cut, batches, {"rows_skipped": skipped})


class DevelopmentScores(ScoreCallback):
    """Keeps the weights of `regress_similarity` that score best on development rows.

    Args:
        fit: The stage.
        history: Gets `dev`: `{"steps": [...], "spearman": [...]}`.
    """

    def __init__(self, fit: StageKind, history: dict[str, Any]) -> None:
        settings, dev = fit.settings, _dev_rows(fit.run, fit.settings)
        epoch = len(training_rows(fit.run, settings)) // settings.batch_size
        super().__init__(
            fit.encoder,
            lambda encoder: _dev_score(encoder, dev),
            every=settings.evaluate_every or epoch,
            best_weights=True,
            patience=settings.patience,
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


def _dev_languages(run: Run, settings: RegressSettings) -> list[str]:
    return _languages(run, settings.dev_languages or settings.languages)


def _languages(run: Run, named: tuple[str, ...]) -> list[str]:
    of_pairs = languages_of_pairs(run.recipe.data.languages)
    return list(dict.fromkeys(named or (PIVOT, *of_pairs)))


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
