"""Widths that must agree, compared before any work."""

from typing import Any

from keras_msd.checks import InputError, divides
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.recipes.steps.thin_deep import thin_deep_shape
from keras_msd.recipes.schema.training import StudentSettings


def check_widths(
    recipe: Recipe, teacher: Any, body: Any | None, assistant: Any | None
) -> None:
    """Check teacher against assistant, and every student against the assistant.

    Args:
        recipe: The recipe.
        teacher: Has `dim`.
        body: The teacher as an encoder of ours, None if it is none.
        assistant: The loaded encoder, or None where the recipe makes a new one.

    Raises:
        InputError: Two widths differ, a unit does not fit the assistant's depth, or a
            closed-form start is wider than the teacher.
    """
    ours = recipe.assistant
    if recipe.student.kind == "thin_deep":
        for name, student in recipe.student.each().items():
            _check_thin_deep(name, student, teacher.dim)
    if ours.source == "none":
        return
    if assistant is None and ours.start == "grow":
        assistant = _grown_from(recipe, body)
    config = assistant.config if assistant else None
    branch = config.word_branch if config and ours.source != "new" else ours.word_branch
    if recipe.stages.contrastive_learning.branch_alone and not branch:
        raise InputError(
            "A word branch is trained alone only where there is one. Received: "
            "`stages.contrastive_learning.branch_alone`, and an assistant without a "
            "branch. Set `assistant.word_branch = true`, or leave it out."
        )
    hidden = config.hidden_dim if config else ours.hidden_dim or teacher.dim
    dim = config.dim if config else ours.projection_dim or hidden
    if teacher.dim != dim:
        raise InputError(
            "Teacher and assistant must be of the same width, as one imitates the "
            f"other's vectors. Received: teacher `{recipe.teacher.source}` "
            f"{teacher.dim}, assistant `{ours.source}` {dim}. Set "
            f"`assistant.projection_dim = {teacher.dim}`, or take a teacher of width "
            f"{dim}."
        )
    depth = config.num_layers if config else ours.num_layers
    for name, student in recipe.student.each().items():
        _check_student(name, student, hidden, depth)


def _check_student(
    name: str, student: StudentSettings, hidden: int, depth: int | None
) -> None:
    if student.hidden_dim not in (None, hidden):
        raise InputError(
            "Assistant and student must be of the same width, as the student's layers "
            f"are the assistant's. Received: assistant {hidden}, {name} "
            f"{student.hidden_dim}. Set `student.hidden_dim = {hidden}` (or leave it "
            f"out), or take an assistant of width {student.hidden_dim}; a student gets "
            "smaller by `bottleneck_dim` and `unit_layers`."
        )
    if depth is None:
        return
    if student.unit_layers > depth:
        raise InputError(
            f"`unit_layers` of {name} must be at most the assistant's layers. Received:"
            f" unit_layers={student.unit_layers}, num_layers={depth}. Lower it."
        )
    if student.repeats is None:
        divides({f"unit_layers of {name}": student.unit_layers}, {"num_layers": depth})


def _check_thin_deep(name: str, student: StudentSettings, dim: int) -> None:
    hidden = thin_deep_shape(student).get("hidden_dim")
    if student.start == "ridge" and not (hidden and hidden <= dim):
        raise InputError(
            'A closed-form start, `start = "ridge"`, is a part of the teacher\'s '
            f"vectors, of at most {dim} numbers. Received: {name} of width {hidden}. "
            'Set `student.hidden_dim`, or `start = "random"`.'
        )


def _grown_from(recipe: Recipe, body: Any | None) -> Any:
    if body is None:
        raise InputError(
            '`assistant.start = "grow"` needs a teacher whose weights can be read: '
            '"default", a folder or hf://. Received: '
            f'teacher.source="{recipe.teacher.source}". Take such a teacher, or '
            "another `start`."
        )
    for key in ("num_layers", "hidden_dim", "num_heads", "intermediate_dim"):
        wanted, own = getattr(recipe.assistant, key), getattr(body.config, key)
        if wanted not in (None, own):
            raise InputError(
                "An assistant grown from the teacher has the teacher's body. Received: "
                f"assistant.{key}={wanted}, teacher {own}. Set `assistant.{key} = "
                f"{own}`, or leave it out."
            )
    return body
