"""What each action of a plan reads: the ground on which steps are shared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from keras_msd.recipes.runs.parallel_files import training_files
from keras_msd.recipes.runs.run import Run
from keras_msd.recipes.steps import data as data_steps
from keras_msd.recipes.steps import finish as end_steps
from keras_msd.recipes.steps import starts as start_steps
from keras_msd.recipes.steps import thin_deep as thin_deep_steps
from keras_msd.recipes.steps.regress import regress, regression_files
from keras_msd.recipes.steps.scores import evaluation_files
from keras_msd.recipes.steps.train import train, train_with_curve


class Reads(NamedTuple):
    """What an action of `plan` reads, apart from its code.

    Attributes:
        sections: Sections of the recipe; those that are not in `SECTIONS` always count.
        steps: Steps that it reads under fixed names, as far as the run has them.
        parents: Its arguments that name a step.
        values: Its arguments that count as they are; an argument that is in neither,
            nor in `ignored`, keeps the step from being shared.
        ignored: Its arguments that only name the step itself.
        files: Files of the data folder.
        teacher: Whether the teacher counts.
        assistant: Whether an assistant that the recipe names counts.
        drawn: Whether anything is drawn at random.
    """

    sections: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    files: Callable[[Run], list[Path]] | None = None
    teacher: bool = False
    assistant: bool = False
    drawn: bool = True


def _evaluation_files(run: Run) -> list[Path]:
    return evaluation_files(run.recipe, run.data_dir)


def _training_files(run: Run) -> list[Path]:
    return training_files(run.recipe, run.data_dir)


SECTIONS = (
    *("teacher", "data", "tokenizer", "assistant", "student", "stages"),
    *("starts", "evaluate"),
)


TRAINING = Reads(
    ("data", "teacher"),
    ("pairs", "tokenizer"),
    ("start", "assistant", "reduction"),
    ("name", "settings"),
    ("step",),
    teacher=True,
)
READS: dict[Callable[..., Any], Reads] = {
    data_steps.make_data: Reads(("data",), drawn=False),
    data_steps.take_pairs: Reads(("data",), files=_training_files, drawn=False),
    data_steps.take_tokenizer: Reads(
        ("data", "tokenizer"), ("pairs",), teacher=True, assistant=True, drawn=False
    ),
    end_steps.score_teacher: Reads(
        ("data", "teacher", "evaluate"),
        files=_evaluation_files,
        teacher=True,
        drawn=False,
    ),
    end_steps.score_reduction: Reads(
        ("data", "teacher", "evaluate"),
        parents=("step",),
        files=_evaluation_files,
        teacher=True,
        drawn=False,
    ),
    end_steps.score: Reads(
        ("data", "evaluate"),
        parents=("step",),
        values=("full", "others"),
        files=_evaluation_files,
        drawn=False,
    ),
    start_steps.fit_table: Reads(
        ("data", "teacher", "starts", "assistant"),
        ("pairs", "tokenizer"),
        teacher=True,
        assistant=True,
        drawn=False,
    ),
    start_steps.closed_form: Reads(
        ("data",), ("tokenizer", "ridge"), values=("width",)
    ),
    start_steps.start_assistant: Reads(
        ("data", "teacher", "starts", "assistant"),
        ("pairs", "tokenizer", "ridge"),
        teacher=True,
        assistant=True,
    ),
    start_steps.untrained_student: Reads(
        ("data",), ("tokenizer",), ("assistant",), ("settings",)
    ),
    start_steps.start_student: Reads(
        ("data", "starts"), ("pairs", "tokenizer"), ("student", "assistant")
    ),
    thin_deep_steps.thin_deep_student: Reads(
        ("data",), ("tokenizer",), values=("shape", "output_dim")
    ),
    thin_deep_steps.ridge_student: Reads(
        ("data",), ("pairs", "tokenizer", "ridge"), values=("shape", "output_dim")
    ),
    thin_deep_steps.reduce_teacher: Reads(
        ("data", "teacher", "stages"),
        ("pairs", "tokenizer"),
        ("like",),
        ("settings", "width"),
        teacher=True,
    ),
    start_steps.take_branch: Reads(("data",), ("tokenizer",), ("step",)),
    start_steps.give_branch: Reads(
        ("data",), ("pairs", "tokenizer"), ("step", "branch")
    ),
    train: TRAINING,
    train_with_curve: TRAINING._replace(
        sections=("data", "teacher", "evaluate"), files=_evaluation_files
    ),
    regress: Reads(
        ("data", "evaluate"),
        ("tokenizer",),
        ("start",),
        ("name", "settings"),
        ("step",),
        files=regression_files,
    ),
}
