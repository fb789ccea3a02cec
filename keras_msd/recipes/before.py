"""Everything that can be wrong with a run and is known before any work."""

from typing import Any

from keras_msd.checks import InputError
from keras_msd.recipes.data_steps import file_sizes, training_files
from keras_msd.recipes.regress_steps import check_regression
from keras_msd.recipes.scores import check_evaluation_files
from keras_msd.recipes.state import Run
from keras_msd.recipes.widths import check_widths


def check(run: Run) -> None:
    """Check files, widths, and that a run that goes on has what it began with.

    Raises:
        InputError: A file is missing, widths differ, or data or teacher were changed
            since the run began.
    """
    recipe = run.recipe
    if recipe.data.kind == "folder":
        training_files(run)
        check_evaluation_files(recipe, run.data_dir)
        check_regression(run)
    new = recipe.assistant.source == "new"
    body = run.teacher_encoder if new and recipe.assistant.start == "grow" else None
    check_widths(recipe, run.teacher, body, run.given_assistant)
    if recipe.tokenizer.source == "teacher" and run.teacher_encoder is None:
        raise InputError(
            '`tokenizer.source = "teacher"` needs a teacher whose tokenizer can be '
            f'read: "default", a folder or hf://. Received: teacher.source='
            f'"{recipe.teacher.source}". Take such a teacher, or `source = "train"`.'
        )
    if recipe.data.kind == "folder":
        _same(run, "pairs", "sizes", file_sizes(run), "files of the data folder")
    _same(run, "teacher_vectors", "fingerprint", run.teacher.fingerprint, "teacher")


def _same(run: Run, step: str, key: str, now: Any, what: str) -> None:
    record = run.folder.record(step)
    if record is not None and record["result"].get(key, now) != now:
        raise InputError(
            f"A run goes on with the {what} it began with. Received: others than "
            f"those that `{run.folder.path}` began with. Give them again, or another "
            "`out_dir`."
        )
