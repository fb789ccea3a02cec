"""What can be wrong with a run and is known before its hours of work."""

from typing import Any

from keras_msd.checks import InputError, divides
from keras_msd.data.batches import check_reads
from keras_msd.evaluate.rows import check_evaluation_files, check_registered
from keras_msd.recipes.loading import Recipe
from keras_msd.recipes.resources import Run, development_pairs
from keras_msd.recipes.settings import StudentSettings
from keras_msd.recipes.stages import begins_at_table, reduces_teacher, stages_in_use
from keras_msd.recipes.starts import MOST_PIECES, thin_deep_shape
from keras_msd.recipes.train import check_batch, stage_data
from keras_msd.starts.closed_form import table_of


def check(run: Run) -> None:
    """Check files, vocabulary and dimensions.

    Raises:
        InputError: A file is missing, the teacher does not read a language, or
            dimensions differ.
    """
    recipe, source = run.recipe, run.recipe.teacher.source
    if recipe.data.kind == "folder":
        _check_data(run)
    else:
        check_registered(recipe.settings())
    grows = recipe.assistant.source == "new" and recipe.assistant.start == "grow"
    body = run.teacher_encoder if grows else None
    _check_widths(recipe, run.teacher, body, run.named_assistant)
    if recipe.tokenizer_source == "teacher" and run.teacher_encoder is None:
        raise InputError(
            "Without an assistant and `tokenizer.vocabulary_size` a recipe needs a "
            'teacher whose tokenizer can be read: "default", the folder of an encoder '
            f'or hf://. Received: teacher.source="{source}". Take such a teacher, or '
            "set `tokenizer.vocabulary_size`."
        )
    if run.pieces > MOST_PIECES and begins_at_table(recipe):
        raise InputError(
            f"A start that is fitted by ridge regression needs at most {MOST_PIECES:,} "
            f"pieces, as memory grows with their square. Received: {run.pieces:,}. Give"
            " `assistant.trim.pieces`, a smaller `tokenizer.vocabulary_size`, or "
            "another `start`."
        )


def _check_data(run: Run) -> None:
    files = run.training_pairs()  # each language and corpus is there
    if run.recipe.evaluate.artefacts:  # they are timed on held-out sentences
        development_pairs(run.recipe, run.data_dir)
    check_evaluation_files(run.recipe.settings(), run.data_dir)
    for name, settings in stages_in_use(run.recipe):
        stage_data(run, name, settings).check_files()
    guides = {side: [run.teacher] for side in ("source", run.target_side)}
    for name, parts in run.guide_parts.items():
        for side in ("source", "target"):
            if side == "source" or run.recipe.guides[name].multilingual:
                guides.setdefault(side, []).extend(parts)
    for file in files:
        for side, of_side in guides.items():
            for guide in of_side:
                check_reads(guide, side, file)


def check_stages(run: Run) -> None:
    """Check every stage against the pairs, once there are some.

    Raises:
        InputError: A stage names a corpus that is not there, or its data are too few
            for a batch or for its warm-up.
    """
    recipe = run.recipe
    for name, settings in stages_in_use(recipe):
        stage_data(run, name, settings).check_rows()
    if reduces_teacher(recipe):
        size = recipe.stages["reduce_teacher"].batch_size
        pairs = run.texts_of(recipe.stages["teach_thin_deep"])
        check_batch("reduce_teacher", size, len(pairs))


def _check_widths(
    recipe: Recipe, teacher: Any, body: Any | None, assistant: Any | None
) -> None:
    """Check the teacher against the assistant, and the students against both.

    Args:
        recipe: The recipe.
        teacher: Has `dim`.
        body: The teacher as an encoder of ours, None if it is none.
        assistant: The loaded encoder, or None where the recipe makes a new one.

    Raises:
        InputError: Two dimensions differ, a unit does not fit the assistant's depth, a
            closed-form start is wider than the teacher, or a start or stage needs a
            word branch that is not there, or excludes one.
    """
    settings, students = recipe.assistant, recipe.student.each().items()
    if recipe.student.kind == "thin_deep":
        for name, student in students:
            _check_thin_deep(name, student, teacher.dim)
    if settings.source == "none":
        return
    if assistant is None and settings.start == "grow":
        assistant = _grown_from(recipe, body)
    if settings.start == "body":
        _check_table(settings.source, assistant, teacher.dim)
        assistant = None
    shape: Any = assistant.config if assistant else settings
    # What grows from the teacher has a branch only where the recipe says so.
    branch = (settings if settings.source == "new" else shape).word_branch
    if recipe.stages["contrastive_learning"].branch_alone and not branch:
        raise InputError(
            "A word branch is trained alone only where there is one. Received: "
            "`stages.contrastive_learning.branch_alone`, and an assistant without a "
            "branch. Set `assistant.word_branch = true`, or leave it out."
        )
    hidden = shape.hidden_dim or teacher.dim
    dim = shape.dim if assistant else settings.projection_dim or hidden
    if teacher.dim != dim:
        raise InputError(
            "Teacher and assistant must have the same dimension, as one imitates the "
            f"other's embeddings. Received: teacher `{recipe.teacher.source}` "
            f"{teacher.dim}, assistant `{settings.source}` {dim}. Set "
            f"`assistant.projection_dim = {teacher.dim}`, or take a teacher of "
            f"dimension {dim}."
        )
    for name, student in students:
        _check_student(name, student, shape.num_layers)
        if branch and student.start == "ordered":
            raise InputError(
                "A table is put in order for a body alone, and a word branch shares "
                f'it. Received: `start = "ordered"` of {name}, and an assistant with '
                'a branch. Set `start = "svd"`, or `assistant.word_branch = false`.'
            )


def _check_student(name: str, student: StudentSettings, depth: int | None) -> None:
    if depth is not None and student.unit_layers > depth:
        raise InputError(
            f"`unit_layers` of {name} must be at most the assistant's layers. Received:"
            f" unit_layers={student.unit_layers}, num_layers={depth}. Lower it."
        )
    if depth is not None and student.repeats is None:
        divides({f"unit_layers of {name}": student.unit_layers}, {"num_layers": depth})


def _check_thin_deep(name: str, student: StudentSettings, dim: int) -> None:
    hidden = thin_deep_shape(student).get("hidden_dim")
    if student.start == "ridge" and not (hidden and hidden <= dim):
        raise InputError(
            'A closed-form start, `start = "ridge"`, has at most the teacher\'s '
            f"dimension, {dim}. Received: {name} of width {hidden}. Set "
            '`student.hidden_dim`, or `start = "random"`.'
        )


def _check_table(source: str, encoder: Any, dim: int) -> None:
    width = table_of(encoder).shape[1]
    if width != dim:
        raise InputError(
            "A body needs a word table of the teacher's dimension. Received: "
            f"`{source}` {width}, teacher {dim}. Take one that learnt from this "
            "teacher."
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
        asked, grown = getattr(recipe.assistant, key), getattr(body.config, key)
        if asked not in (None, grown):
            raise InputError(
                "An assistant grown from the teacher has the teacher's body. Received: "
                f"assistant.{key}={asked}, teacher {grown}. Set `assistant.{key} = "
                f"{grown}`, or leave it out."
            )
    branch = bool(recipe.assistant.word_branch)
    width = recipe.assistant.bottleneck_dim
    if branch != (width is not None):
        raise InputError(
            "An assistant grown from the teacher has a narrower table where a word "
            f"branch shares it, and only there. Received: assistant.word_branch="
            f"{branch}, assistant.bottleneck_dim={width}. Set both, or leave both out."
        )
    return body
