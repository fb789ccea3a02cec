"""What can be wrong with a run and is known before its hours of work."""

from typing import Any

from keras_msd.checks import InputError
from keras_msd.recipes.runs.environment import (environment, file_digests)
from keras_msd.recipes.runs.updates import (batches, reduces_teacher, stages_in_use, updates)
from keras_msd.recipes.runs.parallel_files import (check_corpora, corpus_of, development_pairs, file_sizes, training_pairs)
from keras_msd.recipes.steps.regress import (check_regression, regression_files)
from keras_msd.recipes.steps.scores import (check_evaluation_files, evaluation_files)
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.schema.training import StageSettings
from keras_msd.recipes.runs.shape_checks import check_widths


def check(run: Run) -> None:
    """Check files, widths, and that a run that goes on has what it began with.

    Raises:
        InputError: A file is missing, widths differ, or data or teacher were changed
            since the run began.
    """
    recipe = run.recipe
    if recipe.data.kind == "folder":
        files = training_pairs(recipe, run.data_dir)
        _check_corpora(run, [corpus_of(file.name) for file in files])
        if recipe.evaluate.artefacts:  # they are timed on held-out sentences
            development_pairs(recipe, run.data_dir)
        check_evaluation_files(recipe, run.data_dir)
        check_regression(run)
    new = recipe.assistant.source == "new"
    body = run.teacher_encoder if new and recipe.assistant.start == "grow" else None
    check_widths(recipe, run.teacher, body, run.given_assistant)
    if recipe.tokenizer.source == "teacher" and run.teacher_encoder is None:
        raise InputError(
            '`tokenizer.source = "teacher"` needs a teacher whose tokenizer can be '
            'read: "default", the folder of an encoder or hf://; a published '
            "SavedModel keeps its own in its graph. Received: teacher.source="
            f'"{recipe.teacher.source}". Take such a teacher, or `source = "train"`.'
        )
    if recipe.data.kind == "folder":
        sizes = file_sizes(recipe, run.data_dir)
        _same(run, "pairs", "sizes", sizes, "files of the data folder")
    _same(run, "teacher_vectors", "fingerprint", run.teacher.fingerprint, "teacher")


def facts(run: Run) -> dict[str, Any]:
    """Return what a run must have when it goes on as it had when it began.

    Returns:
        `environment()`, and `files`: hashes of those that the run is scored and its
        regression trained on, by their paths in the data folder.
    """
    if run.recipe.data.kind == "made":
        return environment() | {"files": {}}
    files = evaluation_files(run.recipe, run.data_dir) + regression_files(run)
    names = [path.relative_to(run.data_dir).as_posix() for path in files]
    hashes = file_digests(files)
    return environment() | {"files": dict(zip(names, hashes, strict=True))}


def check_stages(run: Run) -> None:
    """Check every stage against the pairs, once there are some.

    Raises:
        InputError: A stage names a corpus that is not there, or its data are too few
            for a batch or for its warm-up.
    """
    recipe = run.recipe
    _check_corpora(run, [corpus_of(file.name) for file in run.texts.files])
    for name, settings in stages_in_use(recipe):
        if isinstance(settings, StageSettings):
            updates(name, settings, run.pairs_of(settings))
    if reduces_teacher(recipe):
        size = recipe.stages.reduce_teacher.batch_size
        batches("reduce_teacher", size, run.pairs_of(recipe.stages.teach_thin_deep))
    check_regression(run)


def _check_corpora(run: Run, known: list[str]) -> None:
    for name, settings in stages_in_use(run.recipe):
        if isinstance(settings, StageSettings):
            check_corpora(f"stages.{name}.corpora", settings.corpora, known)


def _same(run: Run, step: str, key: str, now: Any, what: str) -> None:
    record = run.folder.record(step)
    if record is not None and record["result"].get(key, now) != now:
        raise InputError(
            f"A run goes on with the {what} it began with. Received: others than "
            f"those that `{run.folder.path}` began with. Give them again, or another "
            "`out_dir`."
        )
