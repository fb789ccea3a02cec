"""The last stage of a run: regression on STS scores, chosen on development data."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.files import write_json
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.runs.updates import stages_in_use, updates
from keras_msd.recipes.schema.training import RegressSettings
from keras_msd.recipes.steps.train import freeze, loss_history, optimizer

TRAIN, DEV = "train", "dev"


def sts_file(run: Run, name: str, split: str, language: str) -> Path:
    """Return the path of one file of an STS set."""
    return run.data_dir / "sts" / f"{name}.{split}.{language}.tsv.gz"


def training_sets(run: Run, settings: RegressSettings) -> dict[Path, str]:
    """Return the files of the stage, each with the scale of its scores.

    Raises:
        InputError: A set has none of the stage's languages, or a language no set.
    """
    languages = _languages(run, settings.languages)
    found: dict[Path, str] = {}
    empty = set(languages)
    for name, scale in settings.sets.items():
        own = [sts_file(run, name, TRAIN, language) for language in languages]
        files = {path: scale for path in own if path.is_file()}
        if not files:
            raise InputError(
                "The stage `regress_similarity` found no file of a set. Looked for: "
                f"{', '.join(f'`{path}`' for path in own)}. Put one there, or change "
                "`stages.regress_similarity.sets` or `.languages`."
            )
        empty -= {path.name.split(".")[2] for path in files}
        found |= files
    if empty:
        raise InputError(
            "Every language of the stage `regress_similarity` needs a set. Received: "
            f"none for {', '.join(sorted(empty))} in "
            f"`{run.data_dir / 'sts'}`. Put a file {next(iter(settings.sets))}."
            f"{TRAIN}.<xx>.tsv.gz there, or change `.languages`."
        )
    return found


def dev_files(run: Run, settings: RegressSettings) -> dict[str, Path]:
    """Return the file that the stage is chosen on, by language."""
    languages = _languages(run, settings.dev_languages or settings.languages)
    return {
        language: sts_file(run, settings.dev_set, DEV, language)
        for language in languages
    }


def regression_files(run: Run) -> list[Path]:
    """Return the files that the stage reads, none where it is skipped."""
    settings = run.recipe.stages.regress_similarity
    if settings.skip:
        return []
    return [*training_sets(run, settings), *dev_files(run, settings).values()]


def check_regression(run: Run) -> None:
    """Raise `InputError` unless the stage's files are there, and rows for a batch."""
    for name, settings in stages_in_use(run.recipe):
        if isinstance(settings, RegressSettings):
            rows = training_rows(run, settings)
            _dev_rows(run, settings)
            _updates(run, name, settings, len(rows))


def _updates(run: Run, name: str, settings: RegressSettings, rows: int) -> int:
    files = ", ".join(f"`{path}`" for path in training_sets(run, settings))
    return updates(name, settings, rows, f"rows in {files}")


def training_rows(run: Run, settings: RegressSettings) -> list[Any]:
    """Return the rows of all files of the stage, gold in [0, 1]."""
    from keras_msd.data.scored_rows import read_scored

    sets = training_sets(run, settings)
    return [row for path, scale in sets.items() for row in read_scored(path, scale)]


def regress(
    run: Run, folder: Path, step: str, name: str, settings: RegressSettings, start: str
) -> dict[str, Any]:
    """Run the stage and leave `encoder/` and `history.json`.

    Args:
        run: The run.
        folder: The step's folder.
        step: Name of the step.
        name: Name of the stage; with the recipe's seed it decides the order of rows.
        settings: The stage's.
        start: Step that left the encoder to train.

    Returns:
        `steps` done, `rows` drawn, `best_step` and the development score before
        training and of the weights that were kept.
    """
    from keras_msd.evaluate.callbacks import ScoreCallback
    from keras_msd.stages.regress_similarity import RegressSimilarity

    rows, dev = training_rows(run, settings), _dev_rows(run, settings)
    encoder = run.encoder(start)
    freeze(encoder, settings)
    per_epoch = len(rows) // settings.batch_size
    steps = _updates(run, name, settings, len(rows))
    batches = _dataset(
        rows,
        encoder,
        batch_size=settings.batch_size,
        max_length=run.recipe.data.max_length,
        epochs=math.ceil(steps / per_epoch),
        seed=run.seed(name),
    )
    stage = RegressSimilarity(encoder)
    stage.compile(optimizer=optimizer(settings, steps))
    history = loss_history(steps, step)
    chosen = ScoreCallback(
        encoder,
        lambda one: _dev_score(one, dev),
        every=settings.evaluate_every or per_epoch,
        best_weights=True,
        patience=settings.patience,
    )
    stage.fit(
        batches,
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
        callbacks=[history, chosen],
    )
    encoder.save(folder / "encoder")
    scores = [row["dev_spearman"] for row in chosen.record]
    history.record["dev"] = {
        "steps": [row["step"] for row in chosen.record],
        "spearman": scores,
    }
    write_json(folder / "history.json", history.record)
    return {
        "steps": chosen.step,
        "rows": chosen.step * settings.batch_size,
        "best_step": chosen.best_step,
        "dev_before": scores[0],
        "dev_best": chosen.best,
    }


def _languages(run: Run, wanted: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(wanted or ("en", *run.recipe.data.languages)))


def _dev_rows(run: Run, settings: RegressSettings) -> dict[str, list[Any]]:
    from keras_msd.evaluate.sts import read_sts

    files = dev_files(run, settings)
    return {language: read_sts(path) for language, path in files.items()}


def _dev_score(encoder: Any, rows: dict[str, list[Any]]) -> dict[str, Any]:
    from keras_msd.evaluate import sts

    scores = [sts(encoder, own)["spearman"] for own in rows.values()]
    return {"spearman": round(float(np.mean(scores)), 4), "primary": "spearman"}


def _dataset(*args: Any, **kwargs: Any) -> Any:
    import keras

    if keras.backend.backend() == "tensorflow":
        from keras_msd.data.pipeline import scored_dataset

        return scored_dataset(*args, **kwargs)
    from keras_msd.data.scored_batches import ScoredBatches

    return ScoredBatches(*args, **kwargs)
